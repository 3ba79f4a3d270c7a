package life

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/kit/words"
)

// What comes again and again leaves rows, and work for the site: a name whose nodes failed more than failuresAtOnce times within
// failuresCount gets the next one only after a rest. That is as long as the site's window of failures, and doubles with each
// further one, up to longestRest windows.
const (
	failuresAtOnce = 3
	failuresCount  = 2 * time.Hour
	longestRest    = 16
)

// Resting lists the names of a cluster that lack a node, whose next one has to wait because so many have failed in them, and says
// so; none and "" if all may come.
func (w Deps) Resting(ctx context.Context, tx *core.Tx, of cluster.Cluster) (names []string, why string, err error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, "", err
	}
	failures, err := node.FailuresOf(ctx, tx, of.ID, now.Add(-failuresCount))
	if err != nil {
		return nil, "", err
	}
	failures = slices.DeleteFunc(failures, func(f node.Failures) bool { return f.Times <= failuresAtOnce })
	if len(failures) == 0 {
		return nil, "", nil
	}
	nodes, err := node.Of(ctx, tx, of.ID)
	if err != nil {
		return nil, "", err
	}
	missing, _ := of.Shape(nodes)
	for _, f := range failures {
		if !slices.ContainsFunc(missing, func(m cluster.Member) bool { return m.Name == f.Name }) {
			continue
		}
		rest := time.Duration(min(1<<min(f.Times-failuresAtOnce-1, 10), longestRest)) * w.limitsAt(f.Place).FailureWindow
		if now.Sub(f.Last) < rest {
			names = append(names, f.Name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		why = fmt.Sprintf("waits: %s failed more than %d times within %.0f hours, and each further node comes later",
			words.Few(names), failuresAtOnce, failuresCount.Hours())
	}
	return names, why, nil
}
