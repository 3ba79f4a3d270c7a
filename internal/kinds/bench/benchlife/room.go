package benchlife

import (
	"context"
	"fmt"
	"slices"

	"muster/internal/core"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/kit/words"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// busy says why a run begins no round now; "": it may. It takes nodes that no job has, and measures on no host on which another
// run does. One that is repeated wakes no cluster and starts no node either.
func busy(ctx context.Context, tx *core.Tx, r bench.Run, c cluster.Cluster) (string, error) {
	if beside, err := bench.Disturbs(ctx, tx, r); err != nil || beside {
		return "another run measures on its hosts", err
	}
	if r.Plan.Reserved != "" {
		return "", nil // its nodes were set aside for it
	}
	if r.Every > 0 && c.Phase != core.Ready {
		return "cluster " + c.Name + " is " + string(c.Phase), nil
	}
	nodes, err := node.Of(ctx, tx, c.ID)
	free, held := 0, 0
	for _, n := range nodes {
		switch {
		case n.Role != protocol.Compute || n.Queue != r.Plan.Queue || n.Phase != core.Ready:
		case n.Seen.IdleAt.IsZero():
			held++
		default:
			free++
		}
	}
	i := slices.IndexFunc(c.Spec.Queues, func(q spec.Queue) bool { return q.Name == r.Plan.Queue })
	if r.Every == 0 {
		if i < 0 {
			return "", err // the scheduler will say what there is to say
		}
		free = *c.Spec.Queues[i].Max - held // nodes that are not there are started for its job
	}
	return lacks(r, free), err
}

// lacks says that more nodes have to be free; "": these are enough.
func lacks(r bench.Run, free int) string {
	if free >= r.Plan.Nodes.Nodes {
		return ""
	}
	return fmt.Sprintf("%d of the %s that it takes are free", max(free, 0), words.Count(r.Plan.Nodes.Nodes, "node"))
}

// fewest rounds say how sure a value is.
const fewest = 6

// precise says that a run's values are as precise as was asked for. Two runs in turns both see it after the same round.
func (v *view) precise(ctx context.Context, tx *core.Tx) (bool, error) {
	if v.Plan.Precise == 0 || v.Round-v.Broken < fewest || !v.alone && (v.Round != v.other.Round || v.other.Task != "") {
		return false, nil
	}
	rounds, err := bench.Rounds(ctx, tx, v.ID)
	if err != nil {
		return false, err
	}
	one := bench.Side{Run: v.Run, Rounds: rounds}
	if v.alone {
		return bench.Precise(one, nil, v.Plan.Precise)
	}
	if rounds, err = bench.Rounds(ctx, tx, v.Peer); err != nil {
		return false, err
	}
	return bench.Precise(one, &bench.Side{Run: v.other, Rounds: rounds}, v.Plan.Precise)
}
