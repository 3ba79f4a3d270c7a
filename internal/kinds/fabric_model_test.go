package kinds_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/internal/core"
	"muster/internal/fabric"
	"muster/internal/kinds"
	"muster/internal/kinds/cluster"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/host"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
)

// loom is a weave whose handlers run one at a time, in any order, and can be lost before they have written what they did.
type loom struct {
	*weave
	engine *core.Engine
	living []string                       // clusters
	held   map[fabric.GUID][]fabric.Entry // what silent ports held when they fell silent
	rogue  map[fabric.GUID]bool
	steps  map[string]int
}

var loomKinds = []core.Kind{fabrics.Kind, node.Kind, machine.Kind, cluster.Kind}

// checks sets how many runs rapid makes, for one test.
func checks(t *testing.T, n int) {
	before := flag.Lookup("rapid.checks").Value.String()
	if err := flag.Set("rapid.checks", fmt.Sprint(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set("rapid.checks", before) })
}

// TestNoPortEverHoldsAnotherClustersKey proves the order at attach and detach: whatever fails, is lost or is repeated, no port
// has keys of two clusters, no node runs beside a key that is not its own, and no machine is free whose port holds a key.
func TestNoPortEverHoldsAnotherClustersKey(t *testing.T) {
	if flag.Lookup("rapid.checks").Value.String() == "100" { // the default: it was not set
		checks(t, 4)
	}
	total := map[string]int{}
	rapid.Check(t, func(r *rapid.T) {
		w := newWeave(t, t.TempDir()+"/db", 5)
		w.deps.Pace = life.FabricPace{Apply: time.Millisecond, Observe: time.Millisecond, Again: time.Nanosecond}
		l := &loom{weave: w, engine: kinds.NewEngine("e", w.deps, slog.New(slog.DiscardHandler)),
			held: map[fabric.GUID][]fabric.Entry{}, rogue: map[fabric.GUID]bool{}, steps: total}
		l.untilAll(r, 5)
		for range rapid.IntRange(20, 120).Draw(r, "steps") {
			l.act(r)
			l.look(r)
		}
		l.heal()
		for _, id := range l.living {
			l.remove(id)
		}
		l.untilAll(r, 5)
	})
	t.Logf("%v", total)
}

// act does one thing that may happen.
func (l *loom) act(r *rapid.T) {
	guid := fabric.GUID(rapid.IntRange(1, 5).Draw(r, "port"))
	lost := rapid.IntRange(0, 5).Draw(r, "lost") == 0
	all := []struct {
		name   string
		weight int
		do     func() bool
	}{
		{"step", 16, func() bool { l.step(r, rapid.SampledFrom(loomKinds).Draw(r, "kind"), lost); return true }},
		{"all but the fabric", 10, func() bool { // which lags behind
			for range 3 {
				for _, kind := range []core.Kind{node.Kind, machine.Kind, cluster.Kind} {
					l.step(r, kind, false)
					l.agents()
					l.look(r)
				}
			}
			return true
		}},
		{"agents", 5, func() bool { l.agents(); return true }},
		{"create", 4, func() bool { return l.tryCreate(fmt.Sprintf("c%d", l.steps["create"])) }},
		{"delete", 3, func() bool {
			if len(l.living) == 0 {
				return false
			}
			i := rapid.IntRange(0, len(l.living)-1).Draw(r, "cluster")
			l.remove(l.living[i])
			l.living = slices.Delete(l.living, i, i+1)
			return true
		}},
		{"silent", 4, func() bool { l.silence(guid, l.held[guid] == nil); return true }},
		{"rogue", 1, func() bool { return l.goRogue(guid) }},
		{"refuse", 2, func() bool { l.fabric.Refuse(errors.New("not now")); return true }},
		{"obey", 2, func() bool { l.fabric.Refuse(nil); return true }},
		{"no start", 1, func() bool {
			l.view(func(ctx context.Context, tx *core.Tx) error {
				nodes, err := node.List(ctx, tx)
				if len(nodes) > 0 {
					l.substrate.FailEnsure(rapid.SampledFrom(nodes).Draw(r, "node").ID, 1, nil)
				}
				return err
			})
			return true
		}},
	}
	sum := 0
	for _, a := range all {
		sum += a.weight
	}
	at := rapid.IntRange(0, sum-1).Draw(r, "action")
	for _, a := range all {
		if at -= a.weight; at < 0 {
			if a.do() {
				l.steps[a.name]++
			}
			return
		}
	}
}

// step wakes all rows of a kind and runs their handlers.
func (l *loom) step(r *rapid.T, kind core.Kind, lost bool) {
	l.update(func(ctx context.Context, tx *core.Tx) error {
		nodes, err := node.List(ctx, tx)
		if err != nil {
			return err
		}
		machines, err := machine.List(ctx, tx)
		if err != nil {
			return err
		}
		clusters, err := cluster.List(ctx, tx, "")
		for _, n := range nodes {
			tx.Wake(node.Kind, n.ID)
		}
		for _, m := range machines {
			tx.Wake(machine.Kind, m.ID)
		}
		for _, c := range clusters {
			tx.Wake(cluster.Kind, c.ID)
		}
		tx.Wake(fabrics.Kind, fabric0)
		return err
	})
	if err := l.engine.Step(context.Background(), kind, func() bool { return lost }); err != nil {
		r.Fatal(err)
	}
}

// agents lets every node's agent say what it has to.
func (l *loom) agents() {
	l.update(func(ctx context.Context, tx *core.Tx) error {
		nodes, err := node.List(ctx, tx)
		for _, n := range nodes {
			if err == nil {
				_, err = l.play(ctx, tx, n)
			}
		}
		return errors.Join(err, host.Listen(ctx, tx, "", "loom"))
	})
}

// tryCreate makes a cluster of two machines if there are.
func (l *loom) tryCreate(name string) bool {
	free := 0
	l.view(func(ctx context.Context, tx *core.Tx) error {
		machines, err := machine.List(ctx, tx)
		if err != nil {
			return err
		}
		unfit, err := fabrics.Unfit(ctx, tx, machines)
		for _, m := range machines {
			if m.Free() && unfit[m.ID] == "" {
				free++
			}
		}
		return err
	})
	if free < 2 {
		return false
	}
	l.living = append(l.living, l.create(name, 1))
	return true
}

// silence takes a port's link down, or up.
func (l *loom) silence(guid fabric.GUID, silent bool) {
	if silent {
		held := append([]fabric.Entry{}, l.tables()[guid]...)
		l.held[guid] = held
	} else {
		delete(l.held, guid)
	}
	l.fabric.Silence(guid, silent)
}

// goRogue has a tenant write another cluster's key into the port of a node that runs, or ends that.
func (l *loom) goRogue(guid fabric.GUID) bool {
	if l.rogue[guid] {
		l.fabric.Rogue(guid)
		delete(l.rogue, guid)
		return true
	}
	if runs := l.running(); runs[guid] == "" || l.held[guid] != nil {
		return false
	}
	l.fabric.Rogue(guid, fabric.Key(1+len(l.rogue)).In(fabric.Full))
	l.rogue[guid] = true
	return true
}

// heal ends all faults.
func (l *loom) heal() {
	l.fabric.Refuse(nil)
	for guid := range l.rogue {
		l.fabric.Rogue(guid)
		delete(l.rogue, guid)
	}
	for guid := range l.held {
		l.silence(guid, false)
	}
}

// running says which cluster's node runs behind each port.
func (l *loom) running() map[fabric.GUID]string {
	refs, err := l.substrate.List(context.Background())
	if err != nil {
		l.Fatal(err)
	}
	on := map[fabric.GUID]string{}
	l.view(func(ctx context.Context, tx *core.Tx) error {
		for _, ref := range refs {
			n, err := node.Get(ctx, tx, ref.Node)
			if err != nil {
				return err
			}
			on[l.ports[n.Machine]] = ref.Cluster
		}
		return nil
	})
	return on
}

// look checks what must be true at any instant.
func (l *loom) look(r *rapid.T) {
	owners := map[fabric.Key]string{}
	var machines []machine.Machine
	l.view(func(ctx context.Context, tx *core.Tx) error {
		partitions, err := fabrics.Partitions(ctx, tx, fabric0)
		if err != nil {
			return err
		}
		for _, p := range partitions {
			owners[p.Key] = p.ClusterID
		}
		machines, err = machine.List(ctx, tx)
		return err
	})
	tables := l.tables()
	for guid, entries := range l.held {
		tables[guid] = entries
	}
	runs := l.running()
	for guid, entries := range tables {
		if len(entries) > 1 && !l.rogue[guid] {
			r.Fatalf("port %s holds %v", guid, entries)
		}
		for _, e := range entries {
			owner, taken := owners[e.Key()]
			switch {
			case !taken && !l.rogue[guid]:
				r.Fatalf("port %s holds %s, which is free", guid, e)
			case runs[guid] != "" && runs[guid] != owner && !l.rogue[guid]:
				r.Fatalf("a node of cluster %s runs at port %s, which holds key %s of cluster %s", runs[guid], guid, e, owner)
			}
		}
	}
	for _, m := range machines {
		guid := l.ports[m.Name]
		switch held := tables[guid]; {
		case len(held) == 0:
		case m.Free():
			r.Fatalf("machine %s is free and its port holds %v", m.Name, held)
		case m.Holder == "" && l.held[guid] == nil && !l.rogue[guid]:
			r.Fatalf("no node has machine %s, and its port answers and holds %v", m.Name, held)
		}
	}
	for _, v := range l.substrate.Violations() {
		r.Fatal(v)
	}
}

// untilAll runs all handlers until so many machines are free and no key is taken.
func (l *loom) untilAll(r *rapid.T, machines int) {
	var left string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		for _, kind := range loomKinds {
			l.step(r, kind, false)
			l.agents()
			l.look(r)
		}
		free := 0
		left = ""
		l.view(func(ctx context.Context, tx *core.Tx) error {
			all, err := machine.List(ctx, tx)
			for _, m := range all {
				if m.Free() {
					free++
				} else {
					left += fmt.Sprintf("\nmachine %s: %s %s", m.Name, m.Phase, m.Reason)
				}
			}
			if err != nil {
				return err
			}
			nodes, err := node.List(ctx, tx)
			for _, n := range nodes {
				left += fmt.Sprintf("\nnode %s: %s %s", n.Name, n.Phase, n.Reason)
			}
			partitions, err2 := fabrics.Partitions(ctx, tx, fabric0)
			for _, p := range partitions {
				left += fmt.Sprintf("\nkey %s of %s: %+v", p.Key, p.Words(), p.Members)
			}
			return errors.Join(err, err2)
		})
		if free == machines && left == "" {
			return
		}
	}
	r.Fatalf("not within a minute: %s", left)
}
