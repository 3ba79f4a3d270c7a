package console_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"muster/internal/drivers/fabric/fabrictest"
	"muster/internal/kit/testall"
	"muster/test/rig"
)

// pages are all that the console has, by name.
func pages() map[string]string {
	return map[string]string{
		"home": "/projects/default", "clusters": "/projects/default/clusters", "cluster": "/projects/default/clusters/cfd",
		"new": "/projects/default/new", "file": "/projects/default/clusters/cfd/file", "usage": "/projects/default/usage",
		"snapshots": "/projects/default/snapshots", "members": "/projects/default/members", "calendar": "/calendar",
		"access": "/access", "sessions": "/sessions", "audit": "/audit", "site": "/site", "machines": "/machines",
		"machine": "/machines/local-1", "jobs": "/projects/default/jobs", "stock": "/stock", "people": "/people",
		"terminal": "/projects/default/clusters/cfd/terminal", "files": "/projects/default/clusters/cfd/files",
		"cost": "/projects/default/cost/cfd", "networks": "/networks", "racks": "/racks",
		"racks by phase": "/racks?phase=in-use", "fabrics": "/fabrics", "fabric": "/fabrics/ib0", "benchmarks": "/benchmarks",
	}
}

// TestEveryPageIsForEverybody has axe look at all pages of a site with a cluster and jobs, light and dark, wide and narrow:
// for what WCAG 2.2 AA asks that a program can tell. They fit on 320 pixels, too (1.4.10, reflow). `make pictures` has it make
// pictures.
func TestEveryPageIsForEverybody(t *testing.T) {
	testall.Only(t)
	folder, axe := os.Getenv("MUSTER_TEST_PICTURES"), axe(t)
	r := rig.New(t, "")
	r.Start()
	r.Run("machines", "add", "--local", "6", "--wait")
	r.Run("create", "-f", r.File("cfd.yaml", "name: cfd\nqueues:\n  - {name: mpi, nodes: 3}\n  - {name: post, min: 0, max: 2}\n"+
		"access:\n  apps:\n    - {name: jupyter, port: 8888}\n"), "--wait")
	var compared struct{ A struct{ ID string } }
	r.Get(&compared, "bench", "compare", "cfd", "cfd", "--suite", "stream", "--brief", "--wait")
	run := compared.A.ID
	r.Run("machines", "place", "local-2", "--rack", "r01", "--unit", "3")
	r.Run("machines", "place", "local-3", "--rack", "r01", "--unit", "8", "--height", "2", "--slot", "1")
	r.Run("machines", "place", "local-4", "--rack", "r01", "--unit", "8", "--height", "2", "--slot", "2")
	r.Run("fabric", "add", "ib0", "--manager", fabrictest.HostPort(0).String())
	r.Run("fabric", "import", "ib0", r.File("snapshot.txt", fabrictest.FatTree(8, 4, 2)))
	r.Run("ssh", "cfd", "--", "sbatch -p mpi -J bad --wrap 'exit 3'")
	r.Until("a job is remembered", func() bool { return strings.Contains(r.Run("jobs", "--state", "failed"), "bad") })
	r.Run("ssh", "cfd", "--", "sbatch -N2 --exclusive -p mpi -J solve --wrap 'sleep 600'; sbatch -N3 --exclusive -p mpi -J mesh --wrap 'sleep 600'")
	b := open(t)
	b.expects("401", "/v1/login", "409") // there is no room for the new cluster
	look := func(name string) {
		if folder != "" {
			b.picture(folder, name)
		}
		b.forEverybody(name, axe)
	}
	b.goTo(strings.TrimSpace(r.Run("console", "--no-browser")))
	b.until("the page is there", `document.querySelector('h1') !== null`)
	look("sign-in")
	b.click("Sign in")
	b.shows("cfd")
	address, _, _ := strings.Cut(r.Run("console", "--no-browser"), "/sign-in")
	all := pages()
	all["benchmark"] = "/benchmarks/" + run
	for name, path := range all {
		b.goTo(address + path)
		b.until("the page is there", `document.querySelector('h1') !== null && document.querySelector('.skeleton') === null`)
		if name == "jobs" {
			b.shows("exit 3")
		}
		look(name)
	}
	b.goTo(address + "/benchmarks")
	b.click("Run a suite")
	b.click("Beside another")
	look("run a suite")
	b.acts("Run", noDialog)
	runs := strings.Split(strings.TrimSpace(r.Run("bench", "runs", "cfd")), "\n")
	if len(runs) != 5 || strings.Count(strings.Join(runs, "\n"), " quick ") != 2 {
		t.Errorf("not two runs were begun in the browser: %v", runs)
	}
	report := filepath.Join(t.TempDir(), "report.html") // which people send to each other
	r.Run("bench", "report", run, "-f", report)
	b.goTo("file://" + report)
	b.until("the page is there", `document.querySelector('h1') !== null`)
	look("report")
}

// axe is the script of axe-core, which is one of the tools that the console is built with.
func axe(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile("../../ui/tools/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Skip("axe-core is not there: `make ui`, `make pictures` and `make test-all` install it")
	}
	return string(script)
}

// forEverybody reports what is wrong with the page that is shown.
func (b *browser) forEverybody(name, axe string) {
	b.Helper()
	b.do("load axe", chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](axe+"; true"))
		return err
	}))
	for _, width := range []int64{1440, 320} {
		b.do("a screen", chromedp.EmulateViewport(width, 940))
		for _, scheme := range []string{"light", "dark"} {
			b.until(scheme, `(() => {
				document.documentElement.style.colorScheme = '`+scheme+`'
				delete globalThis.found
				axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations']}).then((r) => {
					const what = (n) => n.target + ' ' + n.failureSummary
					globalThis.found = r.violations.map((v) => v.id + ': ' + v.nodes.slice(0, 3).map(what).join('; ')).join('; ')
				}).catch((why) => { globalThis.found = String(why) })
				return true
			})()`)
			b.until("axe has looked", `globalThis.found !== undefined`)
			if found := b.value(`globalThis.found`); found != "" {
				b.Errorf("%s, %s, %d pixels wide: %s", name, scheme, width, found)
			}
		}
	}
	if !b.within(patience/20, `document.documentElement.scrollWidth <= innerWidth`) {
		b.Errorf("%s is wider than 320 pixels: %s", name, b.value(`String(document.documentElement.scrollWidth)`))
	}
	b.do("a wide screen", chromedp.EmulateViewport(1440, 940))
}
