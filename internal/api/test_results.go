package api

import (
	"context"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/place/acceptance"
	"muster/internal/protocol"
)

func (a *API) listTestResults(ctx context.Context, in *apiv1.Page) (*output[apiv1.List[apiv1.TestResult]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.TestResult]) error {
		passes, err := node.LastTestResults(ctx, tx)
		if err != nil {
			return err
		}
		cut := pageOf(*in, passes, func(p node.TestResult) string { return p.Machine })
		out.Next = cut.Next
		out.Items, err = a.testResultViews(ctx, tx, cut.Items)
		return err
	})
}

// listMachineTestResults answers in one page: few are kept of a machine.
func (a *API) listMachineTestResults(ctx context.Context, in *apiv1.MachineRef) (*output[apiv1.List[apiv1.TestResult]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.TestResult]) error {
		m, err := machine.Get(ctx, tx, in.Machine)
		if err != nil {
			return err
		}
		passes, err := node.TestResultsOf(ctx, tx, m.ID)
		if err != nil {
			return err
		}
		out.Items, err = a.testResultViews(ctx, tx, passes)
		return err
	})
}

func (a *API) testResultViews(ctx context.Context, tx *core.Tx, passes []node.TestResult) ([]apiv1.TestResult, error) {
	type like struct{ class, alike string }
	histories := map[like][]protocol.TestResult{}
	views := []apiv1.TestResult{}
	for _, p := range passes {
		key := like{p.Class, p.ComparisonGroup}
		if _, known := histories[key]; !known {
			newest, err := node.History(ctx, tx, p.Class, p.ComparisonGroup, acceptance.Remembered)
			if err != nil {
				return nil, err
			}
			histories[key] = each(newest, func(other node.TestResult) protocol.TestResult { return other.Result })
		}
		views = append(views, a.testResultView(p, histories[key]))
	}
	return views, nil
}

func (a *API) testResultView(p node.TestResult, others []protocol.TestResult) apiv1.TestResult {
	view := apiv1.TestResult{
		At: p.At, Machine: p.Machine, Class: p.Class, ComparisonGroup: p.ComparisonGroup, Cluster: p.Cluster, Node: p.Node,
		Boot: p.Boot, Number: p.Result.Number,
		Image: p.Image, Seconds: p.Result.Took.Seconds(), Verdict: apiv1.Verdict(p.Verdict), Text: p.Text,
		Results: []apiv1.Result{},
	}
	standings := map[protocol.Quantity]acceptance.Standing{}
	for _, s := range acceptance.Judge(a.Admission.Catalogue.Acceptance, nil, others) {
		standings[s.Quantity] = s
	}
	for _, m := range p.Result.Measures {
		s := standings[m.Quantity]
		view.Results = append(view.Results, apiv1.Result{Quantity: apiv1.Quantity(m.Quantity), Name: s.Name, Unit: s.Unit,
			Lower: s.Lower, Value: m.Value, With: m.With, Why: m.Why, Median: s.Median, Of: s.Of})
	}
	return view
}
