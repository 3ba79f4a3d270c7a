package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/internal/agent/protocol"
	"muster/internal/inventory"
	"muster/internal/spec"
	"muster/internal/store"
	"muster/internal/store/storetest"
)

// The contract: every test runs on both databases.

func update(t *testing.T, s *store.Store, f func(ctx context.Context, tx *store.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx *store.Tx) error { return f(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

func view(t *testing.T, s *store.Store, f func(ctx context.Context, tx *store.Tx) error) {
	t.Helper()
	if err := s.View(t.Context(), func(tx *store.Tx) error { return f(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

func addMachines(t *testing.T, s *store.Store, n int) {
	t.Helper()
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		for i := range n {
			id := fmt.Sprintf("m%d", i+1)
			m := inventory.Machine{ID: id, Name: "local-" + id[1:], Substrate: "local", Facts: inventory.Facts{Arch: "amd64", NUMA: []inventory.NUMANode{{CPUs: "0-1"}}}}
			if err := tx.AddMachine(ctx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

func addCluster(t *testing.T, s *store.Store, id, name string) {
	t.Helper()
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		return tx.AddCluster(ctx, store.Cluster{ID: id, Project: "default", Name: name, Spec: spec.Cluster{Name: name}, Image: "sha256:00", Credential: store.NewSecret([]byte("secret")), CreatedBy: "admin"})
	})
}

func addNode(ctx context.Context, tx *store.Tx, id, cluster, name string, slot int, machine string) error {
	if err := tx.AddSeat(ctx, cluster, store.Seat{Name: name, Slot: slot}); err != nil {
		return err
	}
	return tx.AddNode(ctx, store.Node{ID: id, Cluster: cluster, Name: name, Role: protocol.Compute, Queue: "main", Class: "local", MachineID: machine, Machine: machine})
}

func TestWhatIsStoredIsReadBack(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addMachines(t, s, 2)
		addCluster(t, s, "c1", "hello")
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return addNode(ctx, tx, "n1", "c1", "n1", 3, "m1") })
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			m, err := tx.Machine(ctx, "local-1")
			if err != nil || m.Phase != store.Enrolled || m.HolderName != "hello/n1" || m.Facts.NUMA[0].CPUs != "0-1" {
				t.Errorf("machine %+v: %v", m, err)
			}
			c, err := tx.ClusterNamed(ctx, "default", "hello")
			if err != nil || c.ID != "c1" || revealed(t, tx, c.Credential) != "secret" || c.Generation != 1 || c.Spec.Name != "hello" || c.CreatedAt.IsZero() {
				t.Errorf("cluster %+v: %v", c, err)
			}
			nodes, err := tx.Nodes(ctx, "c1")
			if err != nil || len(nodes) != 1 || nodes[0].Slot != 3 || nodes[0].Phase != store.Pending || nodes[0].Seen.Checks != nil {
				t.Errorf("nodes %+v: %v", nodes, err)
			}
			if _, err := tx.ClusterNamed(ctx, "other", "hello"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("a cluster of another project: %v", err)
			}
			return nil
		})
	})
}

func TestNamesAreTakenOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addMachines(t, s, 1)
		addCluster(t, s, "c1", "hello")
		err := s.Update(t.Context(), func(tx *store.Tx) error {
			return tx.AddCluster(t.Context(), store.Cluster{ID: "c2", Project: "default", Name: "hello"})
		})
		if !errors.Is(err, store.ErrExists) {
			t.Error("a second cluster of the name:", err)
		}
		err = s.Update(t.Context(), func(tx *store.Tx) error {
			return tx.AddMachine(t.Context(), inventory.Machine{ID: "m2", Name: "local-1"})
		})
		if !errors.Is(err, store.ErrExists) {
			t.Error("a second machine of the name:", err)
		}
	})
}

func TestAMachineCannotBeGivenTwice(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		const machines, takers = 3, 8
		addMachines(t, s, machines)
		addCluster(t, s, "c1", "hello")
		// Every taker looks for a machine that nobody has and takes it; they all start at once.
		var all sync.WaitGroup
		results := make([]error, takers)
		for i := range takers {
			all.Go(func() {
				results[i] = s.Update(t.Context(), func(tx *store.Tx) error {
					list, err := tx.Machines(t.Context())
					if err != nil {
						return err
					}
					for _, m := range list {
						if m.Holder == "" {
							return addNode(t.Context(), tx, fmt.Sprintf("n%d", i), "c1", fmt.Sprintf("n%d", i), 10+i, m.ID)
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
		err := s.Update(t.Context(), func(tx *store.Tx) error { return addNode(t.Context(), tx, "nx", "c1", "nx", 99, "m1") })
		if err == nil {
			t.Error("the database let a second node have machine m1")
		}
	})
}

func TestAFailedTransactionLeavesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		boom := errors.New("boom")
		err := s.Update(t.Context(), func(tx *store.Tx) error {
			tx.Log(store.Event{Type: "x", Text: "never"})
			if err := tx.AddMachine(t.Context(), inventory.Machine{ID: "m1", Name: "m1"}); err != nil {
				return err
			}
			return boom
		})
		if !errors.Is(err, boom) {
			t.Fatal(err)
		}
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			machines, _ := tx.Machines(ctx)
			events, _ := tx.Events(ctx, store.EventsOf{Limit: 10})
			if len(machines)+len(events) != 0 {
				t.Error(machines, events)
			}
			return nil
		})
	})
}

func TestAClaimIsHeldByOneAndFencesTheOther(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addMachines(t, s, 1)
		ctx := t.Context()
		first, err := s.Claim(ctx, store.MachineKind, "a", 30*time.Millisecond, 10)
		if err != nil || len(first) != 1 {
			t.Fatal(first, err)
		}
		if again, err := s.Claim(ctx, store.MachineKind, "b", time.Minute, 10); err != nil || len(again) != 0 {
			t.Fatal("a held row was claimed:", again, err)
		}
		time.Sleep(60 * time.Millisecond) // the lease of a ends
		second, err := s.Claim(ctx, store.MachineKind, "b", time.Minute, 10)
		if err != nil || len(second) != 1 || second[0].Fence <= first[0].Fence {
			t.Fatal(second, err)
		}
		settle := func(c store.Claim, p store.Phase) error {
			return s.Update(ctx, func(tx *store.Tx) error {
				if err := tx.Hold(ctx, c); err != nil {
					return err
				}
				return tx.Settle(ctx, c, store.Settlement{Phase: p, Never: true})
			})
		}
		if err := settle(first[0], store.Quarantined); !errors.Is(err, store.ErrFenced) {
			t.Error("the old claim was honoured:", err)
		}
		if err := settle(second[0], store.Available); err != nil {
			t.Error(err)
		}
		if err := settle(second[0], store.Quarantined); !errors.Is(err, store.ErrFenced) {
			t.Error("a settled claim was honoured again:", err)
		}
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			m, err := tx.Machine(ctx, "local-1")
			if m.Phase != store.Available {
				t.Error(m.Phase)
			}
			return err
		})
	})
}

func TestATransactionThatIsLeftOpenDoesNotHoldUpTheOthers(t *testing.T) {
	s := storetest.Open(t, storetest.Postgres(t))
	addMachines(t, s, 1)
	addCluster(t, s, "c1", "hello")
	entered, leave := make(chan struct{}), make(chan struct{})
	var hung sync.WaitGroup
	var once sync.Once
	hung.Go(func() { // a controller that is stopped in the middle of a transaction
		err := s.Update(context.WithoutCancel(t.Context()), func(tx *store.Tx) error {
			if err := tx.LockCluster(t.Context(), "c1"); err != nil {
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
		done <- s.Update(t.Context(), func(tx *store.Tx) error { return tx.LockCluster(t.Context(), "c1") })
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the others wait for the hung one")
	}
	close(leave)
	hung.Wait()
}

func TestRenewedLeasesHold(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addMachines(t, s, 1)
		if _, err := s.Claim(t.Context(), store.MachineKind, "a", 300*time.Millisecond, 1); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Renew(t.Context(), "a", time.Minute); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		time.Sleep(350 * time.Millisecond)
		if got, err := s.Claim(t.Context(), store.MachineKind, "b", time.Minute, 1); err != nil || len(got) != 0 {
			t.Fatal("a renewed lease was ignored", got, err)
		}
	})
}

func TestAWakeUpDuringAStepIsNotLost(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addMachines(t, s, 1)
		ctx := t.Context()
		claims, err := s.Claim(ctx, store.MachineKind, "a", time.Minute, 1)
		if err != nil {
			t.Fatal(err)
		}
		update(t, s, func(_ context.Context, tx *store.Tx) error { tx.Wake(store.MachineKind, "m1"); return nil })
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.Settle(ctx, claims[0], store.Settlement{Phase: store.Available, Never: true})
		})
		if got, err := s.Claim(ctx, store.MachineKind, "a", time.Minute, 1); err != nil || len(got) != 1 {
			t.Fatal("the wake-up was lost", got, err)
		}
	})
}

func TestManyClaimersShareTheWork(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		const rows = 40
		addMachines(t, s, rows)
		var mu sync.Mutex
		seen := map[string]int{}
		var all sync.WaitGroup
		for w := range 4 {
			all.Go(func() {
				for {
					claims, err := s.Claim(t.Context(), store.MachineKind, fmt.Sprint(w), time.Minute, 3)
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
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		const writers, each = 6, 15
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range each {
					if err := s.Update(t.Context(), func(tx *store.Tx) error {
						tx.Log(store.Event{Type: "t", ClusterID: fmt.Sprintf("c%d", w%2), Text: fmt.Sprint(i)})
						tx.Log(store.Event{Type: "t", Text: "beside"})
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
			var events []store.Event
			view(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
				events, err = tx.Events(ctx, store.EventsOf{After: last, Limit: 1000})
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
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			events, err := tx.Events(ctx, store.EventsOf{Cluster: "c1", Limit: 1000})
			if len(events) != writers/2*each {
				t.Errorf("%d events of c1", len(events))
			}
			return err
		})
	})
}

func TestATokenIsUsedByOneKeyOnly(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addMachines(t, s, 1)
		addCluster(t, s, "c1", "hello")
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := addNode(ctx, tx, "n1", "c1", "n1", 3, "m1"); err != nil {
				return err
			}
			return tx.StartBoot(ctx, "n1", "sha256:00", false)
		})
		use := func(boot int64, key string) (ok bool) {
			update(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
				ok, err = tx.UseToken(ctx, "n1", boot, key)
				return err
			})
			return ok
		}
		if use(1, "k1") {
			t.Error("a token was good before the node was booting")
		}
		claims, err := s.Claim(t.Context(), store.NodeKind, "a", time.Minute, 1)
		if err != nil || len(claims) != 1 {
			t.Fatal(claims, err)
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.Settle(ctx, claims[0], store.Settlement{Phase: store.Booting, Never: true})
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
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addMachines(t, s, 1)
		addCluster(t, s, "c1", "hello")
		row := &protocol.NodeState{Name: "n1", State: protocol.NodeFree, Responding: true, Raw: "idle"}
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := addNode(ctx, tx, "n1", "c1", "n1", 3, "m1"); err != nil {
				return err
			}
			if err := tx.SaveScheduler(ctx, "n1", row); err != nil {
				return err
			}
			if err := tx.SaveReport(ctx, "n1", protocol.Report{Boot: 2, Facts: protocol.NodeFacts{CPUs: 2}, Checks: []protocol.Check{{Name: "sshd", OK: true}}}); err != nil {
				return err
			}
			return tx.SaveReport(ctx, "n1", protocol.Report{Boot: 1, Checks: []protocol.Check{{Name: "sshd"}}})
		})
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.Node(ctx, "n1")
			if n.Seen.Facts.CPUs != 2 || !n.Seen.Healthy(2) || n.Seen.Healthy(1) || cmp.Diff(row, n.Seen.Scheduler) != "" {
				t.Errorf("%+v", n.Seen)
			}
			return err
		})
	})
}

func TestASecretIsMadeOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		values := make([]string, 4)
		var all sync.WaitGroup
		for i := range values {
			all.Go(func() {
				if err := s.Update(t.Context(), func(tx *store.Tx) (err error) {
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
	storetest.Open(t, path)
	if _, err := store.Open(t.Context(), path, storetest.Keys()); err == nil {
		t.Fatal("a second controller opened the file")
	}
}

func revealed(t *testing.T, tx *store.Tx, s store.Secret) string {
	t.Helper()
	plain, err := tx.Reveal(t.Context(), s)
	if err != nil {
		t.Error(err)
	}
	return string(plain)
}

// An older version wrote the scheduler's own words, and a mark for a drain. Such a row says what it can.
func TestARowInAnotherVersionsWordsIsRead(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addMachines(t, s, 1)
		addCluster(t, s, "c1", "hello")
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := addNode(ctx, tx, "n1", "c1", "n1", 3, "m1"); err != nil {
				return err
			}
			return tx.SaveScheduler(ctx, "n1", &protocol.NodeState{Name: "n1"})
		})
		for old, want := range map[string]protocol.NodeState{
			`{"name":"n1","state":"idle","responding":true,"jobs":0}`:               {Name: "n1", State: protocol.NodeUnknown, Responding: true, Raw: "idle"},
			`{"name":"n1","state":"mixed","responding":true,"jobs":2}`:              {Name: "n1", State: protocol.NodeBusy, Responding: true, Jobs: 2, Raw: "mixed"},
			`{"name":"n1","state":"mixed","drain":true,"responding":true,"jobs":2}`: {Name: "n1", State: protocol.NodeDraining, Responding: true, Jobs: 2, Raw: "mixed"},
			`{"name":"n1","state":"down","responding":false,"jobs":0}`:              {Name: "n1", State: protocol.NodeDown},
		} {
			update(t, s, func(ctx context.Context, tx *store.Tx) error {
				return tx.Exec(ctx, `UPDATE observed SET slurm = $1 WHERE node_id = 'n1'`, old)
			})
			view(t, s, func(ctx context.Context, tx *store.Tx) error {
				n, err := tx.Node(ctx, "n1")
				if diff := cmp.Diff(&want, n.Seen.Scheduler); diff != "" {
					t.Errorf("%s: %s", old, diff)
				}
				return err
			})
		}
	})
}

func TestAClockThatIsPutForwardIsEverybodysNow(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		clock := new(store.Clock)
		s := storetest.Open(t, url, store.WithClock(clock))
		addMachines(t, s, 1)
		now := func() (now time.Time) {
			view(t, s, func(ctx context.Context, tx *store.Tx) (err error) { now, err = tx.Now(ctx); return err })
			return now
		}
		before := now()
		clock.Advance(100 * time.Hour)
		if ahead := now().Sub(before); ahead < 100*time.Hour || ahead > 101*time.Hour {
			t.Errorf("it is %s later", ahead)
		}
		addCluster(t, s, "c1", "hello")
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			c, err := tx.Cluster(ctx, "c1")
			if c.CreatedAt.Sub(before) < 100*time.Hour {
				t.Errorf("what is written later is from %s, and it was %s before", c.CreatedAt, before)
			}
			return err
		})
	})
}

func TestAClusterRemembersTheNodesThatItHad(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		addMachines(t, s, 3)
		addCluster(t, s, "c1", "hello")
		addCluster(t, s, "c2", "other")
		had := func(id string) (before bool) {
			t.Helper()
			view(t, s, func(ctx context.Context, tx *store.Tx) error {
				n, err := tx.Node(ctx, id)
				if err == nil {
					before, err = tx.HadNode(ctx, n)
				}
				return err
			})
			return before
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(addNode(ctx, tx, "a", "c1", "n1", 3, "m1"), addNode(ctx, tx, "b", "c2", "n1", 3, "m2"))
		})
		if had("a") {
			t.Error("the first node of a name had one before it")
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.Node(ctx, "a")
			return errors.Join(err, tx.LeaveMachine(ctx, n), tx.AddNode(ctx, store.Node{
				ID: "c", Cluster: "c1", Name: "n1", Role: protocol.Compute, Queue: "main", Class: "local", MachineID: "m3", Machine: "m3"}))
		})
		if !had("c") || had("b") {
			t.Error("a node that took the place of another had none before it, or that of another cluster had")
		}
	})
}
