package nodelife

import (
	"context"
	"fmt"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/life"
	"muster/internal/kinds/node"
	"muster/internal/place/acceptance"
	"muster/internal/protocol"
)

// laterChecks are those that can pass only when the node has measured itself, or when its head is there.
func (n nodeView) laterChecks() []string {
	if n.Role == protocol.Compute {
		return append([]string{"network"}, n.scheduler.Caps.Late...) // the head may not be there yet
	}
	return nil
}

// askTest asks for the first test of a boot, which begins with this transaction.
func (w Handlers) askTest(ctx context.Context, tx *core.Tx, n nodeView) error {
	if !w.Catalogue.Acceptance.On {
		return nil
	}
	return node.AskTest(ctx, tx, n.ID, 1, w.holds(n))
}

// holds says that the node's test may refuse it, so that it gets no jobs until it has passed. A head is never
// refused: it computes nothing, and when its node reboots the cluster's jobs go on.
func (w Handlers) holds(n nodeView) bool {
	return n.Role == protocol.Compute && w.Catalogue.Acceptance.Judges(!w.provider(n).Caps.WholeMachine)
}

// judged says that what the node measures may be held against it. That a hypervisor is below shows only from inside.
func (w Handlers) judged(n nodeView) bool {
	return n.Role == protocol.Compute && w.Catalogue.Acceptance.Judges(!w.provider(n).Caps.WholeMachine || n.Seen.Facts.Virtual)
}

// beside says that the node is ready before it has measured itself: it shares its CPUs with others and is not judged, so that a
// test tells no more before its first use than beside it.
func (w Handlers) beside(n nodeView) bool { return !n.Held && !w.provider(n).Caps.OwnCPUs }

// nodeTest sees what the node has measured, and then that the scheduler can use it: a tenant's job may run from here on.
func (w Handlers) nodeTest(ctx context.Context, n nodeView) core.Outcome {
	if n.leaving() {
		return n.inform(core.Releasing, "no longer wanted")
	}
	if n.Test == 0 || w.beside(n) {
		return w.nodeTaken(n)
	}
	result := n.Seen.Tested(n.Boot, n.Test)
	if result == nil {
		return core.WaitFor(nodeLooks, "measures itself")
	}
	return w.acceptNode(ctx, n, *result)
}

// nodeTaken has the node ready when its scheduler can use it.
func (w Handlers) nodeTaken(n nodeView) core.Outcome {
	switch {
	case !n.Seen.Healthy(n.Boot):
		return core.WaitFor(nodeLooks, "waits for %s", n.unwell())
	case n.Role == protocol.Compute && n.scheduler.Caps.Jobs && !n.Seen.Scheduler.Usable():
		return core.WaitFor(nodeLooks, "waits for %s to take it in", n.scheduler.Title)
	}
	text := fmt.Sprintf("passed %d checks", len(n.Seen.Checks))
	if test := n.Seen.Test; test != nil && n.Seen.Boot == n.Boot {
		text += " and its acceptance in " + measured(*test)
	}
	if n.Boot == 1 {
		text += fmt.Sprintf("; %.1f s after it was asked for", n.now.Sub(n.CreatedAt).Seconds())
	}
	ready := n.next(core.Ready, "%s", text)
	if n.scheduler.Caps.Listed {
		ready = ready.With(func(ctx context.Context, tx *core.Tx) error { return cluster.TellHead(ctx, tx, n.Cluster) })
	}
	return ready
}

// measured is how long a test took and what it came to.
func measured(test protocol.TestResult) string {
	return fmt.Sprintf("%s: %s", test.Took.Round(time.Millisecond), acceptance.Summary(test))
}

// noteTest keeps and tells what a node that is in use has measured, with what else came of this look at it.
func (w Handlers) noteTest(n nodeView, o core.Outcome) core.Outcome {
	if n.Test == 0 {
		return o
	}
	result := n.Seen.Tested(n.Boot, n.Test)
	if result == nil {
		return o
	}
	pass := w.pass(n, *result)
	pass.Verdict, pass.Text = node.Passed, recorded
	return o.With(func(ctx context.Context, tx *core.Tx) error {
		tx.Log(core.Event{Type: "node.measured", Project: n.cluster.Project, ClusterID: n.Cluster, Cluster: n.cluster.Name,
			Node:    n.Name,
			Machine: n.machine.Name, Text: "measured itself in " + measured(*result)})
		if err := keepTestResult(ctx, tx, pass); err != nil {
			return err
		}
		return node.EndTest(ctx, tx, n.ID)
	})
}

// recorded is said of a test that no node can fail.
const recorded = "recorded, not judged"

// acceptNode judges a test that is done. A slow node is measured again before it is given up.
func (w Handlers) acceptNode(ctx context.Context, n nodeView, result protocol.TestResult) core.Outcome {
	pass := w.pass(n, result)
	pass.Verdict, pass.Text = node.Passed, recorded
	if w.judged(n) {
		standings, err := w.compare(ctx, n, result)
		if err != nil {
			return core.Retry(err)
		}
		pass.Text = "like its class"
		if slow := acceptance.Slow(standings); slow != "" {
			pass.Verdict, pass.Text = node.Slow, slow
			if result.Number < acceptance.Tries {
				pass.Verdict = node.Again
			}
		} else if few := w.few(standings); few != "" {
			pass.Text = few
		}
	}
	save := func(ctx context.Context, tx *core.Tx) error { return keepTestResult(ctx, tx, pass) }
	switch pass.Verdict {
	case node.Slow:
		return n.fail("%s", pass.Text).Because(life.CauseAcceptance).With(save)
	case node.Again:
		return core.WaitFor(nodeLooks, "measures itself again: %s", pass.Text).With(save).
			With(func(ctx context.Context, tx *core.Tx) error {
				return node.AskTest(ctx, tx, n.ID, result.Number+1, n.Held)
			})
	}
	return w.nodeTaken(n).With(save).With(func(ctx context.Context, tx *core.Tx) error { return node.EndTest(ctx, tx, n.ID) })
}

// keepTestResult keeps a test, with what runs of benchmarks have found of its machine.
func keepTestResult(ctx context.Context, tx *core.Tx, p node.TestResult) error {
	worse, err := bench.Standing(ctx, tx, p.Machine)
	if err != nil {
		return err
	}
	if len(worse) > 0 {
		p.Text += "; in benchmarks " + bench.Sentence(worse)
	}
	return node.SaveTestResult(ctx, tx, p)
}

// compare puts all tests of this boot beside those of its like.
func (w Handlers) compare(ctx context.Context, n nodeView, result protocol.TestResult) (standings []acceptance.Standing,
	err error) {
	err = w.DB.View(ctx, func(tx *core.Tx) error {
		earlier, err := node.TestResultsOfBoot(ctx, tx, n.ID, n.Boot)
		if err != nil {
			return err
		}
		alike, err := node.History(ctx, tx, n.Class, w.comparisonGroup(n), acceptance.Remembered)
		standings = acceptance.Judge(w.Catalogue.Acceptance, append(results(earlier), result), results(alike))
		return err
	})
	return standings, err
}

func results(passes []node.TestResult) []protocol.TestResult {
	all := make([]protocol.TestResult, len(passes))
	for i, p := range passes {
		all[i] = p.Result
	}
	return all
}

// few says that there is too little to judge the node by; "" if there is enough.
func (w Handlers) few(standings []acceptance.Standing) string {
	most := 0
	for _, s := range standings {
		most = max(most, s.Of)
	}
	if most >= w.Catalogue.Acceptance.Passes {
		return ""
	}
	return fmt.Sprintf("recorded, not judged yet: %d of the %d passes of its class that this needs", most, w.Catalogue.Acceptance.Passes)
}

// pass is the row of a test.
func (w Handlers) pass(n nodeView, result protocol.TestResult) node.TestResult {
	return node.TestResult{
		MachineID: n.MachineID, Machine: n.machine.Name, Class: n.Class, ComparisonGroup: w.comparisonGroup(n),
		ClusterID: n.Cluster, Cluster: n.cluster.Name,
		NodeID: n.ID, Node: n.Name, Boot: n.Boot, Image: n.Image, Result: result,
	}
}

// comparisonGroup names those of the class that the node is compared with: a class may select machines of several models. What a
// fault changes, as the memory that is found or the speed of a link, must not be part of it.
func (w Handlers) comparisonGroup(n nodeView) string {
	facts, brief := n.machine.Facts, ""
	if w.beside(n) {
		brief = ", briefly"
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s, %d CPUs%s", n.machine.Substrate, facts.CPUModel, facts.CPUs, brief))
}
