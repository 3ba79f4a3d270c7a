package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

func TestWhatIsStoredIsReadBack(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 2)
		kindstest.AddCluster(t, s, "c1", "hello")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return kindstest.AddNode(ctx, tx, "n1", "c1", "n1", 3, "m1")
		})
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			m, err := machine.Get(ctx, tx, "local-1")
			if err != nil || m.Phase != machine.Enrolled || m.HolderName != "hello/n1" || m.Facts.NUMA[0].CPUs != "0-1" {
				t.Errorf("machine %+v: %v", m, err)
			}
			c, err := cluster.Named(ctx, tx, "default", "hello")
			if err != nil || c.ID != "c1" || revealed(t, tx, c.Credential) != "secret" || c.Generation != 1 ||
				c.Spec.Name != "hello" || c.CreatedAt.IsZero() {
				t.Errorf("cluster %+v: %v", c, err)
			}
			nodes, err := node.Of(ctx, tx, "c1")
			if err != nil || len(nodes) != 1 || nodes[0].Slot != 3 || nodes[0].Phase != core.Pending ||
				nodes[0].Seen.Checks != nil {
				t.Errorf("nodes %+v: %v", nodes, err)
			}
			if _, err := cluster.Named(ctx, tx, "other", "hello"); !errors.Is(err, core.ErrNotFound) {
				t.Errorf("a cluster of another project: %v", err)
			}
			return nil
		})
	})
}

func TestNamesAreTakenOnce(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 1)
		kindstest.AddCluster(t, s, "c1", "hello")
		err := s.Update(t.Context(), func(tx *core.Tx) error {
			return cluster.Add(t.Context(), tx, cluster.Cluster{ID: "c2", Project: "default", Name: "hello"})
		})
		if !errors.Is(err, core.ErrExists) {
			t.Error("a second cluster of the name:", err)
		}
		err = s.Update(t.Context(), func(tx *core.Tx) error {
			return machine.Add(t.Context(), tx, inventory.Machine{ID: "m2", Name: "local-1"})
		})
		if !errors.Is(err, core.ErrExists) {
			t.Error("a second machine of the name:", err)
		}
	})
}

func TestAMachineCannotBeGivenTwice(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		const machines, takers = 3, 8
		kindstest.AddMachines(t, s, machines)
		kindstest.AddCluster(t, s, "c1", "hello")
		// Every taker looks for a machine that no node has and takes it; they all start at once.
		var all sync.WaitGroup
		results := make([]error, takers)
		for i := range takers {
			all.Go(func() {
				results[i] = s.Update(t.Context(), func(tx *core.Tx) error {
					list, err := machine.List(t.Context(), tx)
					if err != nil {
						return err
					}
					for _, m := range list {
						if m.Holder == "" {
							return kindstest.AddNode(t.Context(), tx, fmt.Sprintf("n%d", i), "c1", fmt.Sprintf("n%d", i), 10+i,
								m.ID)
						}
					}
					return errors.New("none free")
				})
			})
		}
		all.Wait()
		won := 0
		for _, err := range results {
			if err == nil {
				won++
			} else if err.Error() != "none free" {
				t.Error(err)
			}
		}
		if won != machines {
			t.Errorf("%d takers won %d machines", won, machines)
		}
		err := s.Update(t.Context(), func(tx *core.Tx) error {
			return kindstest.AddNode(t.Context(), tx, "nx", "c1", "nx", 99, "m1")
		})
		if err == nil {
			t.Error("the database let a second node have machine m1")
		}
	})
}

func TestAFailedTransactionLeavesNothing(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		boom := errors.New("boom")
		err := s.Update(t.Context(), func(tx *core.Tx) error {
			tx.Log(core.Event{Type: "x", Text: "never"})
			if err := machine.Add(t.Context(), tx, inventory.Machine{ID: "m1", Name: "m1"}); err != nil {
				return err
			}
			return boom
		})
		if !errors.Is(err, boom) {
			t.Fatal(err)
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			machines, _ := machine.List(ctx, tx)
			events, _ := tx.Events(ctx, core.EventsOf{Limit: 10})
			if len(machines)+len(events) != 0 {
				t.Error(machines, events)
			}
			return nil
		})
	})
}

func TestAClaimIsHeldByOneAndFencesTheOther(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		clock := new(core.Clock)
		s := kindstest.Open(t, url, core.WithClock(clock))
		kindstest.AddMachines(t, s, 1)
		ctx := t.Context()
		first, err := s.Claim(ctx, machine.Kind, "a", time.Hour, 10)
		if err != nil || len(first) != 1 {
			t.Fatal(first, err)
		}
		if again, err := s.Claim(ctx, machine.Kind, "b", time.Minute, 10); err != nil || len(again) != 0 {
			t.Fatal("a held row was claimed:", again, err)
		}
		clock.Advance(2 * time.Hour) // the lease of a ends
		second, err := s.Claim(ctx, machine.Kind, "b", time.Minute, 10)
		if err != nil || len(second) != 1 || second[0].Fence <= first[0].Fence {
			t.Fatal(second, err)
		}
		settle := func(c core.Claim, p core.Phase) error {
			return s.Update(ctx, func(tx *core.Tx) error {
				if err := tx.Hold(ctx, c); err != nil {
					return err
				}
				return tx.Settle(ctx, c, core.Settlement{Phase: p, Never: true})
			})
		}
		if err := settle(first[0], machine.Quarantined); !errors.Is(err, core.ErrFenced) {
			t.Error("the old claim was honoured:", err)
		}
		if err := settle(second[0], machine.Available); err != nil {
			t.Error(err)
		}
		if err := settle(second[0], machine.Quarantined); !errors.Is(err, core.ErrFenced) {
			t.Error("a settled claim was honoured again:", err)
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			m, err := machine.Get(ctx, tx, "local-1")
			if m.Phase != machine.Available {
				t.Error(m.Phase)
			}
			return err
		})
	})
}

func TestATransactionThatIsLeftOpenDoesNotHoldUpTheOthers(t *testing.T) {
	s := kindstest.Open(t, kindstest.Postgres(t))
	kindstest.AddMachines(t, s, 1)
	kindstest.AddCluster(t, s, "c1", "hello")
	entered, leave := make(chan struct{}), make(chan struct{})
	var hung sync.WaitGroup
	var once sync.Once
	hung.Go(func() { // a controller that is stopped in the middle of a transaction
		err := s.Update(context.WithoutCancel(t.Context()), func(tx *core.Tx) error {
			if err := cluster.Lock(t.Context(), tx, "c1"); err != nil {
				return err
			}
			once.Do(func() { // and not when it is tried again
				close(entered)
				<-leave
			})
			return nil
		})
		if err == nil {
			t.Error("the hung transaction was committed")
		}
	})
	<-entered
	done := make(chan error, 1)
	go func() {
		done <- s.Update(t.Context(), func(tx *core.Tx) error { return cluster.Lock(t.Context(), tx, "c1") })
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the others wait for the hung one")
	}
	close(leave)
	hung.Wait()
}

func TestRenewedLeasesHold(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 1)
		held, err := s.Claim(t.Context(), machine.Kind, "a", 300*time.Millisecond, 1)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := s.Renew(t.Context(), "a", held, time.Minute); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		time.Sleep(350 * time.Millisecond)
		if got, err := s.Claim(t.Context(), machine.Kind, "b", time.Minute, 1); err != nil || len(got) != 0 {
			t.Fatal("a renewed lease was ignored", got, err)
		}
	})
}

func TestAWakeUpDuringAStepIsNotLost(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 1)
		ctx := t.Context()
		claims, err := s.Claim(ctx, machine.Kind, "a", time.Minute, 1)
		if err != nil {
			t.Fatal(err)
		}
		kindstest.Update(t, s, func(_ context.Context, tx *core.Tx) error { tx.Wake(machine.Kind, "m1"); return nil })
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return tx.Settle(ctx, claims[0], core.Settlement{Phase: machine.Available, Never: true})
		})
		if got, err := s.Claim(ctx, machine.Kind, "a", time.Minute, 1); err != nil || len(got) != 1 {
			t.Fatal("the wake-up was lost", got, err)
		}
	})
}

func TestManyClaimersShareTheWork(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		const rows = 40
		kindstest.AddMachines(t, s, rows)
		var mu sync.Mutex
		seen := map[string]int{}
		var all sync.WaitGroup
		for w := range 4 {
			all.Go(func() {
				for {
					claims, err := s.Claim(t.Context(), machine.Kind, fmt.Sprint(w), time.Minute, 3)
					if err != nil {
						t.Error(err)
						return
					}
					if len(claims) == 0 {
						return
					}
					mu.Lock()
					for _, c := range claims {
						seen[c.ID]++
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		for id, n := range seen {
			if n != 1 {
				t.Errorf("%s was claimed %d times", id, n)
			}
		}
		if len(seen) != rows {
			t.Errorf("%d of %d rows were claimed", len(seen), rows)
		}
	})
}

func TestEventsAreNumberedInTheOrderTheyAppear(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		const writers, each = 6, 15
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range each {
					if err := s.Update(t.Context(), func(tx *core.Tx) error {
						tx.Log(core.Event{Type: "t", ClusterID: fmt.Sprintf("c%d", w%2), Text: fmt.Sprint(i)})
						tx.Log(core.Event{Type: "t", Text: "beside"})
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		// A watcher that always asks for what is new must see every number, without a gap.
		var last int64
		for finished := false; ; {
			var events []core.Event
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				events, err = tx.Events(ctx, core.EventsOf{After: last, Limit: 1000})
				return err
			})
			for _, e := range events {
				if e.Seq != last+1 {
					t.Fatalf("after event %d came %d", last, e.Seq)
				}
				last = e.Seq
			}
			if finished {
				break
			}
			select {
			case <-done:
				finished = true
			default:
			}
		}
		if last != 2*writers*each {
			t.Errorf("%d events", last)
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			events, err := tx.Events(ctx, core.EventsOf{Cluster: "c1", Limit: 1000})
			if len(events) != writers/2*each {
				t.Errorf("%d events of c1", len(events))
			}
			return err
		})
	})
}

func TestATokenIsUsedByOneKeyOnly(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 1)
		kindstest.AddCluster(t, s, "c1", "hello")
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if err := kindstest.AddNode(ctx, tx, "n1", "c1", "n1", 3, "m1"); err != nil {
				return err
			}
			return node.StartBoot(ctx, tx, "n1", "sha256:00", false)
		})
		use := func(boot int64, key string) (ok bool) {
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				ok, err = node.UseToken(ctx, tx, "n1", boot, key)
				return err
			})
			return ok
		}
		if use(1, "k1") {
			t.Error("a token was good before the node was booting")
		}
		claims, err := s.Claim(t.Context(), node.Kind, "a", time.Minute, 1)
		if err != nil || len(claims) != 1 {
			t.Fatal(claims, err)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return tx.Settle(ctx, claims[0], core.Settlement{Phase: node.Booting, Never: true})
		})
		for _, step := range []struct {
			boot int64
			key  string
			want bool
		}{{2, "k1", false}, {0, "k1", false}, {1, "k1", true}, {1, "k1", true}, {1, "k2", false}} {
			if got := use(step.boot, step.key); got != step.want {
				t.Errorf("boot %d key %s: %v", step.boot, step.key, got)
			}
		}
	})
}

func TestReportsOfAnOlderBootAreDropped(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 1)
		kindstest.AddCluster(t, s, "c1", "hello")
		row := &protocol.NodeState{Name: "n1", State: protocol.NodeFree, Responding: true, Raw: "idle"}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if err := kindstest.AddNode(ctx, tx, "n1", "c1", "n1", 3, "m1"); err != nil {
				return err
			}
			if err := node.SaveScheduler(ctx, tx, "n1", row); err != nil {
				return err
			}
			if err := node.SaveReport(ctx, tx, "n1", protocol.Report{Boot: 2, Facts: protocol.NodeFacts{CPUs: 2},
				Checks: []protocol.Check{{Name: "sshd", OK: true}}}); err != nil {
				return err
			}
			return node.SaveReport(ctx, tx, "n1", protocol.Report{Boot: 1, Checks: []protocol.Check{{Name: "sshd"}}})
		})
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			n, err := node.Get(ctx, tx, "n1")
			if n.Seen.Facts.CPUs != 2 || !n.Seen.Healthy(2) || n.Seen.Healthy(1) || cmp.Diff(row, n.Seen.Scheduler) != "" {
				t.Errorf("%+v", n.Seen)
			}
			return err
		})
	})
}

func TestASecretIsMadeOnce(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		values := make([]string, 4)
		var all sync.WaitGroup
		for i := range values {
			all.Go(func() {
				if err := s.Update(t.Context(), func(tx *core.Tx) (err error) {
					values[i], err = tx.Secret(t.Context(), "root", fmt.Sprint("made by ", i))
					return err
				}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, v := range values {
			if v != values[0] {
				t.Fatal("replicas disagree:", values)
			}
		}
	})
}

func TestASQLiteFileHasOneController(t *testing.T) {
	path := t.TempDir() + "/muster.db"
	kindstest.Open(t, path)
	if _, err := kinds.Open(t.Context(), path, kindstest.Keys()); err == nil {
		t.Fatal("a second controller opened the file")
	}
}

func revealed(t *testing.T, tx *core.Tx, s core.Secret) string {
	t.Helper()
	plain, err := tx.Reveal(t.Context(), s)
	if err != nil {
		t.Error(err)
	}
	return string(plain)
}

func TestAClockThatIsPutForwardIsEverybodysNow(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		clock := new(core.Clock)
		s := kindstest.Open(t, url, core.WithClock(clock))
		kindstest.AddMachines(t, s, 1)
		now := func() (now time.Time) {
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) { now, err = tx.Now(ctx); return err })
			return now
		}
		before := now()
		clock.Advance(100 * time.Hour)
		if ahead := now().Sub(before); ahead < 100*time.Hour || ahead > 101*time.Hour {
			t.Errorf("it is %s later", ahead)
		}
		kindstest.AddCluster(t, s, "c1", "hello")
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			c, err := cluster.Get(ctx, tx, "c1")
			if c.CreatedAt.Sub(before) < 100*time.Hour {
				t.Errorf("what is written later is from %s, and it was %s before", c.CreatedAt, before)
			}
			return err
		})
	})
}

func TestAClusterRemembersTheNodesThatItHad(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddMachines(t, s, 3)
		kindstest.AddCluster(t, s, "c1", "hello")
		kindstest.AddCluster(t, s, "c2", "other")
		had := func(id string) (before bool) {
			t.Helper()
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
				n, err := node.Get(ctx, tx, id)
				if err == nil {
					before, err = node.HadNode(ctx, tx, n)
				}
				return err
			})
			return before
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return errors.Join(kindstest.AddNode(ctx, tx, "a", "c1", "n1", 3, "m1"),
				kindstest.AddNode(ctx, tx, "b", "c2", "n1", 3, "m2"))
		})
		if had("a") {
			t.Error("the first node of a name had one before it")
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			n, err := node.Get(ctx, tx, "a")
			return errors.Join(err, node.LeaveMachine(ctx, tx, n), node.Add(ctx, tx, node.Node{
				ID: "c", Cluster: "c1", Name: "n1", Role: protocol.Compute, Queue: "main", Class: "local", MachineID: "m3",
				Machine: "m3"}))
		})
		if !had("c") || had("b") {
			t.Error("a node that took the place of another had none before it, or that of another cluster had")
		}
	})
}

func TestOldEventsAreForgotten(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.Update(t, s, func(_ context.Context, tx *core.Tx) error {
			for i := range 3 {
				tx.Log(core.Event{Type: "x", Text: fmt.Sprint(i), At: time.Now().Add(-48 * time.Hour)})
			}
			tx.Log(core.Event{Type: "x", Text: "new"})
			return nil
		})
		for _, c := range []struct {
			age  time.Duration
			left int
		}{{72 * time.Hour, 4}, {24 * time.Hour, 1}} {
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				if err := tx.ForgetEvents(ctx, c.age); err != nil {
					return err
				}
				all, err := tx.Events(ctx, core.EventsOf{Limit: 10})
				if len(all) != c.left || all[len(all)-1].Text != "new" {
					t.Errorf("of events older than %s are left %+v", c.age, all)
				}
				return err
			})
		}
	})
}

// TestReadsThatTakeLongDoNotHoldUpOthers: a few of them would take all of the connections on which files are read.
func TestReadsThatTakeLongDoNotHoldUpOthers(t *testing.T) {
	s := kindstest.Open(t, t.TempDir()+"/db")
	release, begun := make(chan struct{}), make(chan struct{}, 10)
	ended := make(chan error, 10)
	for range 10 {
		go func() {
			ended <- s.View(core.Apart(t.Context()), func(*core.Tx) error {
				begun <- struct{}{}
				<-release
				return nil
			})
		}()
	}
	<-begun
	<-begun
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.View(soon, func(*core.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
	close(release)
	for range 10 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
