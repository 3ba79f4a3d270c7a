package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"muster/internal/printable"
	"muster/internal/spec"
)

// Snapshot is a copy of what a cluster held. The row is kept when it is deleted.
type Snapshot struct {
	Life
	ID        string
	Project   string
	Name      string
	ClusterID string
	Cluster   string       // its name
	Spec      spec.Cluster // resolved, as the cluster's was
	Desired   Desired
	Bytes     int64 // once saved
	Copied    int64 // while it is being saved
	CreatedAt time.Time
	CreatedBy string
}

const snapshotColumns = `id, project, name, cluster_id, cluster, spec, desired, bytes, copied, created_at, created_by, ` + lifeColumns

func scanSnapshot(r scanner) (Snapshot, error) {
	var s Snapshot
	var document string
	var at, created int64
	fields := []any{&s.ID, &s.Project, &s.Name, &s.ClusterID, &s.Cluster, &document, &s.Desired, &s.Bytes, &s.Copied, &created, &s.CreatedBy}
	if err := r.Scan(append(fields, s.fields(&at)...)...); err != nil {
		return s, err
	}
	s.PhaseAt, s.CreatedAt = instant(at), instant(created)
	if err := json.Unmarshal([]byte(document), &s.Spec); err != nil {
		return s, fmt.Errorf("spec of snapshot %s: %w", s.ID, err)
	}
	return s, nil
}

// AddSnapshot stores a snapshot to be made. ErrExists if the project has one of that name.
func (tx *Tx) AddSnapshot(ctx context.Context, s Snapshot) error {
	document, err := json.Marshal(s.Spec)
	if err != nil {
		return err
	}
	_, err = tx.exec(ctx, `INSERT INTO snapshot (id, project, name, cluster_id, cluster, spec, desired, created_at, created_by, phase, phase_at, wake_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, now_ms(), $8, $9, now_ms(), now_ms())`,
		s.ID, s.Project, s.Name, s.ClusterID, s.Cluster, string(document), string(Present), s.CreatedBy, string(Saving))
	if taken(err) {
		return fmt.Errorf("snapshot %s in project %s: %w", s.Name, s.Project, ErrExists)
	}
	if err != nil {
		return fmt.Errorf("add snapshot %s: %w", s.Name, err)
	}
	return nil
}

// Snapshots lists those of a project ("" for all) that are not deleted, by name.
func (tx *Tx) Snapshots(ctx context.Context, project string) ([]Snapshot, error) {
	all, err := list(ctx, tx, scanSnapshot, `SELECT `+snapshotColumns+` FROM snapshot
		WHERE phase <> 'deleted' AND ($1 = '' OR project = $1) ORDER BY name, project`, project)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	return all, nil
}

// Snapshot finds a snapshot by ID, deleted or not.
func (tx *Tx) Snapshot(ctx context.Context, id string) (Snapshot, error) {
	s, err := one(ctx, tx, scanSnapshot, `SELECT `+snapshotColumns+` FROM snapshot WHERE id = $1`, id)
	if err != nil {
		return s, fmt.Errorf("snapshot %s: %w", id, err)
	}
	return s, nil
}

// SnapshotNamed finds a snapshot by its name.
func (tx *Tx) SnapshotNamed(ctx context.Context, project, name string) (Snapshot, error) {
	s, err := one(ctx, tx, scanSnapshot, `SELECT `+snapshotColumns+` FROM snapshot WHERE project = $1 AND name = $2 AND phase <> 'deleted'`, project, name)
	if err != nil {
		return s, fmt.Errorf("snapshot %s: %w", name, err)
	}
	return s, nil
}

// WantSnapshotDeleted asks for a snapshot's end and wakes it.
func (tx *Tx) WantSnapshotDeleted(ctx context.Context, id string) error {
	if _, err := tx.exec(ctx, `UPDATE snapshot SET desired = $1, `+woken+` WHERE id = $2`, string(ToDelete), id); err != nil {
		return fmt.Errorf("delete snapshot %s: %w", id, err)
	}
	return nil
}

// SetSnapshotSize records how large a snapshot has become.
func (tx *Tx) SetSnapshotSize(ctx context.Context, id string, bytes int64) error {
	if _, err := tx.exec(ctx, `UPDATE snapshot SET bytes = $1, copied = $1 WHERE id = $2`, bytes, id); err != nil {
		return fmt.Errorf("size of snapshot %s: %w", id, err)
	}
	return nil
}

// SetSnapshotProgress records how far its copy is.
func (tx *Tx) SetSnapshotProgress(ctx context.Context, id string, copied int64) error {
	if _, err := tx.exec(ctx, `UPDATE snapshot SET copied = $1 WHERE id = $2`, copied, id); err != nil {
		return fmt.Errorf("progress of snapshot %s: %w", id, err)
	}
	return nil
}

// BornFrom says which snapshot a new cluster gets its /home from. It holds the snapshot's row until the transaction ends,
// as WantSnapshotDeleted does: of the two, one sees the other.
func (tx *Tx) BornFrom(ctx context.Context, cluster, snapshot string) error {
	if _, err := tx.exec(ctx, `UPDATE cluster SET snapshot = $1 WHERE id = $2`, snapshot, cluster); err != nil {
		return fmt.Errorf("snapshot of cluster %s: %w", cluster, err)
	}
	return tx.LockSnapshot(ctx, snapshot)
}

// LockSnapshot makes every other writer of the snapshot's row wait until the transaction ends.
func (tx *Tx) LockSnapshot(ctx context.Context, id string) error {
	if tx.frozen {
		return nil
	}
	if _, err := tx.exec(ctx, `UPDATE snapshot SET desired = desired WHERE id = $1`, id); err != nil {
		return fmt.Errorf("lock snapshot %s: %w", id, err)
	}
	return nil
}

// Restoring names the clusters that wait for a snapshot's content.
func (tx *Tx) Restoring(ctx context.Context, snapshot string) ([]string, error) {
	scan := func(r scanner) (name string, err error) { return name, r.Scan(&name) }
	names, err := list(ctx, tx, scan, `SELECT name FROM cluster WHERE snapshot = $1 AND phase = 'pending' ORDER BY name`, snapshot)
	if err != nil {
		return nil, fmt.Errorf("list clusters made from snapshot %s: %w", snapshot, err)
	}
	return names, nil
}

// SayRestoring records how far a new cluster's files are.
func (tx *Tx) SayRestoring(ctx context.Context, cluster, text string) error {
	if _, err := tx.exec(ctx, `UPDATE cluster SET reason = $1 WHERE id = $2 AND phase = 'pending'`, printable.Cut(text, mostText), cluster); err != nil {
		return fmt.Errorf("progress of cluster %s: %w", cluster, err)
	}
	return nil
}
