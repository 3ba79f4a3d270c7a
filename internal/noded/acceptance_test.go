package noded

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"muster/internal/protocol"
)

func TestSlurmdWaitsForTheTestAndForTheVerdict(t *testing.T) {
	now, cancelled := context.WithCancel(t.Context())
	cancelled() // so that cleared tells what is true now
	waits := func(tester *tester) bool { return tester.cleared(now) != nil }
	for _, c := range []struct {
		name  string
		test  *protocol.Test
		done  int64
		waits bool
	}{
		{"nothing is asked", nil, 0, false},
		{"not measured yet", &protocol.Test{Number: 1}, 0, true},
		{"measured, and not judged", &protocol.Test{Number: 1}, 1, false},
		{"not measured yet, which is done beside its first use", &protocol.Test{Number: 1, Brief: true}, 0, false},
		{"measured, and judged later", &protocol.Test{Number: 1, Hold: true}, 1, true},
		{"once more", &protocol.Test{Number: 2, Hold: true}, 1, true},
	} {
		tester := newTester(0, newReporter(1, nil), &console{out: &safeBuffer{}})
		tester.want(&protocol.Config{Test: c.test})
		tester.set(func() { tester.done = c.done })
		if waits(tester) != c.waits {
			t.Errorf("%s: slurmd waits: %v", c.name, !c.waits)
		}
		tester.want(&protocol.Config{})
		if waits(tester) {
			t.Errorf("%s: slurmd waits when no test is asked for any more", c.name)
		}
	}
}

func TestANodeMeasuresItselfOnceForEachNumber(t *testing.T) {
	l := newLab(t)
	ask := func(revision int64, test *protocol.Test) {
		l.configure(revision, func(c *protocol.Config) { // at once: the agent does not ask for the same revision again
			c.Self.Role, c.Peers[1].Role, c.Test = protocol.Head, protocol.Head, test // a head measures no network
		})
	}
	ask(1, &protocol.Test{Number: 1, Brief: true})
	l.controller.listen(t, filepath.Join(l.sockets, "one.sock"))
	l.run(t)
	result := func() *protocol.TestResult { return l.controller.reports["n1"].Test }
	l.controller.until(t, "the first test is reported", func() bool { return result() != nil && result().Number == 1 })
	first := l.controller.last("n1").Test
	if len(first.Measures) != 2 || first.Measures[0].Quantity != protocol.MemoryBandwidth || first.Measures[0].Value <= 0 ||
		first.Measures[1].Value <= 0 || first.Took <= 0 {
		t.Errorf("%+v", first)
	}
	ask(2, &protocol.Test{Number: 1, Brief: true})
	l.controller.until(t, "the same test asked for in another configuration is applied", func() bool {
		return l.controller.reports["n1"].Revision == 2
	})
	if again := l.controller.last("n1").Test; again == nil || again.Took != first.Took {
		t.Errorf("it measured again: %+v, %+v", first, again)
	}
	ask(3, &protocol.Test{Number: 2, Brief: true})
	l.controller.until(t, "the second test is reported", func() bool { return result() != nil && result().Number == 2 })
	ask(4, nil)
	l.controller.until(t, "it reports no test that nobody asks for", func() bool {
		return l.controller.reports["n1"].Revision == 4 && result() == nil
	})
}

// TestABriefTestIsOfTheNodeAndNotOfItsNeighbours: it runs beside them, and one that is held shall feel what a job would.
func TestABriefTestIsOfTheNodeAndNotOfItsNeighbours(t *testing.T) {
	if !effortFor(true).shared || effortFor(false).shared {
		t.Errorf("brief: %+v; else: %+v", effortFor(true), effortFor(false))
	}
}

func TestWhatCannotBeMeasuredSaysWhy(t *testing.T) {
	tester := newTester(0, newReporter(1, nil), &console{out: &safeBuffer{}})
	var result protocol.TestResult
	e := effort{roundTrips: 1, waitForPeer: time.Millisecond}
	trip, rate := tester.network(t.Context(), &result, e, []protocol.Peer{{Name: "n2", Address: "127.0.0.1"}}, false)
	if trip.Value != 0 || trip.With != "n2" || trip.Why == "" || rate.Why != trip.Why {
		t.Errorf("%+v %+v", trip, rate)
	}
	if trip, _ = tester.network(t.Context(), &result, e, nil, false); trip.Why != "there is none" {
		t.Errorf("%+v", trip)
	}
}
