package admission

import (
	"context"
	"fmt"

	"muster/internal/core"
	"muster/internal/kinds/snapshot"
	"muster/internal/noded/protocol"
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
			return nil, refuse(Invalid, "head-on-metal", "head.class", fmt.Sprintf("a head on machine %s cannot have the files of a snapshot, which are on the controller's host", p.Machine.Name),
				"name a class of service hosts, as `head: {class: service}`")
		}
	}
	plan.from = from
	plan.Messages = append(plan.Messages, fmt.Sprintf("gets the files and the queue of jobs of snapshot %s of cluster %s", from.Name, from.Cluster))
	return plan, nil
}
