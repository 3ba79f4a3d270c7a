package api

import (
	"context"

	apiv1 "muster/api/v1"
	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
)

func rolloutView(c cluster.Cluster, nodes []node.Node) *apiv1.Rollout {
	p, rolls := c.Progress(nodes)
	if !rolls || c.Desired != core.Present {
		return nil
	}
	view := &apiv1.Rollout{To: p.To, Done: p.Done, Total: p.Total, Draining: p.Draining}
	if c.Halted() {
		view.Stopped = c.Rollout.Why
	}
	return view
}

func (a *API) changeRollout(ctx context.Context, in *apiv1.ChangeRolloutInput) (*output[apiv1.Answer], error) {
	return a.carryOut(ctx, in.Request, nil, request("rollout", in.Cluster, in.Body.Action),
		func(ctx context.Context, tx *core.Tx) (*admission.Plan, error) {
			current, err := a.find(ctx, tx, in.Cluster)
			if err != nil {
				return nil, err
			}
			plan := a.Admission.ResumeRollout
			if in.Body.Action == "back" {
				plan = a.Admission.RollBack
			}
			return a.changed(ctx, tx, current, func(current cluster.Cluster) (*admission.Plan, error) {
				return plan(ctx, tx, current)
			})
		})
}
