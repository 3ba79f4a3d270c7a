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

func TestAnOperatorAddsMachinesAndAProjectAndReadsWhatHasHappened(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	r.Start()
	r.Run("users", "add", "olga")
	b := open(t)
	b.expects("401", "/v1/login", "/v1/projects") // there is no such owner
	b.goTo(strings.TrimSpace(r.Run("console", "--no-browser")))
	site, _, _ := strings.Cut(b.address(), "/sign-in")
	b.click("Sign in")
	b.shows("default has no cluster yet")

	b.goTo(site + "/machines")
	for _, name := range []string{"local-1", "local-2", "local-3", "local-4"} {
		b.click("Add machines")
		b.click("Of the controller’s host")
		b.acts("Enrol", noDialog)
		b.shows(name)
	}
	b.click("Add machines")
	b.fill("Name", "r1n1")
	b.fill("MACs", "52:54:00:12:34:56")
	b.fill("Power", "wol")
	b.shows("There is none: muster networks add declares one.") // to boot from, and so there is nothing to press
	b.click("Cancel")
	b.until("all are available", `document.querySelectorAll('.vrow .pill').length === 4 &&
		[...document.querySelectorAll('.vrow .pill')].every((p) => p.textContent === 'available')`)
	b.click("local-1")
	b.shows("No node on it has been tested.")
	r.Run("create", "cfd", "--nodes", "3", "--wait")
	b.until("its test is there", `document.querySelector('[aria-label="Table: Acceptance tests"] .pill')?.textContent === 'passed'`)

	b.goTo(site + "/racks")
	b.click("Place machines")
	b.fill("Which", "local")
	b.fill("Rack", "r01")
	b.shows("local-1 to local-4: units 1 to 4.")
	b.acts("Place", noDialog)
	b.until("all stand there", `document.querySelectorAll('[aria-label="Rack r01"] a').length === 4`)
	drag := func(onto, what string) {
		b.Helper()
		b.until(what, `(() => {
			const place = document.querySelector('`+onto+`'), one = document.querySelector('.box[href="/machines/local-4"]')
			const with_ = {bubbles: true, cancelable: true, dataTransfer: new DataTransfer()}
			if (!one.draggable) return false
			if (one.dataset.drags !== '`+onto+`') {
				one.dataset.drags = '`+onto+`'
				one.dispatchEvent(new DragEvent('dragstart', with_))
				return false
			}
			const over = new DragEvent('dragover', with_)
			place?.dispatchEvent(over)
			if (!over.defaultPrevented) return false // it takes nothing, or does not know yet
			const clientY = place.getBoundingClientRect().bottom - 10 * 24 + 8
			place.dispatchEvent(new DragEvent('drop', {...with_, clientY}))
			return true
		})()`)
	}
	drag(`[aria-label="Rack r01"] .u`, "it is dropped on another unit")
	b.until("it stands there", `document.querySelector('.rk .box[href="/machines/local-4"]')?.textContent.includes('unit 10') === true`)
	if out := r.Run("machines", "get", "local-4"); !strings.Contains(out, "rack r01, unit 10") {
		t.Errorf("local-4 stands elsewhere:\n%s", out)
	}
	drag(".homeless", "it is taken out")
	b.until("it stands nowhere", `document.querySelector('.homeless .box[href="/machines/local-4"]') !== null`)
	b.goTo(site + "/machines/local-4")
	b.click("Place")
	b.fill("Rack", "r02")
	b.acts("Place", noDialog)
	b.until("it is told", `[...document.querySelectorAll('dd')].some((d) => d.textContent === 'rack r02, unit 1')`)

	b.goTo(site + "/people")
	b.click("New project")
	b.fill("Name", "aero")
	b.fill("Owner", "nobody")
	b.click("Make it")
	b.shows("person nobody: not found")
	b.fill("Owner", "olga")
	b.acts("Make it", noDialog)
	b.shows("aero")

	r.Run("machines", "add", "--local", "1", "--wait")
	r.Run("machines", "quarantine", "local-5", "--reason", "burnt smell")
	b.goTo(site + "/site")
	b.shows("1 machine is in quarantine")
	b.click("Acknowledge machines-quarantined")
	b.fill("Note", "the vendor comes")
	b.acts("Acknowledge", noDialog)
	b.shows("the vendor comes")
	b.click("Take back that machines-quarantined is known")
	b.acts("Take back", noDialog)
	b.until("nobody knows", `!document.querySelector('.attn p')`)
	b.until("the last day", `[...document.querySelectorAll('[aria-label="Table: The last day"] tr')].some((r) =>
		r.textContent.startsWith('Machines') && r.querySelector('path')?.getAttribute('d') !== '')`)
	b.until("the newest events", `document.querySelectorAll('.feed time').length === 12`)
	b.click("Older ones")
	b.until("older ones, too", `document.querySelectorAll('.feed time').length >= 24`)
	r.Run("projects", "add", "naval", "--owner", "olga")
	b.shows("project naval")
	b.until("all of them", `document.querySelectorAll('.feed time').length >= 25`)

	b.goTo(site + "/projects/default/usage")
	b.until("the cluster's line", `document.querySelector('[aria-label="Table: Usage by queue"] a') !== null`)
	b.click("cfd")
	b.shows("Cost of cfd")
	for _, node := range []string{"n1", "n2", "n3", "head"} {
		b.shows(node)
	}
}
