package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"muster/internal/core"
)

// Step runs the handlers of all rows of one kind that are due, one after the other. One that is lost did what it did, and its
// controller was killed before it could write so.
func (e *Engine) Step(ctx context.Context, kind core.Kind, lost func() bool) error {
	for _, t := range e.tables {
		if t.kind() != kind {
			continue
		}
		claims, err := e.db.Claim(ctx, kind, e.owner, lease, workers)
		if err != nil {
			return err
		}
		for _, claim := range claims {
			s, outcome, err := t.step(ctx, claim, false)
			if err != nil {
				return fmt.Errorf("%s %s: %w", kind, claim.ID, err)
			}
			if lost() {
				continue
			}
			if err := e.commit(ctx, claim, s, outcome, settle(s, outcome)); err != nil {
				return fmt.Errorf("%s %s: %w", kind, claim.ID, err)
			}
		}
	}
	return e.db.ReleaseLeases(ctx, e.owner)
}

// Handled lists which phases of each kind have a handler.
func (e *Engine) Handled() map[core.Kind][]core.Phase {
	all := map[core.Kind][]core.Phase{}
	for _, t := range e.tables {
		all[t.kind()] = t.(interface{ handled() []core.Phase }).handled()
	}
	return all
}

func (c stateTable[E]) handled() []core.Phase { return slices.Collect(maps.Keys(c.phases)) }
