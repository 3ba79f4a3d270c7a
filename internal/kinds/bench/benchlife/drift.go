package benchlife

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/node"
)

// Of one run so many quantities are compared with earlier ones, the first that it has measured, and so many changes are told.
const (
	mostFollowed = 2000
	mostTold     = 100
)

// past is what a run that is at its end has measured, and which changes it makes sure of.
type past struct {
	measured []bench.Measured
	at       time.Time // when
	changes  []bench.Change
}

// lookBack compares what a run has measured with what its cluster, its machines and their class have measured before.
func lookBack(ctx context.Context, tx *core.Tx, r bench.Run) (p past, err error) {
	if r.Plan.Suite.Brief {
		return p, nil
	}
	rounds, err := bench.Rounds(ctx, tx, r.ID)
	if err != nil || len(rounds) == 0 {
		return p, err
	}
	p.at = rounds[len(rounds)-1].Ended
	on, err := nodesOf(ctx, tx, r, rounds)
	if err != nil {
		return p, err
	}
	if p.measured, err = bench.MeasuredBy(r.Plan, rounds, on); err != nil || len(p.measured) == 0 {
		return p, err
	}
	p.measured = p.measured[:min(len(p.measured), mostFollowed)]
	scopes := []bench.Scope{{}, {Cluster: r.ClusterID}}
	for _, name := range machinesIn(p.measured) {
		scopes = append(scopes, bench.Scope{Machine: name})
	}
	drifts := map[bench.Scope][]drift{}
	for _, scope := range scopes {
		if drifts[scope], err = p.drifts(ctx, tx, r, scope); err != nil {
			return p, err
		}
	}
	causes := causes{tx: tx, rounds: map[string]*bench.Round{}}
	most := p.most(drifts)
	for _, scope := range scopes {
		for _, d := range drifts[scope] {
			switch {
			case scope.Machine != "" && most[d.What.ID()]:
				continue
			case len(p.changes) == mostTold: // the next run tells of others
				return p, nil
			}
			if d.Causes, err = causes.of(ctx, d); err != nil {
				return p, err
			}
			d.ID, d.Name = core.NewID("h"), r.Cluster
			p.changes = append(p.changes, d.Change)
		}
	}
	return p, nil
}

// drift is a change, and the last run before it.
type drift struct {
	bench.Change
	before string
}

// drifts are those of a scope. Values of one cluster alone are not its class.
func (p past) drifts(ctx context.Context, tx *core.Tx, r bench.Run, scope bench.Scope) (all []drift, err error) {
	of, now := bench.TrendsOf{Scope: scope}, map[string]bench.Measured{}
	for _, m := range p.measured {
		if _, on := m.Machines[scope.Machine]; on || scope.Machine == "" {
			now[m.ID()] = m
			of.Series = append(of.Series, m.ID())
		}
	}
	trends, err := bench.History(ctx, tx, of)
	for _, t := range trends {
		m := now[t.ID()]
		value := m.Value
		if scope.Machine != "" {
			value = m.Machines[scope.Machine]
		}
		t.Points = append(t.Points, bench.Point{Run: r.ID, Cluster: r.ClusterID, At: p.at, Value: value})
		other := func(o bench.Point) bool { return o.Cluster != r.ClusterID }
		if scope == (bench.Scope{}) && !slices.ContainsFunc(t.Points, other) {
			continue
		}
		if c, changed := t.Drift(); changed {
			c.Alone = !slices.ContainsFunc(t.Points, other)
			all = append(all, drift{c, t.Before(c)})
		}
	}
	return all, err
}

// most are the series, by their IDs, in which most machines have drifted: so it is their cluster that has, or their class.
func (p past) most(drifts map[bench.Scope][]drift) map[string]bool {
	some := map[string]int{}
	for scope, all := range drifts {
		for _, d := range all {
			if scope.Machine != "" {
				some[d.What.ID()]++
			}
		}
	}
	most := map[string]bool{}
	for _, m := range p.measured {
		n := some[m.ID()]
		most[m.ID()] = n > 1 && 2*n > len(m.Machines)
	}
	return most
}

func machinesIn(measured []bench.Measured) []string {
	all := map[string]bool{}
	for _, m := range measured {
		for name := range m.Machines {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// nodesOf is on what nodes rounds were done.
func nodesOf(ctx context.Context, tx *core.Tx, r bench.Run, rounds []bench.Round) (on bench.On, err error) {
	if name, at := r.External(); at { // its nodes are a class of their own
		return bench.On{Class: bench.ExternalClass(name)}, nil
	}
	nodes, err := node.Of(ctx, tx, r.ClusterID)
	classes := map[string]bool{}
	for _, n := range nodes {
		if _, was := rounds[len(rounds)-1].Nodes[n.Name]; was {
			classes[n.Class] = true
			on.Guests = on.Guests || n.IsGuest()
		}
	}
	on.Class = strings.Join(slices.Sorted(maps.Keys(classes)), ",")
	return on, err
}

// causes finds what else changed when values did.
type causes struct {
	tx     *core.Tx
	rounds map[string]*bench.Round // by run, its first that counts, with what the nodes said; nil: there is none
}

func (c causes) of(ctx context.Context, d drift) ([]string, error) {
	before, err := c.round(ctx, d.before)
	if err != nil || before == nil {
		return nil, err
	}
	after, err := c.round(ctx, d.Run)
	if err != nil || after == nil {
		return nil, err
	}
	return bench.Causes(*before, *after, d.Machine), nil
}

func (c causes) round(ctx context.Context, run string) (*bench.Round, error) {
	if o, known := c.rounds[run]; known || run == "" {
		return o, nil
	}
	rounds, err := bench.RoundsOf(ctx, c.tx, run)
	if err != nil {
		return nil, err
	}
	c.rounds[run] = nil
	for _, o := range rounds {
		if o.Broken() {
			continue
		}
		if o.Looks, err = bench.LooksOf(ctx, c.tx, run, o.Number); err != nil {
			return nil, err
		}
		c.rounds[run] = &o
		break
	}
	return c.rounds[run], nil
}

// keep notes what a run has measured, and tells the changes that it makes sure of: in a sentence of each scope. The cluster's
// project hears of what was compared with nothing of others.
func (p past) keep(ctx context.Context, tx *core.Tx, r bench.Run) error {
	if len(p.measured) == 0 {
		return nil
	}
	if err := bench.SavePoints(ctx, tx, r, p.at, p.measured); err != nil {
		return err
	}
	for i, c := range p.changes {
		if err := bench.AddChange(ctx, tx, c); err != nil {
			return err
		}
		if i > 0 && p.changes[i-1].Scope == c.Scope {
			continue
		}
		same := slices.DeleteFunc(slices.Clone(p.changes), func(o bench.Change) bool { return o.Scope != c.Scope })
		event := core.Event{Type: "benchmark.changed", Machine: c.Machine, Text: c.Whose() + ": " + bench.Sentence(same)}
		if !slices.ContainsFunc(same, func(o bench.Change) bool { return !o.Alone }) {
			event.Project, event.ClusterID, event.Cluster = r.Project, r.ClusterID, r.Cluster
		}
		tx.Log(event)
	}
	return nil
}
