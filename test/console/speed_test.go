package console_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// TestWhatPeopleWaitForInABrowser prints it: the first screen, and the list of ten thousand machines, how soon it is there and
// how evenly it scrolls. The limits beside it are those that the console is built for; nothing fails for being slow.
func TestWhatPeopleWaitForInABrowser(t *testing.T) {
	testall.Only(t)
	const machines = 10_000
	r := rig.New(t, "")
	r.Start().Stop() // makes the database
	r.Enrol(machines)
	r.Start()
	b := open(t)
	b.expects("401", "/v1/login")
	b.goTo(strings.TrimSpace(r.Run("console", "--no-browser")))
	b.until("the first screen", `performance.getEntriesByName('first-contentful-paint').length > 0`)
	var first struct{ Paint, Bytes float64 }
	b.measures(&first, `({
		paint: performance.getEntriesByName('first-contentful-paint')[0].startTime,
		bytes: [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
			.filter((e) => !e.name.includes('/v1/')).reduce((sum, e) => sum + e.encodedBodySize, 0),
	})`)
	t.Logf("the first screen: %.0f ms, of 1000; %.0f kB with its fonts, of 250", first.Paint, first.Bytes/1000)
	b.click("Sign in")
	b.until("somebody is signed in", `document.querySelector('.side') !== null`)
	site, _, _ := strings.Cut(b.address(), "/projects/")
	began := time.Now()
	b.goTo(strings.TrimSuffix(site, "/") + "/machines")
	b.until("all are there", `document.querySelector('.vlist')?.ariaRowCount === '10001'`)
	t.Logf("10,000 machines: %d ms from the address to the list", time.Since(began).Milliseconds())
	var frames []float64
	b.until("it scrolls", `(() => {
		const list = document.querySelector('.vlist'), times = []
		const step = (now) => {
			times.push(now)
			list.scrollTop += 700
			if (times.length < 301) requestAnimationFrame(step)
			else globalThis.frames_ = times.slice(1).map((t, i) => t - times[i])
		}
		requestAnimationFrame(step)
		return true
	})()`)
	b.until("it has scrolled", `globalThis.frames_ !== undefined`)
	b.measures(&frames, `globalThis.frames_`)
	slices.Sort(frames)
	if len(frames) != 300 || b.value(`String(document.querySelector('.vlist').scrollTop > 100_000)`) != "true" {
		t.Fatalf("%d frames were counted", len(frames))
	}
	t.Logf("scrolling through them: a frame takes %.1f ms, 95 %% of them at most %.1f, of 16.7", frames[150], frames[285])
	b.until("a filter", `(document.querySelector('input.filter').focus(), true)`)
	began = time.Now()
	b.press("dgx-77")
	b.until("those that were asked for", `document.querySelector('.vlist')?.ariaRowCount === '112'`)
	t.Logf("filtered to 111 of them %d ms after the first key", time.Since(began).Milliseconds())
}

// measures reads what an expression is in the page.
func (b *browser) measures(into any, expression string) {
	b.Helper()
	if err := json.Unmarshal([]byte(b.value("JSON.stringify("+expression+")")), into); err != nil {
		b.Fatal(err)
	}
}
