package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kinds/snapshot"
	"muster/internal/protocol"
)

func snapshotView(s snapshot.Snapshot) apiv1.Snapshot {
	return apiv1.Snapshot{ID: s.ID, Name: s.Name, Project: s.Project, Cluster: s.Cluster, Phase: apiv1.Phase(s.Phase),
		Reason: s.Reason, Since: s.PhaseAt,
		Bytes: s.Bytes, Copied: s.Copied, Spec: s.Spec, CreatedAt: s.CreatedAt, CreatedBy: s.CreatedBy}
}

func (a *API) createSnapshot(ctx context.Context, in *apiv1.CreateSnapshotInput) (*output[apiv1.Snapshot], error) {
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Snapshot) error {
		c, err := a.find(ctx, tx, in.Cluster)
		if err != nil {
			return err
		}
		if err := a.savable(ctx, tx, c); err != nil {
			return err
		}
		if err := a.roomForSnapshot(ctx, tx, c); err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		s := snapshot.Snapshot{ID: core.NewID("s"), Project: c.Project, Name: in.Body.Name, ClusterID: c.ID, Cluster: c.Name,
			Spec: c.Spec, CreatedBy: identityOf(ctx)}
		if s.Name == "" {
			stamp := now.Format("-20060102-150405")
			s.Name = strings.TrimRight(c.Name[:min(len(c.Name), 63-len(stamp))], "-") + stamp
		}
		if err := snapshot.Add(ctx, tx, s); err != nil {
			return err
		}
		tx.Log(core.Event{Type: "cluster.requested", Project: c.Project, ClusterID: c.ID, Cluster: c.Name,
			Text: fmt.Sprintf("snapshot %s, by %s", s.Name, s.CreatedBy)})
		s, err = snapshot.Get(ctx, tx, s.ID)
		*out = snapshotView(s)
		return err
	})
}

// savable refuses clusters that hold nothing yet, or nothing that can be reached.
func (a *API) savable(ctx context.Context, tx *core.Tx, c cluster.Cluster) error {
	switch {
	case c.Desired == core.ToDelete:
		return conflict(fmt.Sprintf("cluster %s is %s", c.Name, c.Phase), "")
	case c.Phase == core.Pending || c.Reached == 0 && c.Phase == cluster.Provisioning:
		return conflict(fmt.Sprintf("cluster %s has not been ready yet: there is nothing to save", c.Name),
			"`muster events -w "+c.Name+"` shows its progress")
	}
	nodes, err := node.Of(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.Role != protocol.Head || n.MachineID == "" {
			continue
		}
		if m, err := machine.Get(ctx, tx, n.MachineID); err != nil || !a.Admission.Substrates.Of(m.Substrate).KeepsHead {
			if err == nil {
				err = conflict(fmt.Sprintf("the head of cluster %s is machine %s: its /home is in that machine's memory", c.Name,
					m.Name),
					"snapshots are of clusters whose head.class is on a service host")
			}
			return err
		}
	}
	return nil
}

// What snapshots of one project may be: so many, so many that are being made, and this part of the disk before its reserve.
const (
	mostSnapshots = 100
	mostSaving    = 4
	snapshotsPart = 4
)

// roomForSnapshot refuses one of a project that has its share. One that is being made counts as what its cluster holds now, as
// far as that can be seen.
func (a *API) roomForSnapshot(ctx context.Context, tx *core.Tx, c cluster.Cluster) error {
	all, err := snapshot.List(ctx, tx, c.Project)
	if err != nil {
		return err
	}
	const hint = "`muster snapshots list` shows them, `muster snapshots delete` makes room"
	refuse := func(text, hint string, values ...any) error {
		text = fmt.Sprintf("project %s "+text, append([]any{c.Project}, values...)...)
		return conflict(text, hint)
	}
	taken, saving := int64(0), []string{c.ID}
	for _, s := range all {
		if taken += s.Bytes; s.Bytes == 0 {
			saving = append(saving, s.ClusterID)
		}
	}
	switch {
	case len(all) >= mostSnapshots:
		return refuse("has %d snapshots, the most that one may have", hint, len(all))
	case len(saving) > mostSaving:
		return refuse("has %d snapshots that are being made, as many as may be at once",
			"try again when one of them is there: `muster snapshots list`", mostSaving)
	case a.Disk == nil || a.HomeUsage == nil:
		return nil
	}
	disk, err := a.Disk()
	if err != nil {
		return err
	}
	for _, id := range saving {
		_, used, err := a.HomeUsage(ctx, id)
		if err != nil {
			return err
		}
		taken += used
	}
	if share := (disk.Size - disk.Reserve) / snapshotsPart; taken > share {
		return refuse("would have %d MiB of snapshots with this one, and its share of the disk is %d MiB", hint, taken>>20,
			share>>20)
	}
	return nil
}

func (a *API) listSnapshots(ctx context.Context, in *apiv1.Page) (*output[apiv1.List[apiv1.Snapshot]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Snapshot]) error {
		rows, err := snapshot.List(ctx, tx, "")
		rows = slices.DeleteFunc(rows, func(s snapshot.Snapshot) bool { return !sees(ctx, s.Project) })
		*out = pagedAs(*in, rows, func(s snapshot.Snapshot) string { return s.Name + " " + s.Project }, snapshotView)
		return err
	})
}

// findSnapshot is the snapshot of a name, or of an ID, deleted or not.
func (a *API) findSnapshot(ctx context.Context, tx *core.Tx, ref string) (snapshot.Snapshot, error) {
	_, name := access.Named(ref)
	named, err := snapshot.AllNamed(ctx, tx, name)
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	s, err := choose(ctx, "snapshot", ref, named, func(s snapshot.Snapshot) (string, string) { return s.Project, s.Name })
	if isNotFound(err) {
		if byID, other := snapshot.Get(ctx, tx, ref); !isNotFound(other) {
			s, err = byID, other
		}
	}
	if err == nil {
		err = permit(ctx, s.Project, "snapshot "+ref)
	}
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	return s, nil
}

func (a *API) getSnapshot(ctx context.Context, in *apiv1.SnapshotRef) (*output[apiv1.Snapshot], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.Snapshot) error {
		s, err := a.findSnapshot(ctx, tx, in.Snapshot)
		*out = snapshotView(s)
		return err
	})
}

func (a *API) deleteSnapshot(ctx context.Context, in *apiv1.SnapshotRef) (*output[apiv1.Snapshot], error) {
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Snapshot) error {
		s, err := a.findSnapshot(ctx, tx, in.Snapshot)
		if err != nil {
			return err
		}
		if err := snapshot.WantDeleted(ctx, tx, s.ID); err != nil {
			return err
		}
		waiting, err := snapshot.Restoring(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		if len(waiting) > 0 {
			return conflict(fmt.Sprintf("snapshot %s is being copied to cluster %s", s.Name, strings.Join(waiting, ", ")),
				"delete it when that has its files")
		}
		if s, err = snapshot.Get(ctx, tx, s.ID); err == nil {
			*out = snapshotView(s)
		}
		return err
	})
}

// sourceOf is the snapshot that a new cluster is to get its files from; nil without one.
func (a *API) sourceOf(ctx context.Context, tx *core.Tx, ref string) (*snapshot.Snapshot, error) {
	if ref == "" {
		return nil, nil
	}
	s, err := a.findSnapshot(ctx, tx, ref)
	if err != nil {
		return nil, err
	}
	if err := snapshot.Lock(ctx, tx, s.ID); err != nil {
		return nil, err
	}
	if s, err = snapshot.Get(ctx, tx, s.ID); err != nil {
		return nil, err
	}
	if s.Phase != snapshot.Saved || s.Desired != core.Present {
		return nil, conflict(fmt.Sprintf("snapshot %s is %s: %s", s.Name, s.Phase, s.Reason),
			"`muster snapshots list` shows those that are saved")
	}
	return &s, nil
}
