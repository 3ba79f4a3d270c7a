// Package fabriclife is the life of fabrics: what is wanted is told to the driver and read back from the ports.
//
// What enters: rows of fabrics, and tables from their drivers. What leaves: tables for drivers, what was seen of ports, alarms.
package fabriclife

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/fabric"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/host"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/lists"
)

func (w Handlers) pace() life.FabricPace {
	p := w.Pace
	p.Apply, p.Observe, p.Again = cmp.Or(p.Apply, 40*time.Second), cmp.Or(p.Observe, 15*time.Second),
		cmp.Or(p.Again, 5*time.Second)
	return p
}

// fabricView is a fabric as its handler sees it.
type fabricView struct {
	fabrics.Fabric
	partitions []fabrics.Partition
	ports      map[fabric.GUID]fabrics.Port
	before     map[fabric.GUID]fabrics.PortSeen
	homes      []fabrics.Home // of ports whose machine is known now and was not before
	now        time.Time
}

// Handlers are those of fabrics, with what they act on.
type Handlers struct{ life.Deps }

// Table is the life of fabrics; nil where none is managed.
func Table(d life.Deps) core.Table {
	if d.Fabrics == nil {
		return nil
	}
	w := Handlers{d}
	return core.StateTable[fabricView]{
		DB:   w.DB,
		Of:   fabrics.Kind,
		Load: loadFabric,
		Phases: map[core.Phase]core.Handler[fabricView]{
			core.Pending:  {Do: w.fabricKeep},
			core.Ready:    {Do: w.fabricKeep},
			core.Degraded: {Do: w.fabricKeep},
		},
	}
}

func loadFabric(ctx context.Context, tx *core.Tx, id string) (fabricView, core.Subject, error) {
	v := fabricView{ports: map[fabric.GUID]fabrics.Port{}}
	var err error
	if v.Fabric, err = fabrics.Get(ctx, tx, id); err != nil {
		return v, core.Subject{}, err
	}
	if v.partitions, err = fabrics.Partitions(ctx, tx, id); err != nil {
		return v, core.Subject{}, err
	}
	ports, err := fabrics.Ports(ctx, tx, id)
	if err != nil {
		return v, core.Subject{}, err
	}
	for _, p := range ports {
		v.ports[p.GUID] = p
	}
	if v.before, err = fabrics.PortsSeen(ctx, tx, id); err != nil {
		return v, core.Subject{}, err
	}
	if v.homes, err = fabrics.Homes(ctx, tx, id); err != nil {
		return v, core.Subject{}, err
	}
	v.now, err = tx.Now(ctx)
	return v, core.Subject{Life: v.Life, Event: core.Event{}}, err
}

// fabricKeep tells the fabric's manager what is wanted, reads all ports, and writes what they hold. Who waits for a port
// looks again; who holds what is not his is set apart.
func (w Handlers) fabricKeep(ctx context.Context, v fabricView) core.Outcome {
	if v.Desired == core.ToDelete {
		o := core.Advance(core.Deleted, "fabric %s is no longer managed", v.Name).
			With(func(ctx context.Context, tx *core.Tx) error {
				return host.ClearAlarm(ctx, tx, life.FabricPlace(v.Name), "over: fabric "+v.Name+" is no longer managed")
			})
		o.Asleep = true
		return o
	}
	driver, err := w.Fabrics.Driver(v.Fabric)
	if err != nil {
		return v.trouble("cannot be reached", err)
	}
	intent, told := v.Intent(v.partitions), false
	if v.Applied < v.Revision || v.odd() || v.now.Sub(v.AppliedAt) >= w.pace().Apply {
		if err := driver.Apply(ctx, intent); err != nil && !errors.Is(err, fabric.ErrResisted) {
			return v.trouble("its manager was not told", err).With(v.giveHomes).With(v.glance(ctx, driver))
		}
		told = true
	}
	applied := func(ctx context.Context, tx *core.Tx) error {
		if !told {
			return nil
		}
		return fabrics.SaveApplied(ctx, tx, v.ID, v.Revision)
	}
	tables, err := driver.Observe(ctx)
	if err != nil {
		return v.trouble("its ports cannot be read", err).With(applied).With(v.giveHomes)
	}
	return w.judgeFabric(v, reading{intent, tables, v.compare(intent, tables)}).With(applied).With(v.giveHomes)
}

// glance reads the ports of a fabric whose manager was not told, so that what they hold is shown. While it is not known what the
// manager has, it is not known which of that is wrong, either: no machine is blamed, and no gate opens. Nothing counts as read
// until it is told again.
func (v fabricView) glance(ctx context.Context, driver fabric.Driver) func(context.Context, *core.Tx) error {
	tables, err := driver.Observe(ctx)
	if err != nil {
		return func(context.Context, *core.Tx) error { return nil } // they hold what they held, as far as anybody knows
	}
	var changed []fabrics.PortSeen
	note := func(now fabrics.PortSeen) {
		if !sameSeen(now, v.before[now.GUID]) {
			changed = append(changed, now)
		}
	}
	for guid, now := range v.before {
		if _, answered := tables[guid]; !answered {
			now.Answered = false
			note(now)
		}
	}
	for guid, p := range tables {
		now := v.before[guid]
		now.GUID, now.Entries, now.Capacity, now.Answered = guid, slices.Sorted(slices.Values(p.Entries)), p.Capacity, true
		note(now)
	}
	return func(ctx context.Context, tx *core.Tx) error { return fabrics.SaveSeen(ctx, tx, v.ID, 0, changed) }
}

// odd says that some port held what it must not when it was read last.
func (v fabricView) odd() bool {
	for _, p := range v.before {
		if len(p.Surplus) > 0 {
			return true
		}
	}
	return false
}

func (v fabricView) giveHomes(ctx context.Context, tx *core.Tx) error {
	for _, h := range v.homes {
		if err := fabrics.GivePort(ctx, tx, h.Port, h.Machine, false); err != nil && !errors.Is(err, fabrics.ErrInUse) {
			return err
		}
	}
	return nil
}

// trouble is for a fabric that cannot be read now. Its ports hold what they held.
func (v fabricView) trouble(what string, err error) core.Outcome {
	o := core.Retry(err)
	o.Phase, o.Text = core.Degraded, fmt.Sprintf("fabric %s: %s: %v", v.Name, what, err)
	if v.Attempts < troubleTries {
		return o
	}
	return o.With(func(ctx context.Context, tx *core.Tx) error {
		return host.RaiseAlarmAnew(ctx, tx, life.FabricPlace(v.Name), o.Text)
	})
}

// troubleTries is how often a fabric is tried in vain before there is an alarm.
const troubleTries = 3

// reading is what the ports of a fabric were seen to hold.
type reading struct {
	intent fabric.Intent
	tables fabric.Tables
	now    map[fabric.GUID]fabrics.PortSeen
}

// compare says of all ports that are known, or answered, what was seen of them and how it differs.
func (v fabricView) compare(intent fabric.Intent, tables fabric.Tables) map[fabric.GUID]fabrics.PortSeen {
	seen := map[fabric.GUID]fabrics.PortSeen{}
	for guid, p := range v.before { // one that is silent holds what it held, as far as anybody knows
		p.Answered = false
		seen[guid] = p
	}
	for guid, p := range tables {
		entries := slices.Sorted(slices.Values(p.Entries))
		seen[guid] = fabrics.PortSeen{GUID: guid, Entries: entries, Capacity: p.Capacity, Answered: true,
			OddAt: v.before[guid].OddAt}
	}
	for guid := range intent.Tables() {
		if _, known := seen[guid]; !known {
			seen[guid] = fabrics.PortSeen{GUID: guid}
		}
	}
	for _, d := range fabric.Compare(intent, tables) {
		if p := seen[d.Port]; !d.Silent {
			p.Surplus, p.Missing = d.Surplus, d.Missing
			seen[d.Port] = p
		}
	}
	return seen
}

// judgeFabric writes what was read, and draws the conclusions.
func (w Handlers) judgeFabric(v fabricView, r reading) core.Outcome {
	var changed []fabrics.PortSeen
	var odd, lacking []fabrics.PortSeen
	held := map[fabric.Key]bool{}
	for _, guid := range slices.Sorted(maps.Keys(r.now)) {
		p := r.now[guid]
		if !sameSeen(p, v.before[guid]) {
			changed = append(changed, p)
		}
		for _, e := range p.Entries {
			held[e.Key()] = true
		}
		if p.Answered && len(p.Surplus) > 0 {
			odd = append(odd, p)
		}
		if p.Answered && len(p.Missing) > 0 {
			lacking = append(lacking, p)
		}
	}
	pace := w.pace()
	look := pace.Observe
	if len(odd)+len(lacking) > 0 {
		look = pace.Again
	}
	to, words := core.Ready, fmt.Sprintf("fabric %s: all %d ports match", v.Name, len(r.tables))
	if len(odd)+len(lacking) > 0 {
		to, words = core.Degraded, fmt.Sprintf("fabric %s: %s", v.Name, portsWords(odd, lacking))
	}
	o := core.WaitFor(look, "%s", words)
	if to != v.Phase {
		o.Phase = to
	}
	gone := v.ended(r)
	return o.With(func(ctx context.Context, tx *core.Tx) error {
		if err := fabrics.SaveSeen(ctx, tx, v.ID, v.Revision, changed); err != nil {
			return err
		}
		if err := errors.Join(fabrics.DropMembers(ctx, tx, gone), fabrics.FreeKeys(ctx, tx, v.ID, held)); err != nil {
			return err
		}
		if err := v.blame(ctx, tx, odd, len(r.tables), pace); err != nil {
			return err
		}
		if len(changed) == 0 && len(gone) == 0 && v.Seen == v.Revision {
			return nil
		}
		nodes, machines, err := fabrics.Waiting(ctx, tx, v.ID)
		for _, id := range nodes {
			tx.Wake(node.Kind, id)
		}
		for _, id := range machines {
			tx.Wake(machine.Kind, id)
		}
		return err
	})
}

func sameSeen(a, b fabrics.PortSeen) bool {
	b.SeenAt, b.OddAt, a.SeenAt, a.OddAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return reflect.DeepEqual(a, b)
}

// portsWords names the first port that differs.
func portsWords(odd, lacking []fabrics.PortSeen) string {
	all := append(slices.Clone(odd), lacking...)
	text := fabric.Difference{Port: all[0].GUID, Surplus: all[0].Surplus, Missing: all[0].Missing}.String()
	if n := len(slices.CompactFunc(all, func(a, b fabrics.PortSeen) bool { return a.GUID == b.GUID })); n > 1 {
		text = fmt.Sprintf("%d ports differ, the first: %s", n, text)
	}
	return text
}

// ended are the memberships that are not wanted, and whose ports were read since and have nothing that they must not. The port
// of a virtual function goes with its guest: where none answers, there is none.
func (v fabricView) ended(r reading) (gone []fabrics.Member) {
	for _, p := range v.partitions {
		for _, m := range p.Members {
			seen := r.now[m.GUID]
			clean := seen.Answered && len(seen.Surplus) == 0 || !seen.Answered && m.Kind == fabrics.FunctionPort
			if !m.Wanted && clean {
				gone = append(gone, m)
			}
		}
	}
	return gone
}

// blame sets apart who holds what is not his: a port that was seen so twice, with its manager told in between. Many at once are
// not rogues, but a manager that lets all in; then there is an alarm, and no machine is set apart for it.
func (v fabricView) blame(ctx context.Context, tx *core.Tx, odd []fabrics.PortSeen, of int, pace life.FabricPace) error {
	place := life.FabricPlace(v.Name)
	var sure []fabrics.PortSeen
	for _, p := range odd {
		if !p.OddAt.IsZero() && v.now.Sub(p.OddAt) >= pace.Again*4/5 {
			sure = append(sure, p)
		}
	}
	if len(sure) == 0 {
		if len(odd) > 0 {
			return nil
		}
		return host.ClearAlarm(ctx, tx, place, "over: no port of fabric "+v.Name+" holds what is not meant for it")
	}
	who, err := v.rogues(ctx, tx, sure)
	if err != nil {
		return err
	}
	many := len(sure) > life.MinMassFailure && len(sure)*4 > of
	text := fmt.Sprintf("fabric %s: %s", v.Name, portsWords(sure, nil))
	switch {
	case many:
		text += fmt.Sprintf("; of %d ports that is too many to be their hosts' doing, so look at the subnet manager; none is "+
			"quarantined for it", of)
	case len(who) == 0:
		text += "; it belongs to no known machine"
	default:
		names := lists.Map(who, func(m machine.Machine) string { return m.Name })
		text += "; quarantined: " + strings.Join(names, ", ")
	}
	if err := host.RaiseAlarmAnew(ctx, tx, place, text); err != nil || many {
		return err
	}
	for _, m := range who {
		if m.QuarantineReason != "" {
			continue
		}
		why := fmt.Sprintf("on fabric %s its port was seen with keys that are not its own", v.Name)
		tx.Log(core.Event{Type: "machine.warning", Machine: m.Name, Text: why})
		if err := machine.Quarantine(ctx, tx, m, why); err != nil {
			return err
		}
	}
	return nil
}

// rogues are the machines at ports. Where guests share a port it is their host's to keep them apart, and no machine is set apart
// for it.
func (v fabricView) rogues(ctx context.Context, tx *core.Tx, sure []fabrics.PortSeen) ([]machine.Machine, error) {
	kinds, nodes := map[fabric.GUID]fabrics.PortKind{}, map[fabric.GUID]string{}
	for _, p := range v.partitions {
		for _, m := range p.Members {
			if p.ClusterID != "" {
				kinds[m.GUID], nodes[m.GUID] = m.Kind, m.NodeID
			}
		}
	}
	var all []machine.Machine
	for _, p := range sure {
		id := v.ports[p.GUID].MachineID
		if kinds[p.GUID] == fabrics.SharedPort {
			continue
		}
		if kinds[p.GUID] == fabrics.FunctionPort {
			n, err := node.Get(ctx, tx, nodes[p.GUID])
			if err != nil {
				return nil, err
			}
			id = n.MachineID
		}
		if id == "" || slices.ContainsFunc(all, func(m machine.Machine) bool { return m.ID == id }) {
			continue
		}
		m, err := machine.Get(ctx, tx, id)
		if errors.Is(err, core.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !m.Hosts {
			all = append(all, m)
		}
	}
	return all, nil
}
