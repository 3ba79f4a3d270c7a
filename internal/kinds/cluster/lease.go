package cluster

import (
	"context"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/node"
	"muster/internal/kit/wrap"
	"muster/internal/spec"
)

// Term is when a cluster's lease runs.
type Term struct {
	StartsAt time.Time
	EndsAt   time.Time     // zero: without end
	Lead     time.Duration // what its machines need to become nodes, and as long again to be fit for the next ones
}

// Begins is when the cluster's machines are taken, so that its nodes are there at the start.
func (t Term) Begins() time.Time { return t.StartsAt.Add(-t.Lead) }

// Returned is when the machines are there for others again; zero: never.
func (t Term) Returned() time.Time {
	if t.EndsAt.IsZero() {
		return t.EndsAt
	}
	return t.EndsAt.Add(t.Lead)
}

// Equal says that two terms are the same.
func (t Term) Equal(other Term) bool {
	return t.StartsAt.Equal(other.StartsAt) && t.EndsAt.Equal(other.EndsAt) && t.Lead == other.Lead
}

func (t *Term) fields() []any {
	return []any{core.Time(&t.StartsAt), core.Time(&t.EndsAt), core.Span(&t.Lead, time.Millisecond)}
}

// SetTerm writes when a cluster's lease runs and wakes it. With another end, its warnings begin again.
func SetTerm(ctx context.Context, tx *core.Tx, id string, t Term) error {
	ends := int64(0)
	if !t.EndsAt.IsZero() {
		ends = t.EndsAt.UnixMilli()
	}
	_, err := tx.Exec(ctx, `UPDATE cluster SET starts_at = $1, ends_at = $2, lead = $3, warned = CASE WHEN ends_at = $2 THEN
		warned ELSE 0 END, `+core.Woken+` WHERE id = $4`,
		t.StartsAt.UnixMilli(), ends, t.Lead.Milliseconds(), id)
	return wrap.Errorf(err, "set the lease of cluster %s", id)
}

// NoteWarning records how long before its end a cluster's users were last warned.
func NoteWarning(ctx context.Context, tx *core.Tx, id string, before time.Duration) error {
	_, err := tx.Exec(ctx, `UPDATE cluster SET warned = $1 WHERE id = $2`, before.Milliseconds(), id)
	return wrap.Errorf(err, "note a warning of cluster %s", id)
}

// LockAdmission makes everybody else who decides about machines wait until the transaction ends. A View decides nothing.
func LockAdmission(ctx context.Context, tx *core.Tx) error {
	if tx.ReadOnly() {
		return nil
	}
	return tx.LockSite(ctx)
}

// NodeLease is a node as far as the calendar needs it.
type NodeLease struct {
	Cluster string // ID
	Queue   string // "" for the head
	Slot    int
	Class   string
	Machine string // ID
	Leaves  bool   // it is to go
}

// Tenures lists the machines of all nodes that are not gone, by cluster, the head first, then by slot. It is much cheaper
// than node.List.
func Tenures(ctx context.Context, tx *core.Tx) ([]NodeLease, error) {
	scan := func(r core.Scanner) (h NodeLease, err error) {
		var desired core.Desired
		err = r.Scan(&h.Cluster, &h.Queue, &h.Slot, &h.Class, &h.Machine, &desired)
		h.Leaves = desired == node.Absent
		return h, err
	}
	tenures, err := core.List(ctx, tx, scan, `SELECT n.cluster_id, n.queue, s.slot, n.class, n.machine_id, n.desired
		FROM node n JOIN node_slot s ON s.cluster_id = n.cluster_id AND s.name = n.name WHERE n.phase <> 'gone' ORDER BY n.cluster_id,
		s.slot`)
	return tenures, wrap.Errorf(err, "list who holds machines")
}

// OnEnd is what happens at the end of the cluster's lease.
func (c Cluster) OnEnd() core.Desired {
	if c.Spec.Lease != nil && c.Spec.Lease.OnEnd == spec.OnEndDelete {
		return core.ToDelete
	}
	return ToPause
}
