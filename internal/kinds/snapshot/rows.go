// Package snapshot keeps the copies that were made of clusters.
//
// What enters: requests from the API, progress from the engine. What leaves: rows.
package snapshot

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/kit/printable"
	"muster/internal/kit/wrap"
	"muster/internal/spec"
)

// Snapshot is a copy of what a cluster held. The row is kept when it is deleted.
type Snapshot struct {
	core.Life
	ID        string
	Project   string
	Name      string
	ClusterID string
	Cluster   string       // its name
	Spec      spec.Cluster // resolved, as the cluster's was
	Desired   core.Desired
	Bytes     int64 // once saved
	Copied    int64 // while it is being saved
	CreatedAt time.Time
	CreatedBy string
}

const columns = `id, project, name, cluster_id, cluster, spec, desired, bytes, copied, created_at, created_by, ` +
	core.LifeColumns

func scan(r core.Scanner) (s Snapshot, err error) {
	fields := []any{&s.ID, &s.Project, &s.Name, &s.ClusterID, &s.Cluster, core.JSON(&s.Spec), &s.Desired, &s.Bytes, &s.Copied,
		core.Time(&s.CreatedAt), &s.CreatedBy}
	err = r.Scan(append(fields, s.Fields()...)...)
	return s, wrap.Errorf(err, "row of snapshot %s", s.ID)
}

// Add stores a snapshot to be made. core.ErrExists if the project has one of that name.
func Add(ctx context.Context, tx *core.Tx, s Snapshot) error {
	_, err := tx.Exec(ctx, `INSERT INTO snapshot (id, project, name, cluster_id, cluster, spec, desired, created_at, created_by,
		phase, phase_at, wake_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, now_ms(), $8, $9, now_ms(), now_ms())`,
		s.ID, s.Project, s.Name, s.ClusterID, s.Cluster, core.JSON(s.Spec), string(core.Present), s.CreatedBy, string(Saving))
	if core.Taken(err) {
		return fmt.Errorf("snapshot %s in project %s: %w", s.Name, s.Project, core.ErrExists)
	}
	return wrap.Errorf(err, "add snapshot %s", s.Name)
}

// List lists those of a project ("" for all) that are not deleted, by name.
func List(ctx context.Context, tx *core.Tx, project string) ([]Snapshot, error) {
	all, err := core.List(ctx, tx, scan, `SELECT `+columns+` FROM snapshot
		WHERE phase <> 'deleted' AND ($1 = '' OR project = $1) ORDER BY name, project`, project)
	return all, wrap.Errorf(err, "list snapshots")
}

// AllNamed lists those of this name that are not deleted, of all projects.
func AllNamed(ctx context.Context, tx *core.Tx, name string) ([]Snapshot, error) {
	all, err := core.List(ctx, tx, scan, namedQuery, name)
	return all, wrap.Errorf(err, "snapshots named %s", name)
}

const namedQuery = `SELECT ` + columns + ` FROM snapshot WHERE name = $1 AND phase <> 'deleted' ORDER BY project`

// Get finds a snapshot by ID, deleted or not.
func Get(ctx context.Context, tx *core.Tx, id string) (Snapshot, error) {
	s, err := core.One(ctx, tx, scan, `SELECT `+columns+` FROM snapshot WHERE id = $1`, id)
	return s, wrap.Errorf(err, "snapshot %s", id)
}

// WantDeleted asks for a snapshot's end and wakes it.
func WantDeleted(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `UPDATE snapshot SET desired = $1, `+core.Woken+` WHERE id = $2`, string(core.ToDelete), id)
	return wrap.Errorf(err, "delete snapshot %s", id)
}

// SetSize records how large a snapshot has become.
func SetSize(ctx context.Context, tx *core.Tx, id string, bytes int64) error {
	_, err := tx.Exec(ctx, `UPDATE snapshot SET bytes = $1, copied = $1 WHERE id = $2`, bytes, id)
	return wrap.Errorf(err, "size of snapshot %s", id)
}

// SetProgress records how far its copy is.
func SetProgress(ctx context.Context, tx *core.Tx, id string, copied int64) error {
	_, err := tx.Exec(ctx, `UPDATE snapshot SET copied = $1 WHERE id = $2`, copied, id)
	return wrap.Errorf(err, "progress of snapshot %s", id)
}

// BornFrom says which snapshot a new cluster gets its /home from. It holds the snapshot's row until the transaction ends,
// as WantDeleted does: of the two, one sees the other.
func BornFrom(ctx context.Context, tx *core.Tx, cluster, snapshot string) error {
	if _, err := tx.Exec(ctx, `UPDATE cluster SET snapshot = $1 WHERE id = $2`, snapshot, cluster); err != nil {
		return fmt.Errorf("snapshot of cluster %s: %w", cluster, err)
	}
	return Lock(ctx, tx, snapshot)
}

// Lock makes every other writer of the snapshot's row wait until the transaction ends.
func Lock(ctx context.Context, tx *core.Tx, id string) error {
	if tx.ReadOnly() {
		return nil
	}
	_, err := tx.Exec(ctx, `UPDATE snapshot SET desired = desired WHERE id = $1`, id)
	return wrap.Errorf(err, "lock snapshot %s", id)
}

// Restoring names the clusters that wait for a snapshot's content.
func Restoring(ctx context.Context, tx *core.Tx, snapshot string) ([]string, error) {
	names, err := core.List(ctx, tx, core.Value[string], `SELECT name FROM cluster WHERE snapshot = $1 AND phase = 'pending' ORDER BY name`,
		snapshot)
	return names, wrap.Errorf(err, "list clusters made from snapshot %s", snapshot)
}

// SayRestoring records how far a new cluster's files are.
func SayRestoring(ctx context.Context, tx *core.Tx, cluster, text string) error {
	_, err := tx.Exec(ctx, `UPDATE cluster SET reason = $1 WHERE id = $2 AND phase = 'pending'`,
		printable.Cut(text, core.MostText), cluster)
	return wrap.Errorf(err, "progress of cluster %s", cluster)
}

// Forget drops the rows of snapshots that were deleted longer ago than age.
func Forget(ctx context.Context, tx *core.Tx, age time.Duration) error {
	_, err := tx.Exec(ctx, `DELETE FROM snapshot WHERE phase = 'deleted' AND phase_at < now_ms() - $1`, age.Milliseconds())
	return wrap.Errorf(err, "forget deleted snapshots")
}
