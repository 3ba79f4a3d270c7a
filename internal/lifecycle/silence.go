package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"muster/internal/agent/protocol"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/node"
)

// believed is how many nodes of a place may always be lost at once and be believed of each.
const believed = 2

// massLooks is how often a node that is lost together with many others looks again.
const massLooks = 10 * time.Second

// alarmLooks is how often one looks whose place has an alarm that is about to end.
const alarmLooks = time.Second

// alive goes before the handler of a node whose agent is to be heard. It fails the node that is lost: its agent is silent,
// or what runs on it has not been well, for longer than the limit. What many nodes seem to have at once is taken for a fault
// of what is between them and the controllers: then none is failed, and an alarm is raised. What the substrate itself shows is
// certain and needs no guard; the handlers see to that.
func (w Deps) alive(handle func(context.Context, nodeView) core.Outcome) func(context.Context, nodeView) core.Outcome {
	return func(ctx context.Context, n nodeView) core.Outcome {
		if n.cluster.Desired == core.ToDelete {
			return handle(ctx, n)
		}
		if apart := n.apart(); apart != "" {
			return n.fail("%s", apart).Because(CauseMachine)
		}
		limit := w.provider(n).Limits.Silence
		why, left, err := w.lost(ctx, n, limit)
		switch {
		case err != nil:
			return core.Retry(err)
		case why == "":
			o := handle(ctx, n)
			if o.After > left && left > 0 {
				o.After = left + time.Millisecond // so that the limit is kept
			}
			return o
		}
		var all failureDomain
		var alarmed bool
		var listened time.Time
		err = w.DB.View(ctx, func(tx *core.Tx) (err error) {
			if alarmed, err = host.Alarmed(ctx, tx, n.machine.Network); err != nil {
				return err
			}
			if listened, err = host.ListenedSince(ctx, tx, n.machine.Network); err != nil {
				return err
			}
			all, err = w.failureDomain(ctx, tx, n.machine.Network, w.provider(n).Limits)
			return err
		})
		switch {
		case err != nil:
			return core.Retry(err)
		case listened.After(n.listened): // an alarm has just ended, and with it what was counted
			return core.WaitFor(alarmLooks, "%s, and has its time again", why)
		case !all.many() && alarmed: // they come back one after the other; the last has as long as any once the alarm is over
			return core.WaitFor(alarmLooks, "%s, and is not given up before the alarm is over", why)
		case !all.many():
			return n.fail("%s", why).Because(CauseLost)
		}
		return core.WaitFor(massLooks, "%s, and is not given up: %s", why, all).With(func(ctx context.Context, tx *core.Tx) error {
			tx.Wake(cluster.Kind, n.Cluster)
			return host.RaiseAlarm(ctx, tx, n.machine.Network, fmt.Sprintf("%s; none is replaced for it; if it is true, `muster machines quarantine NAME…` gives them up", all))
		})
	}
}

// lost says why a node is to be given up, "" if it is not, and how long it has left as things stand. Time counts only from
// when the node's place was listened to: a controller must not take its own deafness for theirs.
func (w Deps) lost(ctx context.Context, n nodeView, limit time.Duration) (why string, left time.Duration, err error) {
	seen, well := n.PhaseAt, n.PhaseAt
	if n.Seen.Boot == n.Boot {
		seen, well = n.Seen.At, later(n.Seen.WellAt, n.PhaseAt)
	}
	silent := n.now.Sub(later(seen, n.listened))
	left = limit - silent
	if left <= 0 {
		return fmt.Sprintf("its agent was silent for %.0f s", n.now.Sub(seen).Seconds()), left, nil
	}
	if n.Phase != core.Ready && n.Phase != node.Draining {
		return "", left, nil // what joins is not yet well, and has a deadline
	}
	if n.Role == protocol.Head {
		limit = max(limit, w.provider(n).Limits.Join) // a new one would end every session, and would need as long
	}
	left = min(left, limit-n.now.Sub(later(well, n.listened)))
	lost := n.Role == protocol.Compute && n.Seen.Scheduler.Lost()
	if left > 0 && !lost {
		return "", left, nil
	}
	if n.Role == protocol.Compute {
		since, err := w.headWellSince(ctx, n.Cluster, limit/2)
		if err != nil || since.IsZero() {
			return "", limit, err
		}
		left = min(limit, limit-n.now.Sub(later(later(well, n.listened), since)))
		if lost && n.now.Sub(since) >= limit {
			return n.scheduler.Title + " has given it up: it does not respond", left, nil
		}
		if left > 0 {
			return "", left, nil
		}
	}
	return fmt.Sprintf("not well for %.0f s: %s", n.now.Sub(well).Seconds(), n.unwell()), left, nil
}

// headWellSince is since when the cluster's head is well without a gap; zero if it is not, or was not heard lately. Without
// its head no node is well, and its scheduler says nothing: that is the head's fault, and its nodes need time after it is back.
func (w Deps) headWellSince(ctx context.Context, cluster string, lately time.Duration) (since time.Time, err error) {
	err = w.DB.View(ctx, func(tx *core.Tx) error {
		nodes, err := node.Of(ctx, tx, cluster)
		if err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		for _, n := range nodes {
			if n.Role == protocol.Head && n.Phase == core.Ready && n.Seen.Healthy(n.Boot) && now.Sub(n.Seen.At) < lately {
				since = later(n.Seen.WellSince, n.PhaseAt)
			}
		}
		return err
	})
	return since, err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// failureDomain is how many nodes of a place, and hypervisors, are lost, or about to be, or have just failed, at one moment.
type failureDomain struct {
	place     string
	hosts     bool // hypervisors are among them
	lost, of  int  // by name
	failed    int  // of the lost
	mayBeLost int
}

// many says that this is no fault of single nodes: more than the limit are lost, or all of two or more.
func (c failureDomain) many() bool { return c.lost > c.mayBeLost || c.lost >= 2 && c.lost == c.of }

func (c failureDomain) String() string {
	who := "nodes"
	if c.hosts {
		who = "nodes and hypervisors"
	}
	return fmt.Sprintf("%d of %d %s %s are lost at once", c.lost, c.of, who, at(c.place))
}

// at names a place.
func at(place string) string {
	if place == "" {
		return "on the controller's host"
	}
	return "on network " + place
}

// failureDomain counts. A node counts as lost already at half of its limit: those that one fault takes do not all speak last in the
// same moment.
func (w Deps) failureDomain(ctx context.Context, tx *core.Tx, place string, limits substrate.Deadlines) (failureDomain, error) {
	c := failureDomain{place: place}
	heartbeats, err := host.Heartbeats(ctx, tx, place, limits.Calm)
	if err != nil {
		return c, err
	}
	listened, err := host.ListenedSince(ctx, tx, place)
	if err != nil {
		return c, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return c, err
	}
	heads := map[string]time.Time{} // by cluster: since when its head is well
	for _, p := range heartbeats {
		if p.Role == protocol.Head && p.Phase == core.Ready && !p.WellSince.IsZero() && now.Sub(p.SeenAt) < limits.Silence/2 {
			heads[p.Cluster] = later(p.WellSince, p.PhaseAt)
		}
	}
	all, lost, failed := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, p := range heartbeats {
		who := p.Cluster + "/" + p.Name
		all[who] = true
		head, served := heads[p.Cluster]
		spoke := p.SeenAt
		switch {
		case p.SeenAt.IsZero():
			spoke = p.PhaseAt
		case p.Phase != core.Ready && p.Phase != node.Draining:
		case p.Role == protocol.Head:
			spoke = later(p.WellAt, p.PhaseAt)
		case served: // else it cannot be well
			spoke = later(later(p.WellAt, p.PhaseAt), head)
		}
		if !p.FailedAt.IsZero() {
			failed[who] = true
		}
		if failed[who] || now.Sub(later(later(spoke, listened), p.Undisturbed)) >= limits.Silence/2 {
			lost[who] = true
		}
	}
	hosts, err := host.HostHeartbeats(ctx, tx, place)
	if err != nil {
		return c, err
	}
	for name, spoke := range hosts { // no cluster is called so
		who := "hypervisor " + name
		all[who] = true
		if now.Sub(later(spoke, listened)) >= limits.Silence/2 {
			lost[who] = true
		}
	}
	c.hosts = len(hosts) > 0
	c.lost, c.of, c.failed = len(lost), len(all), len(failed)
	c.mayBeLost = max(believed, int(math.Ceil(limits.Together*float64(c.of))))
	return c, nil
}

// manyFailed says why the missing nodes of a cluster must wait: so many nodes have failed just now where its own
// did that to replace all at once might only spread what ails them. "" if they need not wait.
func (w Deps) manyFailed(ctx context.Context, tx *core.Tx, cluster string) (string, error) {
	places, err := host.PlacesOfFailures(ctx, tx, cluster)
	if err != nil {
		return "", err
	}
	for _, place := range places {
		limits := w.limitsAt(place)
		c, err := w.failureDomain(ctx, tx, place, limits)
		if err != nil {
			return "", err
		}
		if c.failed > c.mayBeLost {
			return fmt.Sprintf("waits: %d of %d nodes %s failed within %s", c.failed, c.of, at(place), limits.Calm), nil
		}
	}
	return "", nil
}

// clearAlarms ends the alarms of places whose nodes are heard again, and of those that are few by now.
func (w Deps) clearAlarms(ctx context.Context) error {
	var over []host.Alarm
	err := w.DB.View(ctx, func(tx *core.Tx) error {
		alarms, err := host.Alarms(ctx, tx)
		if err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		for _, a := range alarms {
			if ofFabric(a.Place) {
				continue // its handler ends it
			}
			limits := w.limitsAt(a.Place)
			listened, err := host.ListenedSince(ctx, tx, a.Place)
			if err != nil {
				return err
			}
			if now.Sub(listened) < limits.Silence {
				continue // nobody can tell yet
			}
			c, err := w.failureDomain(ctx, tx, a.Place, limits)
			if err != nil {
				return err
			}
			if !c.many() {
				over = append(over, a)
			}
		}
		return nil
	})
	if err != nil || len(over) == 0 {
		return err
	}
	return w.DB.Update(ctx, func(tx *core.Tx) error {
		for _, a := range over {
			if err := host.ClearAlarm(ctx, tx, a.Place, "over: the nodes "+at(a.Place)+" are heard again, or are given up"); err != nil {
				return err
			}
		}
		return nil
	})
}

// limitsAt are those of the machines at a place: on a network, or on this host.
func (w Deps) limitsAt(place string) substrate.Deadlines {
	for _, name := range slices.Sorted(maps.Keys(w.Providers)) {
		if caps := w.Providers[name].Caps; !caps.Guest && caps.OnHost == (place == "") {
			return w.Providers[name].Limits
		}
	}
	return substrate.Deadlines{}
}
