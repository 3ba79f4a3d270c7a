package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
)

// What becomes of jobs that run when their cluster pauses.
const (
	onJobsRequeue = "requeue"
	onJobsWait    = "wait"
	onJobsKeep    = "keep"
)

// patience is how long jobs may run on.
func patience(in *apiv1.PauseClusterInput) (time.Duration, error) {
	drainFor, err := drainOf(in.Request)
	switch {
	case err != nil:
		return 0, err
	case in.OnJobs == onJobsRequeue && drainFor > 0:
		return 0, invalid("drain_timeout has no meaning for jobs that are requeued at once",
			"leave drain_timeout out, or say on_jobs=wait")
	case in.OnJobs == onJobsKeep && drainFor > 0:
		return 0, invalid("drain_timeout has no meaning for jobs that are kept in memory",
			"leave drain_timeout out, or say on_jobs=wait")
	case in.OnJobs == onJobsWait && drainFor == 0:
		return cluster.UntilJobsEnd, nil
	}
	return drainFor, nil
}

func (a *API) pauseCluster(ctx context.Context, in *apiv1.PauseClusterInput) (*output[apiv1.Answer], error) {
	wait, err := patience(in)
	if err != nil {
		return nil, err
	}
	ask := request("pause", in.Cluster, in.OnJobs, in.DrainTimeout)
	return a.turn(ctx, in.Request, ask, in.Cluster, "pause",
		func(ctx context.Context, tx *core.Tx, c cluster.Cluster) (*admission.Plan, func() error, error) {
			plan := &admission.Plan{Spec: c.Spec}
			if c.Desired == core.ToDelete {
				return nil, nil, conflict(fmt.Sprintf("cluster %s is being deleted", c.Name), "")
			}
			keep := in.OnJobs == onJobsKeep
			if c.Phase == cluster.Paused && c.Desired == cluster.ToPause && !(c.KeepsMemory && in.OnJobs == onJobsRequeue) {
				return plan, nil, nil
			}
			if keep && c.Desired == cluster.ToPause && !c.KeepsMemory {
				return nil, nil, conflict(fmt.Sprintf("cluster %s is pausing already, and its jobs are not kept in memory",
					c.Name), "")
			}
			refused, err := a.Admission.Unpausable(ctx, tx, c)
			if err != nil {
				return nil, nil, err
			}
			if refused != nil {
				return nil, nil, refused
			}
			nodes, err := node.Of(ctx, tx, c.ID)
			for _, n := range nodes {
				plan.Release = append(plan.Release, n.Name)
			}
			return plan, func() error {
				text := "pause, jobs are queued again, by "
				switch {
				case keep:
					text = "pause, jobs are kept in memory, by "
				case wait == cluster.UntilJobsEnd:
					text = "pause when its jobs have ended, by "
				case wait > 0:
					text = fmt.Sprintf("pause, jobs have %s to end, by ", wait)
				}
				tx.Log(core.Event{Type: "cluster.requested", Project: c.Project, ClusterID: c.ID, Cluster: c.Name,
					Text: text + identityOf(ctx)})
				if keep {
					return cluster.PauseKeepingMemory(ctx, tx, c.ID)
				}
				return cluster.PausePatiently(ctx, tx, c.ID, wait)
			}, err
		})
}

func (a *API) resumeCluster(ctx context.Context, in *apiv1.ResumeClusterInput) (*output[apiv1.Answer], error) {
	options := apiv1.Request{DryRun: in.DryRun, IdempotencyKey: in.IdempotencyKey}
	return a.turn(ctx, options, request("resume", in.Cluster), in.Cluster, "resume",
		func(ctx context.Context, tx *core.Tx, c cluster.Cluster) (*admission.Plan, func() error, error) {
			plan, err := a.Admission.Resume(ctx, tx, c)
			if err != nil || c.Desired == core.Present {
				return plan, nil, err
			}
			return plan, func() error {
				_, err := a.Admission.CarryOutResume(ctx, tx, plan, identityOf(ctx))
				return err
			}, nil
		})
}

// turn pauses or resumes: plan says what would happen, and what to do, nil if nothing; all in one transaction.
func (a *API) turn(ctx context.Context, in apiv1.Request, asked, ref, kind string,
	plan func(context.Context, *core.Tx, cluster.Cluster) (*admission.Plan, func() error, error)) (*output[apiv1.Answer], error) {
	out := &output[apiv1.Answer]{}
	run := func(tx *core.Tx) error {
		out.Status, out.Body = http.StatusOK, apiv1.Answer{}
		after, err := tx.LastEvent(ctx)
		if err != nil {
			return err
		}
		c, err := a.find(ctx, tx, ref)
		if err != nil {
			return err
		}
		if err := cluster.Lock(ctx, tx, c.ID); err != nil {
			return err
		}
		if c, err = cluster.Get(ctx, tx, c.ID); err != nil {
			return err
		}
		if c.Phase == core.Deleted {
			return conflict(fmt.Sprintf("cluster %s is deleted", c.Name), "create it again")
		}
		p, act, err := plan(ctx, tx, c)
		if err != nil {
			return err
		}
		out.Body.Plan = planView(p)
		if in.DryRun {
			return nil
		}
		if act != nil {
			if err := act(); err != nil {
				return err
			}
			out.Status = http.StatusAccepted
			out.Body.Operation = &apiv1.Operation{Kind: kind, Cluster: c.ID, Generation: c.Generation, EventsAfter: after}
			if c, err = cluster.Get(ctx, tx, c.ID); err != nil {
				return err
			}
		}
		view, err := a.clusterView(ctx, tx, c)
		out.Body.Cluster = &view
		return err
	}
	if in.DryRun {
		return out, a.DB.View(core.Apart(ctx), run)
	}
	return out, a.once(ctx, in.IdempotencyKey, asked, out, run)
}
