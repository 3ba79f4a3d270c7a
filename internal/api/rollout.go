package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/admission"
	"muster/internal/store"
)

// Rollout is how far the nodes of a cluster are with what they are to boot.
type Rollout struct {
	To       string   `json:"to" doc:"what nodes boot, in words"`
	Done     int      `json:"done" doc:"nodes that are ready with it"`
	Total    int      `json:"total"`
	Draining []string `json:"draining,omitempty" doc:"nodes that wait for their jobs"`
	Stopped  string   `json:"stopped,omitempty" doc:"why it goes no further, until it is resumed or another change is made"`
}

// Step is what a change does to one node that is there.
type Step struct {
	Node string `json:"node"`
	Does string `json:"does" enum:"goes,boots anew"`
	Wave int    `json:"wave" doc:"those of a wave may be down at the same time; each wave waits for the one before"`
	When string `json:"when"`
	Why  string `json:"why"`
}

func stepsView(steps []admission.Step) []Step {
	view := []Step{}
	for _, s := range steps {
		view = append(view, Step(s))
	}
	return view
}

func rolloutView(c store.Cluster, nodes []store.Node) *Rollout {
	p, rolls := admission.ProgressOf(c, nodes)
	if !rolls || c.Desired != store.Present {
		return nil
	}
	view := &Rollout{To: p.To, Done: p.Done, Total: p.Total, Draining: p.Draining}
	if c.Halted() {
		view.Stopped = c.Rollout.Why
	}
	return view
}

func (a *API) registerRollout(api huma.API, tags []string) {
	huma.Register(api, maybeNothing(huma.Operation{OperationID: "change-rollout", Method: http.MethodPost, Path: "/v1/clusters/{cluster}/rollout", Summary: "Go on with a rollout that has stopped, or go back",
		DefaultStatus: http.StatusAccepted, Errors: []int{404, 409, 422}, Tags: tags}), a.changeRollout)
}

type rolloutInput struct {
	ClusterRef
	Request
	Body struct {
		Action string `json:"action" enum:"resume,back" doc:"resume: go on; back: boot what the cluster was last wholly ready with"`
	}
}

func (a *API) changeRollout(ctx context.Context, in *rolloutInput) (*answerOutput, error) {
	return a.carryOut(ctx, in.Request, nil, request("rollout", in.Cluster, in.Body.Action), func(ctx context.Context, tx *store.Tx) (*admission.Plan, error) {
		current, err := a.find(ctx, tx, in.Cluster)
		if err != nil {
			return nil, err
		}
		plan := a.Admission.ResumeRollout
		if in.Body.Action == "back" {
			plan = a.Admission.RollBack
		}
		return a.changed(ctx, tx, current, func(current store.Cluster) (*admission.Plan, error) { return plan(ctx, tx, current) })
	})
}
