package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
)

// How far back sightings of clusters are looked for, and how often at most. A transaction that marks one is much shorter than
// seenWithin.
const (
	seenWithin = 10 * time.Second
	seenEvery  = watchPoll / 2
)

// seen are the newest sightings of clusters. All who watch look for them: one of them asks.
type seen struct {
	mu   sync.Mutex
	last looked
}

// looked is what was found in one look.
type looked struct {
	at       time.Time
	clusters []cluster.Sighting
}

func (s *seen) look(ctx context.Context, db *core.Store) (looked, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last.at) < seenEvery {
		return s.last, nil
	}
	began := time.Now()
	found, err := core.Look(ctx, db, func(tx *core.Tx) ([]cluster.Sighting, error) { return cluster.Seen(ctx, tx, seenWithin) })
	now := looked{began, found}
	if err == nil {
		s.last = now
	}
	return now, err
}

// sightings tells one who watches of clusters, each time that something was seen of one. What there is at first is not new.
type sightings struct {
	of   core.EventsOf
	at   time.Time            // of the last look that was told
	told map[string]time.Time // by ID of the cluster: its last sighting; nil: nothing was looked at yet
}

// tell writes a message for each cluster that has been seen to change since it was told last. They have no number: who comes back
// asks again for what is on the screen.
func (s *sightings) tell(w io.Writer, now looked) error {
	if now.at.Equal(s.at) {
		return nil
	}
	told := make(map[string]time.Time, len(now.clusters))
	for _, c := range now.clusters {
		told[c.ID] = c.At
		if s.told == nil || !c.At.After(s.told[c.ID]) || s.of.Cluster != "" && s.of.Cluster != c.ID ||
			s.of.Projects != nil && !slices.Contains(s.of.Projects, c.Project) {
			continue
		}
		data, err := json.Marshal(apiv1.Sighting{ClusterID: c.ID, Cluster: c.Name, Project: c.Project, At: c.At})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "event: seen\ndata: %s\n\n", data); err != nil {
			return err
		}
	}
	s.at, s.told = now.at, told
	return nil
}
