package fake_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/fake"
	"muster/internal/drivers/substrate/substratetest"
)

func TestContract(t *testing.T) {
	substratetest.Test(t, func(t *testing.T) substratetest.Harness {
		s := fake.New(fake.Options{Connect: func(_ context.Context, cluster string, _ netip.AddrPort) (net.Conn, error) {
			if cluster != "c1" {
				return nil, errors.New("nobody answers")
			}
			here, _ := net.Pipe()
			return here, nil
		}})
		return substratetest.Harness{
			Caps: substrate.Capabilities{KeepsHead: true, Sleeps: true, Moves: true}, Substrate: s, Shared: s, Keep: s,
			Sleeper: s, Mover: s, Image: "sha256:00", Answers: 1,
			Crash:    func(_ *testing.T, r substrate.Ref) { s.Die(r, "crashed") },
			HalfMake: func(_ *testing.T, n substrate.Node) { s.HalfMake(n) },
			Write:    func(_ *testing.T, cluster, content string) { s.Write(cluster, content) },
			Read:     func(_ *testing.T, cluster string) string { return s.Read(cluster) },
		}
	})
}

func fixture(t *testing.T, options fake.Options) *fake.Substrate {
	s := fake.New(options)
	if err := s.EnsureShared(t.Context(), "c1", substrate.Network{Segment: 1}); err != nil {
		t.Fatal(err)
	}
	return s
}

func node(id, machine, address string, boot int64) substrate.Node {
	return substrate.Node{
		Ref: substrate.Ref{Cluster: "c1", Node: id, Boot: boot}, Name: id, Machine: machine,
		Address: netip.MustParsePrefix(address), MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Image: "sha256:00",
	}
}

func TestAFailingStartFailsAsOftenAsToldAndLeavesAHalfMadeNode(t *testing.T) {
	s, n := fixture(t, fake.Options{}), node("n1", "m1", "10.77.1.1/16", 1)
	s.FailEnsure("n1", 2, nil)
	for range 2 {
		if err := s.Ensure(t.Context(), n); !errors.Is(err, fake.ErrInjected) {
			t.Fatalf("got %v", err)
		}
		if seen, _ := s.Observe(t.Context(), n.Ref); !seen.Present || seen.Running {
			t.Fatalf("observed %+v", seen)
		}
	}
	if err := s.Ensure(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

func TestAHangingStartEndsWithItsContext(t *testing.T) {
	s := fixture(t, fake.Options{})
	s.HangEnsure("n1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.Ensure(ctx, node("n1", "m1", "10.77.1.1/16", 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}

func TestAHangingStartGoesOnWhenReleased(t *testing.T) {
	s := fixture(t, fake.Options{})
	release := s.HangEnsure("n1")
	time.AfterFunc(time.Millisecond, release)
	if err := s.Ensure(t.Context(), node("n1", "m1", "10.77.1.1/16", 1)); err != nil {
		t.Fatal(err)
	}
}

func TestAStartTakesItsDelayAndThenTheAgentPlays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var played []string
		s := fixture(t, fake.Options{
			Delay:   func(substrate.Node) time.Duration { return time.Minute },
			Started: func(_ context.Context, n substrate.Node) { played = append(played, n.Node) },
		})
		before := time.Now()
		for range 2 { // the second finds it running
			if err := s.Ensure(t.Context(), node("n1", "m1", "10.77.1.1/16", 1)); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(before); took != time.Minute || len(played) != 1 {
			t.Fatalf("took %v, played %v", took, played)
		}
	})
}

func TestViolationsAreRecorded(t *testing.T) {
	tests := []struct {
		name  string
		first substrate.Node
		then  substrate.Node
		want  int
	}{
		{"two nodes on one exclusive machine", node("n1", "m1", "10.77.1.1/16", 1), node("n2", "m1", "10.77.1.2/16", 1), 1},
		{"two nodes with one address", node("n1", "m1", "10.77.1.1/16", 1), node("n2", "m2", "10.77.1.1/16", 1), 1},
		{"two nodes apart", node("n1", "m1", "10.77.1.1/16", 1), node("n2", "m2", "10.77.1.2/16", 1), 0},
		{"a later boot of the same node", node("n1", "m1", "10.77.1.1/16", 1), node("n1", "m1", "10.77.1.1/16", 2), 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := fixture(t, fake.Options{Exclusive: true})
			for _, n := range []substrate.Node{test.first, test.then} {
				if err := s.Ensure(t.Context(), n); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.Violations(); len(got) != test.want {
				t.Fatalf("got %q", got)
			}
		})
	}
}

func TestAPowerCutEndsAllNodesOfTheMachine(t *testing.T) {
	s := fixture(t, fake.Options{})
	for _, n := range []substrate.Node{
		node("n1", "m1", "10.77.1.1/16", 1), node("n2", "m1", "10.77.1.2/16", 1), node("n3", "m2", "10.77.1.3/16", 1),
	} {
		if err := s.Ensure(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if dead := s.DieWithMachine("m1"); dead != 2 {
		t.Fatalf("%d died", dead)
	}
	if calls := s.Calls(); calls.Ensure != 3 || calls.EnsureShared != 1 {
		t.Fatalf("counted %+v", calls)
	}
}
