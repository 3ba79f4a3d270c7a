package kinds_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/drivers"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/fake"
	"muster/internal/identity"
	"muster/internal/inventory"
	"muster/internal/kinds"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// fixture is a whole control plane over a fake substrate, with the agents' part played by cast.
type fixture struct {
	*testing.T
	db        *core.Store
	clock     *core.Clock // the database's
	deps      life.Deps
	substrate *fake.Substrate
	admission *admission.Admission
	mute      func(node.Node) bool    // nodes whose agents say nothing
	jobs      func(node.Node) int     // that run on a node
	reboots   func(node.Node) bool    // its Slurm was told to reboot a node
	measure   func(node.Node) float64 // what a node that is asked to finds its memory bandwidth to be
}

type oneImage struct{}

func (oneImage) With([]string) []string { return nil }

func (oneImage) Image(name string) (admission.Image, error) {
	if name != "debian13-hpc" {
		return admission.Image{}, errors.New("there is no image " + name)
	}
	return admission.Image{Name: name, Digest: "sha256:00", Arch: "amd64"}, nil
}

type inspector struct{}

func (inspector) Inspect(context.Context, substrate.Inspection) (substrate.Inspected, error) {
	return substrate.Inspected{Done: true, Facts: inventory.Facts{Arch: "amd64", CPUs: 2, MemoryMiB: 1024}}, nil
}

func (inspector) EnsureOff(context.Context, inventory.Machine) (string, error) { return "", nil }

func newFixture(t *testing.T, url string, machines int) *fixture {
	catalogue, err := inventory.ReadCatalogue("")
	if err != nil {
		t.Fatal(err)
	}
	catalogue.Acceptance = inventory.Acceptance{} // none, but where a test says so
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	clock := new(core.Clock)
	s := &fixture{
		T: t, db: kindstest.Open(t, url, core.WithClock(clock)), clock: clock, substrate: fake.New(fake.Options{Exclusive: true}),
		admission: &admission.Admission{Catalogue: catalogue, Images: oneImage{}, Schedulers: drivers.Schedulers(),
			Substrates: drivers.Substrates()},
	}
	s.deps = life.Deps{DB: s.db, Shared: s.substrate, Snapshots: s.substrate, Admission: s.admission, Authority: authority,
		Catalogue: &s.admission.Catalogue, Schedulers: s.admission.Schedulers, Substrates: s.admission.Substrates}
	s.limit(func(l *substrate.Deadlines) {
		l.Quarantine, l.Forget, l.FailureWindow = 300*time.Millisecond, time.Second, 300*time.Millisecond
	})
	s.update(func(ctx context.Context, tx *core.Tx) error {
		for range machines {
			id := core.NewID("m")
			if err := machine.Add(ctx, tx, inventory.Machine{ID: id, Name: id, Substrate: "local"}); err != nil {
				return err
			}
		}
		return nil
	})
	return s
}

// deadlines are those of a substrate.
func deadlines(of string) substrate.Deadlines {
	f, _ := drivers.Substrates().Find(of)
	return f.Deadlines
}

// limit changes the limits of the phases; before run.
func (s *fixture) limit(change func(*substrate.Deadlines)) {
	limits := s.deps.Providers["local"].Limits
	if limits == (substrate.Deadlines{}) {
		limits = deadlines("local")
	}
	change(&limits)
	s.deps.Providers = map[string]life.Provider{"local": {Caps: s.admission.Substrates.Of("local"), Substrate: s.substrate,
		Inspector: inspector{}, Limits: limits}}
}

// run starts engines and agents; they end with the test or when stop is called.
func (s *fixture) run(engines int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, engines+2)
	for range engines {
		engine := kinds.NewEngine(core.NewID("e"), s.deps, slog.New(slog.DiscardHandler))
		go func() {
			if err := kindstest.Run(ctx, engine); err != nil {
				s.Error(err)
			}
			done <- struct{}{}
		}()
	}
	go func() { s.fakeAgents(ctx); done <- struct{}{} }()
	go func() {
		kinds.Sweep(ctx, s.deps, 300*time.Millisecond, slog.New(slog.DiscardHandler))
		done <- struct{}{}
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for range engines + 2 {
			<-done
		}
	}
	s.Cleanup(stop)
	return stop
}

// follow looks at once, then after commits, and now and then: what a substrate or a test holds changes without one.
func (s *fixture) follow(ctx context.Context, look func()) {
	for ctx.Err() == nil {
		changed := s.db.Changed()
		look()
		select {
		case <-changed:
			time.Sleep(2 * time.Millisecond) // several commits are one look
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// eventually waits until ok says so. It gives up after minutes.
func (s *fixture) eventually(ok func() bool) (done bool) {
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Minute)
	defer cancel()
	s.follow(ctx, func() {
		if done = ok(); done {
			cancel()
		}
	})
	return done
}

// errIdle ends a transaction that has nothing to write: it is no news then.
var errIdle = errors.New("nothing to say")

// fakeAgents plays every agent: a node that runs joins and is well, and the head's Slurm follows what the agents would be told.
func (s *fixture) fakeAgents(ctx context.Context) {
	s.follow(ctx, func() {
		err := s.db.Update(ctx, func(tx *core.Tx) error {
			nodes, err := node.List(ctx, tx)
			idle := true
			for i := 0; i < len(nodes) && err == nil; i++ {
				var said bool
				said, err = s.play(ctx, tx, nodes[i])
				idle = idle && !said
			}
			if err == nil && idle {
				return errIdle
			}
			return err
		})
		if err != nil && !errors.Is(err, errIdle) && ctx.Err() == nil {
			s.Error(err)
		}
	})
}

// play says what a node's agent has to say now, if it has.
func (s *fixture) play(ctx context.Context, tx *core.Tx, n node.Node) (said bool, err error) {
	refs, err := s.substrate.List(ctx)
	if err != nil {
		return false, err
	}
	runs := false
	for _, r := range refs {
		runs = runs || r.Node == n.ID && r.Boot == n.Boot
	}
	if s.mute != nil && s.mute(n) {
		return false, nil
	}
	if woken := n.Phase == node.Joining && n.Seen.Boot != n.Boot; runs && (n.Phase == node.Booting || woken) {
		if _, err := node.UseToken(ctx, tx, n.ID, n.Boot, "key"); err != nil {
			return false, err
		}
		if err := node.SaveReport(ctx, tx, n.ID,
			protocol.Report{Boot: n.Boot, Checks: []protocol.Check{{Name: "munge", OK: true}}}); err != nil {
			return false, err
		}
		tx.Wake(node.Kind, n.ID)
		said = true
	}
	if done, err := s.playTest(ctx, tx, n); done || err != nil {
		return done, err
	}
	if n.Role == protocol.Head {
		paused, err := s.playPause(ctx, tx, n, runs)
		return said || paused, err
	}
	var row *protocol.NodeState
	if runs && n.Phase != core.Releasing && n.Phase != core.Failed {
		row = &protocol.NodeState{Name: n.Name, Responding: true, Size: protocol.Size{CPUs: 2, Memory: 1000}}
		if s.jobs != nil {
			row.Jobs = s.jobs(n)
		}
		row.Reboots = s.reboots != nil && s.reboots(n)
		row.State = protocol.StateOf(n.Desired == node.Absent || n.Renew, row.Jobs > 0)
	}
	if (row == nil) != (n.Seen.Scheduler == nil) || row != nil && *row != *n.Seen.Scheduler {
		tx.Wake(node.Kind, n.ID)
		return true, node.SaveScheduler(ctx, tx, n.ID, row)
	}
	return said, nil
}

func (s *fixture) update(f func(context.Context, *core.Tx) error) {
	s.Helper()
	if err := s.db.Update(context.Background(), func(tx *core.Tx) error { return f(context.Background(), tx) }); err != nil {
		s.Fatal(err)
	}
}

func (s *fixture) view(f func(context.Context, *core.Tx) error) {
	s.Helper()
	if err := s.db.View(context.Background(), func(tx *core.Tx) error { return f(context.Background(), tx) }); err != nil {
		s.Fatal(err)
	}
}

// create asks for a cluster and returns its ID.
func (s *fixture) create(name string, nodes int) (id string) {
	s.Helper()
	s.update(func(ctx context.Context, tx *core.Tx) error {
		plan, err := s.admission.Create(ctx, tx, spec.Cluster{Name: name, Nodes: nodes})
		if err != nil {
			return err
		}
		c, err := s.admission.CarryOut(ctx, tx, plan, "admin", 0)
		id = c.ID
		return err
	})
	return id
}

func (s *fixture) scale(id string, nodes int) {
	s.Helper()
	s.update(func(ctx context.Context, tx *core.Tx) error {
		plan, err := s.resize(ctx, tx, id, nodes)
		if err != nil {
			return err
		}
		_, err = s.admission.CarryOut(ctx, tx, plan, "admin", 0)
		return err
	})
}

// resize plans that a cluster's first queue has so many nodes.
func (s *fixture) resize(ctx context.Context, tx *core.Tx, id string, nodes int) (*admission.Plan, error) {
	c, err := cluster.Get(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	want := c.Spec
	want.Queues = []spec.Queue{want.Queues[0]}
	want.Queues[0].Min, want.Queues[0].Max = &nodes, &nodes
	return s.admission.Change(ctx, tx, c, want)
}

func (s *fixture) remove(id string) {
	s.Helper()
	s.update(func(ctx context.Context, tx *core.Tx) error { return cluster.WantDeleted(ctx, tx, id) })
}

// until waits for something to become true of a cluster.
func (s *fixture) until(id, what string, ok func(cluster.Cluster, []node.Node) bool) {
	s.Helper()
	var c cluster.Cluster
	var nodes []node.Node
	if s.eventually(func() bool {
		s.view(func(ctx context.Context, tx *core.Tx) (err error) {
			if c, err = cluster.Get(ctx, tx, id); err == nil {
				nodes, err = node.Of(ctx, tx, id)
			}
			return err
		})
		return ok(c, nodes)
	}) {
		return
	}
	for _, n := range nodes {
		s.Logf("node %s on %s: %s %s", n.Name, n.Machine, n.Phase, n.Reason)
	}
	s.Fatalf("cluster %s is not %s: %s %s %s", c.Name, what, c.Phase, c.Reason, c.Short)
}

func (s *fixture) untilReady(id string, nodes int) {
	s.Helper()
	s.until(id, "ready", func(c cluster.Cluster, all []node.Node) bool {
		return c.Phase == core.Ready && c.Reached == c.Generation && len(all) == nodes+1
	})
}

// untilClean waits for a cluster's end and sees that nothing is left and every machine is free.
func (s *fixture) untilClean(id string) {
	s.Helper()
	s.until(id, "deleted", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == core.Deleted && c.Receipt != nil })
	busy := ""
	if !s.eventually(func() bool {
		busy = ""
		s.view(func(ctx context.Context, tx *core.Tx) error {
			machines, err := machine.List(ctx, tx)
			for _, m := range machines {
				if !m.Free() {
					busy = m.Name + ": " + string(m.Phase) + " " + m.Reason
				}
			}
			return err
		})
		return busy == ""
	}) {
		s.Fatal("a machine did not come back: ", busy)
	}
	refs, _ := s.substrate.List(context.Background())
	shared, _ := s.substrate.ListShared(context.Background())
	if len(refs)+len(shared) > 0 {
		s.Fatal("left over: ", refs, shared)
	}
	for _, v := range s.substrate.Violations() {
		s.Error(v)
	}
}

func TestAClusterIsMadeScaledAndDeleted(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 8)
		s.run(1)
		s.untilFree(8)
		id := s.create("hello", 3)
		s.untilReady(id, 3)
		s.view(func(ctx context.Context, tx *core.Tx) error {
			nodes, err := node.Of(ctx, tx, id)
			for _, n := range nodes {
				told := s.substrate.Told(substrate.Ref{Cluster: id, Node: n.ID, Boot: n.Boot})
				if told.Seats != 4 { // whom it knows from its first packet on: the head and three more
					t.Errorf("%s is told of %d seats", n.Name, told.Seats)
				}
			}
			return err
		})
		s.scale(id, 6)
		s.untilReady(id, 6)
		s.scale(id, 2)
		s.untilReady(id, 2)
		s.remove(id)
		s.untilClean(id)
	})
}

func (s *fixture) untilFree(n int) {
	s.Helper()
	if !s.eventually(func() bool {
		free := 0
		s.view(func(ctx context.Context, tx *core.Tx) error {
			machines, err := machine.List(ctx, tx)
			for _, m := range machines {
				if m.Free() {
					free++
				}
			}
			return err
		})
		return free == n
	}) {
		s.Fatalf("%d machines did not become free", n)
	}
}

func TestANameKeepsItsAddressWhenItComesBack(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 6)
	s.run(1)
	s.untilFree(6)
	id := s.create("hello", 3)
	s.untilReady(id, 3)
	slots := func() map[string]int {
		m := map[string]int{}
		s.view(func(ctx context.Context, tx *core.Tx) error {
			nodes, err := node.Of(ctx, tx, id)
			for _, n := range nodes {
				m[n.Name] = n.Slot
			}
			return err
		})
		return m
	}
	before := slots()
	s.scale(id, 1)
	s.untilReady(id, 1)
	s.scale(id, 5)
	s.untilReady(id, 5)
	after := slots()
	for name, slot := range before {
		if after[name] != slot {
			t.Errorf("%s had seat %d and has %d", name, slot, after[name])
		}
	}
}

func TestANodeThatDiesIsReplacedAndItsMachineExamined(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 4)
	s.run(1)
	s.untilFree(4)
	id := s.create("hello", 2)
	s.untilReady(id, 2)
	var victim node.Node
	s.view(func(ctx context.Context, tx *core.Tx) error {
		nodes, err := node.Of(ctx, tx, id)
		victim = nodes[1]
		return err
	})
	s.substrate.DieWithMachine(victim.Machine)
	// as its agent's silence will
	s.update(func(_ context.Context, tx *core.Tx) error { tx.Wake(node.Kind, victim.ID); return nil })
	s.until(id, "whole again", func(c cluster.Cluster, nodes []node.Node) bool {
		if c.Phase != core.Ready || len(nodes) != 3 {
			return false
		}
		return nodes[1].Name == victim.Name && nodes[1].ID != victim.ID && nodes[1].Machine != victim.Machine
	})
	s.until(id, "its machine was examined", func(cluster.Cluster, []node.Node) (quarantined bool) {
		s.view(func(ctx context.Context, tx *core.Tx) error {
			events, err := tx.Events(ctx, core.EventsOf{Limit: 1000})
			for _, e := range events {
				quarantined = quarantined || e.Machine == victim.Machine && e.Phase == machine.Quarantined
			}
			return err
		})
		return quarantined
	})
	s.remove(id)
	s.untilClean(id)
}

func TestANodeWhoseAgentIsSilentBootsAgainThenMovesToAnotherMachine(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 4)
	s.limit(func(l *substrate.Deadlines) { l.Boot, l.Quarantine = 2*time.Second, time.Hour })
	bad := ""
	s.mute = func(n node.Node) bool {
		if bad == "" && n.Name == "n1" {
			bad = n.Machine
		}
		return n.Machine == bad
	}
	s.run(1)
	s.untilFree(4)
	id := s.create("hello", 2)
	s.until(id, "ready elsewhere", func(c cluster.Cluster, nodes []node.Node) bool {
		return c.Phase == core.Ready && len(nodes) == 3 && nodes[1].Machine != bad
	})
	boots := 0
	s.view(func(ctx context.Context, tx *core.Tx) error {
		events, err := tx.Events(ctx, core.EventsOf{Cluster: id, Limit: 1000})
		for _, e := range events {
			if e.Node == "n1" && e.Machine == bad && e.Phase == node.Booting {
				boots++
			}
		}
		return err
	})
	if boots != 2 {
		t.Errorf("%d boots on the silent machine", boots)
	}
}

func TestFailedStartsAreTriedAgain(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 3)
	s.run(1)
	s.untilFree(3)
	id := s.create("hello", 2)
	s.view(func(ctx context.Context, tx *core.Tx) error {
		nodes, err := node.Of(ctx, tx, id)
		for _, n := range nodes {
			s.substrate.FailEnsure(n.ID, 2, nil)
		}
		return err
	})
	s.untilReady(id, 2)
	s.remove(id)
	s.untilClean(id)
}

func TestTooLittleCapacityIsRefusedWithNumbersAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := newFixture(t, t.TempDir()+"/db", 3)
	s.run(1)
	s.untilFree(3)
	err := s.db.Update(context.Background(), func(tx *core.Tx) error {
		_, err := s.admission.Create(context.Background(), tx, spec.Cluster{Name: "big", Nodes: 5})
		return err
	})
	var refusal *admission.Refusal
	if !errors.As(err, &refusal) || refusal.Kind != admission.NoCapacity ||
		refusal.Diagnostics[0].Text != "class local: 5 asked, 3 free" {
		t.Fatal(err)
	}
}

func TestControllersThatComeAndGoLoseNothing(t *testing.T) {
	kindstest.Either(t, func(t *testing.T, url string) {
		s := newFixture(t, url, 10)
		engines := 1
		if s.db.Shared() {
			engines = 3
		}
		stop := s.run(engines)
		s.untilFree(10)
		again := func() { stop(); stop = s.run(engines) }
		a := s.create("a", 3)
		again()
		b := s.create("b", 3)
		again()
		s.untilReady(a, 3)
		s.untilReady(b, 3)
		s.scale(a, 5)
		again()
		s.remove(b)
		again()
		s.untilReady(a, 5)
		s.remove(a)
		again()
		for _, id := range []string{a, b} { // what one has left must not be taken for the other's
			s.until(id, "deleted", func(c cluster.Cluster, _ []node.Node) bool { return c.Phase == core.Deleted })
		}
		s.untilClean(a)
		s.untilClean(b)
	})
}
