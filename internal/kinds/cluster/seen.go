package cluster

import (
	"context"
	"time"

	"muster/internal/core"
	"muster/internal/kit/wrap"
)

// Sighting says that what agents see of a cluster, of its nodes or its jobs, has changed without an event.
type Sighting struct {
	ID, Name, Project string
	At                time.Time
}

// MarkSeen notes that what agents see of a cluster has changed without an event. Twice is two sightings.
func MarkSeen(ctx context.Context, tx *core.Tx, id string) error {
	_, err := tx.Exec(ctx, `INSERT INTO cluster_seen (cluster_id, at) VALUES ($1, now_ms())
		ON CONFLICT (cluster_id) DO UPDATE SET at = CASE WHEN excluded.at > cluster_seen.at THEN excluded.at
			ELSE cluster_seen.at + 1 END`, id) // each is later than the one before, even if its transaction had to wait
	return wrap.Errorf(err, "note what was seen of cluster %s", id)
}

// Seen are the last sightings of clusters that had one within some time before now.
func Seen(ctx context.Context, tx *core.Tx, within time.Duration) ([]Sighting, error) {
	scan := core.Fields(func(s *Sighting) []any { return []any{&s.ID, &s.Name, &s.Project, core.Time(&s.At)} })
	seen, err := core.List(ctx, tx, scan, `SELECT c.id, c.name, c.project, s.at FROM cluster_seen s JOIN cluster c ON
		c.id = s.cluster_id WHERE s.at > now_ms() - $1 ORDER BY s.at`, within.Milliseconds())
	return seen, wrap.Errorf(err, "what was seen of clusters")
}
