package admission

import (
	"context"
	"fmt"

	"muster/internal/core"
	"muster/internal/kinds/snapshot"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// CreateFrom is Create for a cluster that gets its files from a snapshot, or from none.
func (a *Admission) CreateFrom(ctx context.Context, tx *core.Tx, c spec.Cluster, from *snapshot.Snapshot) (*Plan, error) {
	plan, err := a.Create(ctx, tx, c)
	if err != nil || from == nil {
		return plan, err
	}
	for _, p := range plan.Add {
		if p.Role == protocol.Head && !a.caps(p.Machine).KeepsHead {
			return nil, refuse(Invalid, "head-on-metal", "head.class",
				fmt.Sprintf("the head would be machine %s, which cannot get a snapshot's files: they are on the "+
					"controller's host", p.Machine.Name),
				"put the head on a service host, as in `head: {class: service}`")
		}
	}
	plan.from = from
	plan.Messages = append(plan.Messages, fmt.Sprintf("starts with the files and the job queue of snapshot %s of cluster %s",
		from.Name, from.Cluster))
	return plan, nil
}
