package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/words"
	"muster/internal/kit/wrap"
)

// changing is what all verbs that change a cluster share: how to ask, how to wait, how to print.
type changing struct {
	*waiting
	output *format
	dryRun bool
}

func changeFlags(c *cobra.Command) *changing {
	f := &changing{waiting: waitFlags(c, "it is done"), output: formatFlag(c)}
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the plan and change nothing")
	return f
}

// request is what the flags say of how to change a cluster.
func (f *changing) request(drain drainTimeout) apiv1.Request {
	r := apiv1.Request{DryRun: f.dryRun}
	if drain != 0 {
		r.DrainTimeout = time.Duration(drain).String()
	}
	return r
}

// carryOut asks for a change and tells, or waits for, what comes of it.
func carryOut[In any](ctx context.Context, a *app, f *changing, op apiv1.Op[In, apiv1.Answer], in In) error {
	start := time.Now()
	answer, raw, err := op.Call(ctx, a, in)
	if err != nil {
		return err
	}
	if f.dryRun {
		return f.output.print(a.out, raw, func() { a.printPlan(answer.Plan) })
	}
	if answer.Cluster == nil {
		return fmt.Errorf("the answer to %s %s has no cluster", op.Method, op.Path)
	}
	for _, m := range answer.Messages {
		a.say("%s", m)
	}
	if !f.wait || answer.Operation == nil {
		a.announce(answer)
	}
	if !f.wait {
		return f.output.print(a.out, raw, func() {})
	}
	underway, err := a.operation(ctx, answer)
	if err != nil {
		return err
	}
	t, err := a.await(ctx, f.waiting, underway, *answer.Cluster, start)
	if err != nil {
		return err
	}
	a.arrived(t)
	return f.output.print(a.out, t.raw, func() {
		if t.cluster.Receipt != nil {
			a.printReceipt(t.cluster)
		}
	})
}

// operation is what to wait for. Where the request changed nothing, that is the change made before, which may be on its way.
func (a *app) operation(ctx context.Context, answer apiv1.Answer) (apiv1.Operation, error) {
	if answer.Operation != nil {
		return *answer.Operation, nil
	}
	after, err := lastEvent(ctx, a, answer.Cluster.ID)
	return apiv1.Operation{Kind: "change", Cluster: answer.Cluster.ID, Generation: answer.Cluster.Generation, EventsAfter: after},
		err
}

// announce says what was accepted, and where to look.
func (a *app) announce(answer apiv1.Answer) {
	name := answer.Cluster.Name
	if answer.Operation == nil && len(answer.Messages) > 0 {
		return // they say what was done
	}
	if answer.Operation == nil {
		a.say("cluster %s matches: nothing to change", name)
		return
	}
	if answer.Cluster.Phase == apiv1.Paused && answer.Operation.Kind == "change" {
		a.say("cluster %s is paused: the change takes effect when it is resumed", name)
		return
	}
	var what string
	switch answer.Operation.Kind {
	case "create":
		if answer.FitsAt != nil {
			a.say("cluster %s is reserved: it %s", name, leaseWords(answer.Cluster.Lease))
			return
		}
		what = "is being made: " + crew(answer.Cluster.Nodes)
	case "delete":
		what = "is being deleted: releases " + words.Count(len(answer.Release), "node")
	case "pause":
		what = "is being paused: releases " + words.Count(len(answer.Release), "node")
	case "resume":
		what = "is being resumed: " + crew(answer.Cluster.Nodes)
	default:
		what = "changes: " + planWords(answer.Plan)
	}
	a.say("cluster %s %s", name, what)
	a.say("`muster events -w %s` shows its progress, `muster describe %s` its state", name, name)
}

// arrived says that an operation is done, and what the next step may be.
func (a *app) arrived(t *tracking) {
	took := seconds(time.Since(t.start))
	if t.op.Kind == "delete" {
		a.say("cluster %s is %s in %s", t.name, a.paint(a.err, green, "deleted"), took)
		return
	}
	if t.cluster.Phase == apiv1.Paused {
		a.say("cluster %s is %s in %s; it holds %s", t.name, a.paint(a.err, green, "paused"), took, words.Size(t.cluster.Held))
		a.say("`muster resume %s` brings it back", t.name)
		return
	}
	a.say("cluster %s is %s: %s in %s", t.name, a.paint(a.err, green, "ready"), crew(t.cluster.Nodes), took)
	a.say("`muster ssh %s` logs in to it", t.name)
}

// crew is "1 head + 3 nodes".
func crew(nodes []apiv1.Node) string {
	heads, others := 0, 0
	for _, n := range nodes {
		if n.Role == apiv1.RoleHead {
			heads++
		} else {
			others++
		}
	}
	return fmt.Sprintf("%s + %s", words.Count(heads, "head"), words.Count(others, "node"))
}

// decode reads an answer.
func decode(raw []byte, into any) error {
	return wrap.Errorf(json.Unmarshal(raw, into), "the controller's answer cannot be read")
}
