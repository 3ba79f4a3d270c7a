package life

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// MinMassFailure is how many nodes of a place may be lost at once, whatever the share, and are each taken for lost.
const MinMassFailure = 2

// MassLooks is how often a node that is lost together with many others looks again.
const MassLooks = 10 * time.Second

// AlarmLooks is how often one looks whose place has an alarm that is about to end.
const AlarmLooks = time.Second

func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// FailureDomain is how many nodes of a place, and hypervisors, are lost, or about to be, or have just failed, at one moment.
type FailureDomain struct {
	place   string
	hosts   bool // hypervisors are among them
	share   float64
	all     tally
	without []tally // all but those of one project, for each other than the one that asks

	Returns bool // a node of the project that asks was lost a moment ago, and is heard again
}

// tally counts by name.
type tally struct{ lost, of, failed int } // the failed are among the lost

// mayBeLost is how many of so many may be lost at once and are each taken for lost.
func (c FailureDomain) mayBeLost(t tally) int {
	return max(MinMassFailure, int(math.Ceil(c.share*float64(t.of))))
}

func (c FailureDomain) many(t tally) bool {
	return t.lost > c.mayBeLost(t) || t.lost >= 2 && t.lost == t.of
}

// Many says that this is no fault of single nodes: more than the limit are lost, or all of two or more.
func (c FailureDomain) Many() bool { return c.many(c.all) }

// ManyWithoutAny says that this is so, too, without the nodes of any one other project.
func (c FailureDomain) ManyWithoutAny() bool {
	return c.Many() && !slices.ContainsFunc(c.without, func(t tally) bool { return !c.many(t) })
}

// manyFailed is ManyWithoutAny of those that have failed.
func (c FailureDomain) manyFailed() bool {
	few := func(t tally) bool { return t.failed <= c.mayBeLost(t) }
	return !few(c.all) && !slices.ContainsFunc(c.without, few)
}

func (c FailureDomain) String() string {
	who := "nodes"
	if c.hosts {
		who = "nodes and hypervisors"
	}
	return fmt.Sprintf("%d of %d %s %s are lost at once", c.all.lost, c.all.of, who, at(c.place))
}

// at names a place.
func at(place string) string {
	if place == "" {
		return "on the controller's host"
	}
	return "on network " + place
}

// FailureDomain counts for a project: also without each of the others in turn, unless it is "". A node counts as lost already at
// half of its limit: those that one fault takes do not all speak last in the same moment.
func (w Deps) FailureDomain(ctx context.Context, tx *core.Tx, place, project string, limits substrate.Deadlines,
) (FailureDomain, error) {
	c := FailureDomain{place: place, share: limits.MaxLostShare}
	heartbeats, err := host.Heartbeats(ctx, tx, place, limits.FailureWindow)
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
			heads[p.Cluster] = Later(p.WellSince, p.PhaseAt)
		}
	}
	whose, lost, failed := map[string]string{}, map[string]bool{}, map[string]bool{}
	for _, p := range heartbeats {
		who := p.Cluster + "/" + p.Name
		whose[who] = p.Project
		head, served := heads[p.Cluster]
		spoke := p.SeenAt
		switch {
		case p.SeenAt.IsZero():
			spoke = p.PhaseAt
		case p.Phase != core.Ready && p.Phase != node.Draining:
		case p.Role == protocol.Head:
			spoke = Later(p.WellAt, p.PhaseAt)
		case served: // else it cannot be well
			spoke = Later(Later(p.WellAt, p.PhaseAt), head)
		}
		if !p.FailedAt.IsZero() {
			failed[who] = true
		}
		if failed[who] || now.Sub(Later(Later(spoke, listened), p.Undisturbed)) >= limits.Silence/2 {
			lost[who] = true
		}
		c.Returns = c.Returns || p.Project == project && !p.WellSince.IsZero() && now.Sub(p.WellSince) < limits.Silence
	}
	hosts, err := host.HostHeartbeats(ctx, tx, place)
	if err != nil {
		return c, err
	}
	for name, spoke := range hosts { // no cluster is called so
		who := "hypervisor " + name
		whose[who] = ""
		if now.Sub(Later(spoke, listened)) >= limits.Silence/2 {
			lost[who] = true
		}
	}
	c.hosts = len(hosts) > 0
	c.all = tally{lost: len(lost), of: len(whose), failed: len(failed)}
	others := map[string]tally{}
	for who, p := range whose {
		if project == "" || p == "" || p == project {
			continue
		}
		t, there := others[p]
		if !there {
			t = c.all
		}
		t.of--
		if lost[who] {
			t.lost--
		}
		if failed[who] {
			t.failed--
		}
		others[p] = t
	}
	c.without = slices.Collect(maps.Values(others))
	return c, nil
}

// AlarmsOf lists the alarms of places where nodes of a cluster are among those that are lost.
func (w Deps) AlarmsOf(ctx context.Context, tx *core.Tx, cluster string) (of []host.Alarm, err error) {
	alarms, err := host.Alarms(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, a := range alarms {
		concerned, err := host.IllAt(ctx, tx, cluster, a.Place, w.limitsAt(a.Place).Silence/2)
		if err != nil {
			return nil, err
		}
		if concerned {
			of = append(of, a)
		}
	}
	return of, nil
}

// ManyFailed says why the missing nodes of a cluster must wait: so many nodes have failed just now where its own
// did that to replace all at once might only spread what ails them. "" if they need not wait.
func (w Deps) ManyFailed(ctx context.Context, tx *core.Tx, of cluster.Cluster) (string, error) {
	places, err := host.PlacesOfFailures(ctx, tx, of.ID)
	if err != nil {
		return "", err
	}
	for _, place := range places {
		limits := w.limitsAt(place)
		c, err := w.FailureDomain(ctx, tx, place, of.Project, limits)
		if err != nil {
			return "", err
		}
		if c.manyFailed() {
			return fmt.Sprintf("waits: %d of %d nodes %s failed within %s", c.all.failed, c.all.of, at(place),
				limits.FailureWindow), nil
		}
	}
	return "", nil
}

// ClearAlarms ends the alarms of places whose nodes are heard again, and of those that are few by now.
func (w Deps) ClearAlarms(ctx context.Context) error {
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
				continue // it is too early to tell
			}
			c, err := w.FailureDomain(ctx, tx, a.Place, "", limits)
			if err != nil {
				return err
			}
			if !c.Many() {
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
			if err := host.ClearAlarm(ctx, tx, a.Place, "over: the nodes "+at(a.Place)+
				" report again, or were given up"); err != nil {
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

// FabricPlace is where a fabric's alarm is.
func FabricPlace(name string) string { return "fabric " + name }

// ofFabric says that a place is a fabric's: no network's name has a space.
func ofFabric(place string) bool { return strings.HasPrefix(place, "fabric ") }
