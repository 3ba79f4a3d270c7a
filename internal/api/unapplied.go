package api

import (
	"context"
	"slices"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/node"
	"muster/internal/kit/clock"
)

// A request that changes what clusters know of a person waits for their heads for so long, and looks so often. Heads hear of it
// at once, and do it within a second.
const (
	headsWithin = 3 * time.Second
	headsLooks  = 200 * time.Millisecond
)

// unapplied waits until the heads of a person's clusters, in one project if it is named, have tried to do what was asked, and
// says what they could not do, or that they have not tried yet. It is asked after the change.
func (a *API) unapplied(ctx context.Context, project, person string) (texts []string, err error) {
	for end := time.Now().Add(headsWithin); ; {
		behind, err := core.Look(ctx, a.DB, func(tx *core.Tx) ([]node.Behind, error) {
			return node.BehindFor(ctx, tx, project, person)
		})
		if err != nil {
			return nil, err
		}
		if time.Now().After(end) || !slices.ContainsFunc(behind, func(b node.Behind) bool { return b.Tries }) {
			for _, b := range behind {
				for _, u := range b.Undone {
					texts = append(texts, b.Cluster+": "+u.Text)
				}
				if b.Tries {
					texts = append(texts, b.Cluster+": its head has not taken it up yet")
				}
			}
			return texts, nil
		}
		if err := clock.Sleep(ctx, headsLooks); err != nil {
			return nil, err
		}
	}
}
