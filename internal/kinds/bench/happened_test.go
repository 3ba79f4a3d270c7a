package bench

import (
	"strings"
	"testing"
	"time"

	"muster/internal/bench/library"
	"muster/internal/bench/recipe"
	"muster/internal/core"
)

func TestWhatHasHappenedTookItsTime(t *testing.T) {
	var events []core.Event
	at := time.Unix(1_800_000_000, 0)
	for _, one := range []struct {
		after           time.Duration
		of, phase, text string
	}{
		{0, "", "", "create 1 head + 2 nodes with image debian13-hpc, by ada"},
		{10, "n1", "attaching", ""}, {5, "n1", "booting", ""}, {200, "n1", "joining", ""},
		{100, "n1", "testing", ""}, {40, "n1", "ready", ""},
		{45, "", "ready", "head and 2 nodes ready"},
		{1000, "", "", "change 1 field, by ada"},
		{1000, "", "degraded", "n1 is lost"}, {3000, "", "provisioning", ""}, {500, "n1", "booting", ""}, {700, "", "ready", ""},
		{10, "", "", "pause when its jobs have ended, by ada"}, {9000, "", "pausing", ""}, {600, "", "paused", ""},
		{10, "", "", "resume, by ada"}, {5, "", "resuming", ""}, {900, "", "ready", ""},
		{10, "", "", "pause, jobs are queued again, by ada"}, {5, "", "ready", ""}, {600, "", "paused", ""},
		{10, "", "", "release 1 node, by ada"}, {5, "", "provisioning", ""}, {60, "", "ready", ""},
		{1, "", "", "add 1 node, by ada"}, {1, "n1", "gone", ""}, {5, "", "deleting", ""},
	} {
		at = at.Add(one.after * time.Millisecond)
		e := core.Event{At: at, Type: "cluster.requested", Node: one.of, Phase: core.Phase(one.phase), Text: one.text}
		if one.phase != "" {
			e.Type = map[bool]string{true: "cluster.phase", false: "node.phase"}[one.of == ""]
		}
		events = append(events, e)
	}
	const want = `node n1 attaching 0.005
node n1 booting 0.200
node n1 joining 0.100
node n1 testing 0.040
node n1 ready 0.345
start 0.400
mend 4.200
resume 0.905
pause 0.605
shrink 0.065`
	if got := Happened(events); got != want {
		t.Error(got)
	}
	if got := Happened(nil); got != "" {
		t.Error(got)
	}
	for range 8 {
		events = append(events, events...)
	}
	if n := strings.Count(Happened(events), "\n"); n != mostHappened-1 {
		t.Errorf("%d lines", n)
	}
}

func TestWhatHasHappenedIsToldToWhoAsks(t *testing.T) {
	l, err := recipe.Load(library.Files())
	if err != nil {
		t.Fatal(err)
	}
	for suite, want := range map[string]bool{"muster": true, "quick": false} {
		p := Plan{Recipes: map[string]*recipe.Recipe{}}
		for _, e := range l.Suites[suite].Entries {
			p.Recipes[e.Recipe] = l.Recipes[e.Recipe]
		}
		if got := p.TellsWhatHappened(); got != want {
			t.Errorf("%s: %v", suite, got)
		}
	}
}
