package kinds_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/meter"
	"muster/internal/kinds/node"
	"muster/internal/kinds/snapshot"
	"muster/internal/price"
)

// look checks what must be true at any instant, on one consistent view of the rows.
func (w *walk) look() {
	w.Helper()
	w.view(func(ctx context.Context, tx *core.Tx) error {
		nodes, err := node.List(ctx, tx)
		if err != nil {
			return err
		}
		clusters, err := cluster.List(ctx, tx, "")
		if err != nil {
			return err
		}
		machines, err := machine.List(ctx, tx)
		if err != nil {
			return err
		}
		open, err := meter.Rows(ctx, tx, meter.Of{Open: true})
		if err != nil {
			return err
		}
		w.owners(nodes, machines)
		w.shapes(clusters, nodes)
		w.meters(clusters, nodes, open)
		use, err := w.admission.InUse(ctx, tx, "default")
		if use.Nodes > walkQuota {
			w.Errorf("the project holds and was promised %d of %d nodes", use.Nodes, walkQuota)
		}
		return err
	})
	for _, v := range w.substrate.Violations() {
		w.Error(v)
	}
}

// owners: each machine has one at most, which has a machine.
func (w *walk) owners(nodes []node.Node, machines []machine.Machine) {
	w.Helper()
	holder := map[string]string{}
	for _, n := range nodes {
		if other, taken := holder[n.MachineID]; taken || n.MachineID == "" {
			w.Errorf("machine %s of node %s is that of %s, too", n.Machine, n.ID, other)
		}
		holder[n.MachineID] = n.ID
	}
	for _, m := range machines {
		if m.Holder != holder[m.ID] {
			w.Errorf("machine %s is held by %q and is that of %q", m.Name, m.Holder, holder[m.ID])
		}
		if free := m.Phase == machine.Quarantined || m.Phase == machine.Maintenance || m.Phase == machine.Removed; free &&
			m.Holder != "" {
			w.Errorf("machine %s is %s and has an owner", m.Name, m.Phase)
		}
	}
}

// shapes: no cluster has more than it asked for, and every node its seat.
func (w *walk) shapes(clusters []cluster.Cluster, nodes []node.Node) {
	w.Helper()
	type seat struct{ cluster, name string }
	names, slots, staying := map[seat]bool{}, map[string]bool{}, map[seat]int{}
	for _, n := range nodes {
		if names[seat{n.Cluster, n.Name}] || slots[fmt.Sprint(n.Cluster, n.Slot)] {
			w.Errorf("two nodes %s in seat %d of cluster %s", n.Name, n.Slot, n.Cluster)
		}
		names[seat{n.Cluster, n.Name}], slots[fmt.Sprint(n.Cluster, n.Slot)] = true, true
		if n.Desired == core.Present {
			staying[seat{n.Cluster, n.Queue}]++
		}
		if !slices.ContainsFunc(clusters, func(c cluster.Cluster) bool { return c.ID == n.Cluster }) {
			w.Errorf("node %s of cluster %s, which is deleted", n.Name, n.Cluster)
		}
	}
	for _, c := range clusters {
		if staying[seat{c.ID, ""}] > 1 {
			w.Errorf("cluster %s has %d heads", c.Name, staying[seat{c.ID, ""}])
		}
		for _, q := range c.Spec.Queues {
			if have := staying[seat{c.ID, q.Name}]; have > *q.Max {
				w.Errorf("queue %s of cluster %s has %d nodes of %d", q.Name, c.Name, have, *q.Max)
			}
		}
	}
}

// meters: of all that is there, and of nothing else, one runs, in the state that its phase says.
func (w *walk) meters(clusters []cluster.Cluster, nodes []node.Node, open []price.Usage) {
	w.Helper()
	states := map[string]price.State{}
	for _, r := range open {
		states[r.Subject] = r.State
	}
	for _, n := range nodes {
		want := price.Preparing
		switch n.Phase {
		case core.Ready, node.Draining, core.Failed, core.Releasing:
			want = price.State(n.Phase)
		}
		if states[n.ID] != want {
			w.Errorf("node %s is %s and its meter says %q", n.ID, n.Phase, states[n.ID])
		}
	}
	for _, c := range clusters {
		if states[c.ID] != price.Stored {
			w.Errorf("the /home of cluster %s has no meter", c.Name)
		}
	}
	if len(open) != len(nodes)+len(clusters) {
		w.Errorf("%d meters run for %d nodes and %d clusters", len(open), len(nodes), len(clusters))
	}
}

// settle stops everything that disturbs and waits until all is as asked for.
func (w *walk) settle() {
	w.Helper()
	w.fakeAgents.recover()
	var machines []machine.Machine
	w.view(func(ctx context.Context, tx *core.Tx) (err error) {
		machines, err = machine.List(ctx, tx)
		return err
	})
	for _, m := range machines {
		if m.Desired == machine.ForMaintenance {
			w.request("free", "POST", "/v1/machines/"+m.Name+"/free", "")
		}
	}
	w.eventually("what was asked for", w.unsettled)
}

// eventually waits until nothing is left of what left says.
func (w *walk) eventually(what string, left func(context.Context, *core.Tx) ([]string, error)) {
	w.Helper()
	var missing []string
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		w.view(func(ctx context.Context, tx *core.Tx) (err error) {
			missing, err = left(ctx, tx)
			return err
		})
		w.look()
		if len(missing) == 0 || w.Failed() {
			return
		}
	}
	w.dump()
	w.Fatalf("it does not come to %s:\n%s", what, strings.Join(missing, "\n"))
}

// dump logs the last events.
func (s *fixture) dump() {
	s.view(func(ctx context.Context, tx *core.Tx) error {
		last, err := tx.LastEvent(ctx)
		if err != nil {
			return err
		}
		events, err := tx.Events(ctx, core.EventsOf{After: max(0, last-120), Limit: 200})
		for _, e := range events {
			s.Logf("%s %s %s/%s %s %s: %s", e.At.Format("05.000"), e.Type, e.Cluster, e.Node, e.Machine, e.Phase, e.Text)
		}
		return err
	})
}

// unsettled names what is not as it was asked to be.
func (w *walk) unsettled(ctx context.Context, tx *core.Tx) (left []string, err error) {
	say := func(format string, args ...any) { left = append(left, fmt.Sprintf(format, args...)) }
	clusters, err := cluster.List(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	machines, err := machine.List(ctx, tx)
	if err != nil {
		return nil, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	free := 0
	for _, m := range machines {
		if m.Free() {
			free++
		} else if m.Phase != machine.InUse {
			say("machine %s is %s: %s", m.Name, m.Phase, m.Reason)
		}
	}
	for _, c := range clusters {
		nodes, err := node.Of(ctx, tx, c.ID)
		if err != nil {
			return nil, err
		}
		want := 1
		for _, q := range c.Spec.Queues {
			want += *q.Min
		}
		text := fmt.Sprintf("cluster %s is to be %s and is %s (%d/%d): %s; %s", c.Name, c.Desired, c.Phase, c.Reached,
			c.Generation, c.Reason, c.Short)
		for _, n := range nodes {
			text += fmt.Sprintf("\n    %s on %s is to be %s and is %s: %s; Slurm %+v", n.Name, n.Machine, n.Desired, n.Phase,
				n.Reason, n.Seen.Scheduler)
		}
		steady := !slices.ContainsFunc(nodes, func(n node.Node) bool {
			return n.Phase != core.Ready || n.Desired != core.Present
		})
		lacks := c.Short != "" && (free == 0 || strings.Contains(c.Short, "in use") || strings.Contains(c.Short, "has used its"))
		switch {
		case c.Desired == cluster.ToPause && c.Phase == cluster.Paused && len(nodes) == 0:
		case c.Desired != core.Present:
			say("%s", text)
		case c.Phase == core.Pending && c.Begins().After(now):
		case steady && c.Phase == core.Ready && c.Reached == c.Generation && len(nodes) == want:
		case steady && c.Phase == core.Degraded && c.Halted() && len(nodes) == want:
		case c.Image == "sha256:broken" && c.Rollout.Good.Image == "": // it never comes up
		case steady && lacks:
		default:
			say("%s", text)
		}
	}
	alarms, err := host.Alarms(ctx, tx)
	for _, a := range alarms {
		say("alarm: %s", a.Text)
	}
	return left, err
}

// end deletes everything and sees that nothing is left.
func (w *walk) end() {
	w.Helper()
	w.settle()
	var clusters []cluster.Cluster
	var snapshots []snapshot.Snapshot
	w.view(func(ctx context.Context, tx *core.Tx) (err error) {
		if clusters, err = cluster.List(ctx, tx, ""); err == nil {
			snapshots, err = snapshot.List(ctx, tx, "")
		}
		return err
	})
	for _, c := range clusters {
		w.request("delete", "DELETE", "/v1/clusters/"+c.ID, "")
	}
	for _, s := range snapshots {
		w.request("forget", "DELETE", "/v1/snapshots/"+s.ID, "")
	}
	w.eventually("nothing", func(ctx context.Context, tx *core.Tx) (left []string, err error) {
		clusters, err := cluster.List(ctx, tx, "")
		if err != nil {
			return nil, err
		}
		for _, c := range clusters {
			left = append(left, fmt.Sprintf("cluster %s is %s: %s", c.Name, c.Phase, c.Reason))
		}
		snapshots, err := snapshot.List(ctx, tx, "")
		if err != nil {
			return nil, err
		}
		for _, s := range snapshots {
			left = append(left, fmt.Sprintf("snapshot %s is %s: %s", s.Name, s.Phase, s.Reason))
		}
		machines, err := machine.List(ctx, tx)
		if err != nil {
			return nil, err
		}
		for _, m := range machines {
			if !m.Free() {
				left = append(left, fmt.Sprintf("machine %s is %s: %s", m.Name, m.Phase, m.Reason))
			}
		}
		nodes, err := node.List(ctx, tx)
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			left = append(left, "node "+n.Name)
		}
		refs, err := w.substrate.List(ctx)
		for _, r := range refs {
			left = append(left, "on the substrate: "+r.Node)
		}
		shared, _ := w.substrate.ListShared(ctx)
		kept, _ := w.substrate.Snapshots(ctx)
		alarms, _ := host.Alarms(ctx, tx)
		for _, a := range alarms {
			left = append(left, "alarm: "+a.Text)
		}
		return append(append(left, shared...), kept...), err
	})
	kindstest.Metered(w.T, w.db)
	w.view(func(ctx context.Context, tx *core.Tx) error {
		rows, err := meter.Rows(ctx, tx, meter.Of{Open: true})
		if len(rows) > 0 {
			w.Errorf("meters of nothing: %+v", rows)
		}
		return err
	})
}
