package console_test

import (
	"strings"
	"testing"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

func TestAnOperatorTakesAMachineOutOfServiceAndBack(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	r.Start()
	r.Run("machines", "add", "--local", "4", "--wait")
	r.Run("create", "cfd", "--nodes", "2", "--wait")
	b := open(t)
	b.expects("401", "/v1/login")
	b.goTo(strings.TrimSpace(r.Run("console", "--no-browser")))
	b.click("Sign in")
	b.shows("cfd")
	on := func(name string) string {
		var c struct {
			Nodes []struct{ Name, Machine string }
		}
		r.Get(&c, "get", "cfd")
		for _, n := range c.Nodes {
			if n.Name == name {
				return n.Machine
			}
		}
		return ""
	}
	machine := on("n1")
	site, _, _ := strings.Cut(b.address(), "/projects/")
	b.goTo(site + "/machines")
	b.click(machine)
	b.click("Quarantine")
	b.fill("Why", "a fan is loud")
	b.acts("Quarantine", noDialog)
	phase := func(name string) string {
		return `document.querySelector('.head .pill')?.textContent === '` + name + `'`
	}
	b.until("it is quarantined", phase("quarantined"))
	b.shows("a fan is loud")
	page := b.address()
	b.goTo(site + "/projects/default/clusters/cfd")
	r.Until("n1 is on another machine", func() bool { now := on("n1"); return now != "" && now != machine })
	b.shows("head and 2 nodes ready")
	b.goTo(page)
	b.click("Free")
	b.acts("Free", noDialog)
	b.until("it is in service", phase("available"))
}
