package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/acceptance"
	"muster/internal/agent/protocol"
	"muster/internal/store"
)

// Pass is one test of a node before it was handed over, beside what its like measured.
type Pass struct {
	At      time.Time     `json:"at"`
	Machine string        `json:"machine"`
	Class   string        `json:"class"`
	Alike   string        `json:"alike" doc:"what machines of the class must have in common to be compared"`
	Cluster string        `json:"cluster"`
	Node    string        `json:"node"`
	Boot    int64         `json:"boot" doc:"of the node"`
	Number  int64         `json:"number" doc:"of the boot's tests; a slow node is measured again"`
	Image   string        `json:"image" doc:"digest"`
	Seconds float64       `json:"seconds" doc:"what the test took, waiting aside"`
	Verdict store.Verdict `json:"verdict" enum:"passed,again,slow"`
	Text    string        `json:"text" doc:"why"`
	Results []Result      `json:"results"`
}

// Result is one measured quantity.
type Result struct {
	Quantity protocol.Quantity `json:"quantity" enum:"memory,compute,head-round-trip,head-throughput,neighbour-round-trip,neighbour-throughput"`
	Name     string            `json:"name" doc:"in words"`
	Unit     string            `json:"unit"`
	Lower    bool              `json:"lower,omitempty" doc:"less is better"`
	Value    float64           `json:"value,omitempty" doc:"absent if it was not measured"`
	With     string            `json:"with,omitempty" doc:"the node at the other end"`
	Why      string            `json:"why,omitempty" doc:"why it was not measured"`
	Median   float64           `json:"median,omitempty" doc:"of the newest passes of its like"`
	Of       int               `json:"of,omitempty" doc:"how many passes that median is of"`
}

func (a *API) registerPasses(api huma.API) {
	op := func(id, path, summary string, errors ...int) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"machines"}, Errors: errors}
	}
	huma.Register(api, op("list-passes", "/v1/passes", "List the newest test of every machine"), a.listPasses)
	huma.Register(api, op("list-machine-passes", "/v1/machines/{machine}/passes", "List the tests on a machine, the newest first", 404), a.listMachinePasses)
}

func (a *API) listPasses(ctx context.Context, in *Page) (*listOutput[Pass], error) {
	out := &listOutput[Pass]{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		passes, err := tx.LastPasses(ctx)
		if err != nil {
			return err
		}
		cut := pageOf(*in, passes, func(p store.Pass) string { return p.Machine })
		out.Body.Next = cut.Next
		out.Body.Items, err = a.passViews(ctx, tx, cut.Items)
		return err
	})
	return out, a.tell(err, nil)
}

// listMachinePasses answers in one page: few are kept of a machine.
func (a *API) listMachinePasses(ctx context.Context, in *machineRef) (*listOutput[Pass], error) {
	out := &listOutput[Pass]{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		m, err := tx.Machine(ctx, in.Machine)
		if err != nil {
			return err
		}
		passes, err := tx.PassesOf(ctx, m.ID)
		if err != nil {
			return err
		}
		out.Body.Items, err = a.passViews(ctx, tx, passes)
		return err
	})
	return out, a.tell(err, nil)
}

func (a *API) passViews(ctx context.Context, tx *store.Tx, passes []store.Pass) ([]Pass, error) {
	type like struct{ class, alike string }
	histories := map[like][]protocol.TestResult{}
	views := []Pass{}
	for _, p := range passes {
		key := like{p.Class, p.Alike}
		if _, known := histories[key]; !known {
			newest, err := tx.History(ctx, p.Class, p.Alike, acceptance.Remembered)
			if err != nil {
				return nil, err
			}
			histories[key] = []protocol.TestResult{}
			for _, other := range newest {
				histories[key] = append(histories[key], other.Result)
			}
		}
		views = append(views, a.passView(p, histories[key]))
	}
	return views, nil
}

func (a *API) passView(p store.Pass, others []protocol.TestResult) Pass {
	view := Pass{
		At: p.At, Machine: p.Machine, Class: p.Class, Alike: p.Alike, Cluster: p.Cluster, Node: p.Node, Boot: p.Boot, Number: p.Result.Number,
		Image: p.Image, Seconds: p.Result.Took.Seconds(), Verdict: p.Verdict, Text: p.Text, Results: []Result{},
	}
	standings := map[protocol.Quantity]acceptance.Standing{}
	for _, s := range acceptance.Judge(a.Admission.Catalogue.Acceptance, nil, others) {
		standings[s.Quantity] = s
	}
	for _, m := range p.Result.Measures {
		s := standings[m.Quantity]
		view.Results = append(view.Results, Result{m.Quantity, s.Name, s.Unit, s.Lower, m.Value, m.With, m.Why, s.Median, s.Of})
	}
	return view
}
