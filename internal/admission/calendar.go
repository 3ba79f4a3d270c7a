package admission

import (
	"cmp"
	"context"
	"slices"
	"time"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/place/calendar"
	"muster/internal/protocol"
)

// BeingPrepared is who holds machines that come back from somebody, or are looked at.
const BeingPrepared = "(being prepared)"

// Calendar is who has which machines until when, and who will want some: computed from the rows there are. asks is the
// cluster in question as it is to be: what it lacks is no booking, as it is what is asked. nil: there is none.
//
// Of an elastic queue, the nodes that are there are held, and its min is promised.
func (a *Admission) Calendar(ctx context.Context, tx *core.Tx, now time.Time, machines []machine.Machine,
	asks *cluster.Cluster) (calendar.Calendar, error) {
	c := calendar.Calendar{Now: now}
	clusters, err := cluster.List(ctx, tx, "")
	if err != nil {
		return c, err
	}
	tenures, err := cluster.Tenures(ctx, tx)
	if err != nil {
		return c, err
	}
	slices.SortFunc(clusters, func(x, y cluster.Cluster) int {
		return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
	})
	living, has, holder := map[string]cluster.Cluster{}, map[[2]string]int{}, map[string]cluster.NodeLease{}
	for _, cluster := range clusters {
		if asks != nil && cluster.ID == asks.ID {
			cluster.Term = asks.Term
		}
		living[cluster.ID] = cluster
	}
	for _, h := range tenures {
		holder[h.Machine] = h
		if !h.Leaves {
			has[[2]string{h.Cluster, h.Queue}]++
		}
	}
	for _, m := range machines {
		if m.Hosts || m.IsGuest() {
			continue // nothing is promised of guests: see find
		}
		if m.Desired != machine.ForService || m.Phase == machine.Quarantined || m.Phase == machine.Maintenance {
			continue
		}
		one := calendar.Machine{Machine: m.Machine}
		if h, held := holder[m.ID]; held && m.Holder != "" {
			one.By, one.Until = h.Cluster, now.Add(a.caps(m.Machine).Turnaround)
			if owner := living[h.Cluster]; !h.Leaves && owner.Desired == core.Present &&
				(owner.EndsAt.IsZero() || owner.Returned().After(one.Until)) {
				one.Until = owner.Returned()
			}
		} else if !m.Free() {
			one.By, one.Until = BeingPrepared, now.Add(a.caps(m.Machine).Turnaround)
		}
		c.Machines = append(c.Machines, one)
	}
	for _, cluster := range clusters {
		if asks != nil && cluster.ID == asks.ID || cluster.Desired != core.Present || !cluster.EndsAt.IsZero() &&
			!cluster.Returned().After(now) {
			continue
		}
		var lacks []member
		if has[[2]string{cluster.ID, ""}] == 0 {
			lacks = append(lacks, member{Role: protocol.Head, Class: cluster.Spec.Head.Class})
		}
		for _, q := range cluster.Spec.Queues {
			for range *q.Min - has[[2]string{cluster.ID, q.Name}] {
				lacks = append(lacks, member{Role: protocol.Compute, Queue: q.Name, Class: q.Class, or: q.Or})
			}
		}
		if len(lacks) > 0 {
			c.Bookings = append(c.Bookings, calendar.Booking{By: cluster.ID, From: cluster.Begins(), Until: cluster.Returned(),
				Wants: a.wants(lacks, cluster.Spec.Isolation, "")})
		}
	}
	return c, nil
}

// wants counts members by what they may be. Guests are not counted, nor what members may be as guests.
func (a *Admission) wants(members []member, isolation, arch string) []calendar.Want {
	var wants []calendar.Want
	members = slices.DeleteFunc(slices.Clone(members), a.partly)
	for i, m := range members {
		if i == 0 || members[i-1].Role != m.Role || !slices.Equal(members[i-1].classes(), m.classes()) {
			var classes []inventory.Class
			for _, name := range m.classes() {
				m.Class = name
				class, _ := a.classOf(m, isolation)
				if class.Hypervisor {
					continue
				}
				if arch != "" {
					class = class.With("arch", arch)
				}
				classes = append(classes, class)
			}
			wants = append(wants, calendar.Want{Classes: classes})
		}
		wants[len(wants)-1].Nodes++
	}
	return wants
}

// as are the members with the classes that were chosen for them.
func as(members []member, placed []Placed) []member {
	chosen := slices.Clone(members)
	for i, p := range placed {
		chosen[i].Class, chosen[i].or = p.Class, nil
	}
	return chosen
}
