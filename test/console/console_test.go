// Package console_test uses the console as people do: in a real browser, of a real controller with real clusters.
package console_test

import (
	"strings"
	"testing"

	"muster/test/rig"
)

// noDialog is true when no dialog is open.
const noDialog = `document.querySelector('[role=dialog]') === null`

// terminalShows is true when the terminal shows a text.
func terminalShows(text string) string {
	return `(document.querySelector('.xterm-rows')?.textContent ?? '').includes(` + quoted(text) + `)`
}

func TestAClusterFromItsFormToItsEndInABrowser(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "")
	r.Start()
	r.Run("machines", "add", "--local", "4", "--wait")
	b := open(t)
	b.expects("401", "/v1/login") // before it is signed in, and after it was; the site has no provider

	b.goTo(strings.TrimSpace(r.Run("console", "--no-browser")))
	b.click("Sign in")
	b.shows("default has no cluster yet")

	b.click("New cluster")
	b.fill("Name", "web")
	b.shows("name: web") // in the file beside the form
	b.shows("Fits now")
	b.acts("Create web", `location.pathname.endsWith('/clusters/web')`)
	b.shows("head and 2 nodes ready")

	page := b.address()
	b.click("Terminal")
	b.until("a prompt", terminalShows("$"))
	b.press("echo from-$((40+2)) on $(hostname)\r")
	b.until("a command's answer", terminalShows("from-42 on head"))
	b.goTo(b.address()) // it has its number in it
	b.until("the same terminal", terminalShows("from-42 on head"))
	b.press("exit\r")
	b.shows("Open another")
	if out := r.Run("sessions", "list", "--all"); strings.Count(out, "default/web") != 1 {
		t.Errorf("not one session: %s", out)
	}
	b.goTo(page)

	b.click("Files")
	b.shows("All are hidden")
	b.click("New directory")
	b.fill("Its name", "case")
	b.acts("Make it", noDialog)
	b.click("case")
	b.shows("It is empty")
	b.uploads(r.File("mesh & more.txt", "a mesh"))
	b.until("it is there", `document.querySelector('[aria-label="Table: Entries"]')?.textContent.includes('mesh & more.txt') === true`)
	if out := r.Run("ssh", "web", "--", "cat 'case/mesh & more.txt'"); out != "a mesh" {
		t.Errorf("%q was uploaded", out)
	}
	r.Run("ssh", "web", "--", "echo solved > case/result")
	b.goTo(b.address())
	if text := b.downloads("result"); text != "solved\n" {
		t.Errorf("%q was downloaded", text)
	}
	b.click("Rename result")
	b.fill("Its new name", "old")
	b.acts("Rename", noDialog)
	b.click("Delete old")
	b.acts("Delete", noDialog)
	b.until("the file is gone", `!document.body.innerText.includes('old')`)
	b.goTo(page)

	b.opens("s")
	b.fill("Nodes", "3")
	b.acts("Scale", noDialog)
	b.shows("head and 3 nodes ready")
	if out := r.Run("describe", "web"); !strings.Contains(out, "cpu3") {
		t.Errorf("the command line sees something else: %s", out)
	}

	r.Run("ssh", "web", "--", "sbatch -N2 -J from-outside --wrap 'echo said by it; sleep 600'")
	b.shows("from-outside") // by itself
	b.click("Output of job")
	b.acts("Read again", `document.querySelector('.output')?.textContent.includes('said by it') === true`)
	b.click("Close")
	b.click("Cancel job")
	b.click("End the job")
	b.until("the dialog closes", noDialog)
	b.shows("No job runs or waits")
	r.Run("ssh", "web", "--", "sbatch -H -J held --wrap 'sleep 600'")
	b.click("More to do with job 2")
	b.click("Release")
	b.acts("Release", noDialog)
	b.until("it runs", `document.querySelector('[aria-label="Table: Jobs"] .pill')?.textContent === 'running'`)
	b.click("More to do with job 2")
	b.click("Requeue")
	b.acts("Requeue", noDialog)
	b.until("it waits", `document.querySelector('[aria-label="Table: Jobs"] .t-warn') !== null`)
	r.Run("jobs", "cancel", "web", "2")
	b.shows("No job runs or waits")
	r.Run("pause", "web", "--wait")
	b.shows("paused")

	b.opens("p")
	b.shows("Resume web")
	b.acts("Resume", noDialog)
	b.until("it is ready again", `document.querySelector('.head .pill')?.textContent === 'ready'`)

	b.click("More to do")
	b.click("Delete")
	b.fill("Type web to delete it", "web")
	b.acts("Delete web", noDialog)
	b.shows("default has no cluster yet")
	r.NothingLeft()

	b.click("Sign out")
	b.shows("Or with a token")
}
