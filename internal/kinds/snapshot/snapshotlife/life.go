// Package snapshotlife is the life of snapshots: copied, kept, deleted.
//
// What enters: rows of snapshots. What leaves: calls of those who copy, new phases, and an event for every change.
package snapshotlife

import (
	"context"
	"errors"
	"log/slog"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/life"
	"muster/internal/kinds/snapshot"
	"muster/internal/kit/words"
)

// Handlers are those of snapshots, with what they act on.
type Handlers struct{ life.Deps }

// Table is the life of snapshots.
func Table(d life.Deps) core.Table {
	w := Handlers{d}
	return core.StateTable[snapshot.Snapshot]{
		DB:   w.DB,
		Of:   snapshot.Kind,
		Load: loadSnapshot,
		Phases: map[core.Phase]core.Handler[snapshot.Snapshot]{
			snapshot.Saving: {Do: w.snapshotSave},
			snapshot.Saved:  {Do: snapshotStays},
			core.Failed:     {Do: snapshotStays},
			core.Deleting:   {Do: w.snapshotDelete},
		},
	}
}

func loadSnapshot(ctx context.Context, tx *core.Tx, id string) (snapshot.Snapshot, core.Subject, error) {
	s, err := snapshot.Get(ctx, tx, id)
	return s, core.Subject{Life: s.Life, Event: core.Event{Project: s.Project, ClusterID: s.ClusterID, Cluster: s.Cluster}}, err
}

// snapshotSave copies what the cluster holds. It takes as long as it takes; progress stands in the row.
func (w Handlers) snapshotSave(ctx context.Context, s snapshot.Snapshot) core.Outcome {
	look := func(ctx context.Context, tx *core.Tx) error {
		now, err := snapshot.Get(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		c, err := cluster.Get(ctx, tx, s.ClusterID)
		switch {
		case err != nil:
			return err
		case now.Desired == core.ToDelete:
			return life.ErrUnwanted
		case c.Desired == core.ToDelete:
			return life.ErrOvertook
		}
		return nil
	}
	leave, over := w.Turns.Enter(s.Project, false)
	if over != nil {
		return core.WaitFor(life.TurnAgain, "snapshot %s waits: others are being made", s.Name)
	}
	defer leave()
	// Once before, and once behind: what is deleted meanwhile may have been copied in part.
	err := w.DB.View(ctx, func(tx *core.Tx) error { return look(ctx, tx) })
	var saved substrate.Saved
	if err == nil {
		saved, err = w.Snapshots.Save(ctx, s.ClusterID, s.ID,
			w.Copies(ctx, func(ctx context.Context, tx *core.Tx, copied int64) error {
				return errors.Join(look(ctx, tx), snapshot.SetProgress(ctx, tx, s.ID, copied))
			}))
	}
	if err == nil {
		err = w.DB.View(ctx, func(tx *core.Tx) error { return look(ctx, tx) })
	}
	switch {
	case errors.Is(err, life.ErrUnwanted):
		return core.Advance(core.Deleting, "snapshot %s is no longer wanted", s.Name)
	case errors.Is(err, life.ErrOvertook) || errors.Is(err, substrate.ErrNoRoom):
		if dropped := w.Snapshots.Drop(ctx, s.ID); dropped != nil {
			return core.Retry(dropped)
		}
		return core.Advance(core.Failed, "snapshot %s: %s", s.Name, err)
	case err != nil:
		return core.Retry(err)
	}
	outcome := core.Advance(snapshot.Saved, "snapshot %s: saved, %s", s.Name, words.Size(saved.Bytes))
	if saved.LeftOut != "" {
		outcome.Text += "; not copied: " + saved.LeftOut
	}
	outcome.Asleep = true
	return outcome.With(func(ctx context.Context, tx *core.Tx) error { return snapshot.SetSize(ctx, tx, s.ID, saved.Bytes) })
}

func snapshotStays(_ context.Context, s snapshot.Snapshot) core.Outcome {
	if s.Desired == core.ToDelete {
		return core.Advance(core.Deleting, "snapshot %s is deleted", s.Name)
	}
	return core.Rest()
}

func (w Handlers) snapshotDelete(ctx context.Context, s snapshot.Snapshot) core.Outcome {
	if err := w.Snapshots.Drop(ctx, s.ID); err != nil {
		return core.Retry(err)
	}
	outcome := core.Advance(core.Deleted, "nothing is left of snapshot %s", s.Name)
	outcome.Asleep = true
	return outcome
}

// Sweep takes away what is not wanted of snapshots, and of clusters that were being made from one.
func (w Handlers) Sweep(ctx context.Context, log *slog.Logger) error {
	there, err := w.Snapshots.Snapshots(ctx)
	if err != nil || len(there) == 0 {
		return err
	}
	wanted := map[string]bool{}
	err = w.DB.View(ctx, func(tx *core.Tx) error {
		snapshots, err := snapshot.List(ctx, tx, "")
		if err != nil {
			return err
		}
		for _, s := range snapshots {
			wanted[s.ID] = true
		}
		clusters, err := cluster.List(ctx, tx, "")
		for _, c := range clusters {
			wanted[c.ID] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range there {
		if wanted[id] {
			continue
		}
		log.Warn("a leftover snapshot is removed", "snapshot", id)
		if err := w.Snapshots.Drop(ctx, id); err != nil {
			log.Error("cannot remove a leftover", "snapshot", id, "error", err)
		}
	}
	return nil
}
