package nodelife

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/life"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// aloneAfter is after how many times its limit a lost node is judged without the nodes of any one other project.
const aloneAfter = 10

// alive goes before the handler of a node whose agent is to be heard. It fails the node that is lost: its agent is silent,
// or what runs on it has not been well, for longer than the limit. What many nodes seem to have at once is taken for a fault
// of what is between them and the controllers: then none is failed, and an alarm is raised. What the substrate itself shows is
// certain and needs no guard; the handlers see to that.
func (w Handlers) alive(handle func(context.Context, nodeView) core.Outcome) func(context.Context, nodeView) core.Outcome {
	return func(ctx context.Context, n nodeView) core.Outcome {
		if n.cluster.Desired == core.ToDelete {
			return handle(ctx, n)
		}
		if apart := n.apart(); apart != "" {
			return n.fail("%s", apart).Because(life.CauseMachine)
		}
		limit := w.provider(n).Limits.Silence
		why, left, err := w.lost(ctx, n, limit)
		switch {
		case err != nil:
			return core.Retry(err)
		case why == "":
			o := handle(ctx, n)
			if o.After > left && left > 0 {
				o.After = left + time.Millisecond // so that the limit is kept
			}
			return o
		}
		var all life.FailureDomain
		var alarmed bool
		var listened, seen, well time.Time
		err = w.DB.View(ctx, func(tx *core.Tx) (err error) {
			if alarmed, err = host.Alarmed(ctx, tx, n.machine.Network); err != nil {
				return err
			}
			if listened, err = host.ListenedSince(ctx, tx, n.machine.Network); err != nil {
				return err
			}
			if all, err = w.FailureDomain(ctx, tx, n.machine.Network, n.cluster.Project, w.provider(n).Limits); err != nil {
				return err
			}
			// After the others: what one commit has brought of all must not count of them alone.
			seen, well, err = node.Heard(ctx, tx, n.ID, n.Boot)
			return err
		})
		if err == nil && seen.After(n.Seen.At) { // since it was read, as were the others, who then do not count as lost
			n.Seen.Boot, n.Seen.At, n.Seen.WellAt = n.Boot, seen, well
			why, _, err = w.lost(ctx, n, limit)
		}
		// Whose nodes all fall silent must not keep one of another project from being replaced for ever.
		alone := n.now.Sub(life.Later(n.Seen.WellAt, n.PhaseAt)) >= aloneAfter*limit && !all.Returns
		switch {
		case err != nil:
			return core.Retry(err)
		case why == "":
			return core.WaitFor(life.AlarmLooks, "has just been heard again")
		case listened.After(n.listened): // an alarm has just ended, and with it what was counted
			return core.WaitFor(life.AlarmLooks, "%s, and has its time again", why)
		case !all.Many() && alarmed && !alone: // they come back one after the other, and the last has as long as any
			return core.WaitFor(life.AlarmLooks, "%s, and is not given up before the alarm is over", why)
		case !all.Many() || alone && !all.ManyWithoutAny():
			return n.fail("%s", why).Because(life.CauseLost)
		}
		return core.WaitFor(life.MassLooks, "%s, and is not given up: %s", why, all).
			With(func(ctx context.Context, tx *core.Tx) error {
				tx.Wake(cluster.Kind, n.Cluster)
				return host.RaiseAlarm(ctx, tx, n.machine.Network,
					fmt.Sprintf("%s; none is replaced for it; if it is true, `muster machines quarantine NAME…` gives them up",
						all))
			})
	}
}

// lost says why a node is to be given up, "" if it is not, and how long it has left as things stand. Time counts only from
// when the node's place was listened to: a controller must not take its own deafness for theirs.
func (w Handlers) lost(ctx context.Context, n nodeView, limit time.Duration) (why string, left time.Duration, err error) {
	seen, well := n.PhaseAt, n.PhaseAt
	if n.Seen.Boot == n.Boot {
		seen, well = n.Seen.At, life.Later(n.Seen.WellAt, n.PhaseAt)
	}
	silent := n.now.Sub(life.Later(seen, n.listened))
	left = limit - silent
	if left <= 0 {
		return fmt.Sprintf("its agent was silent for %.0f s", n.now.Sub(seen).Seconds()), left, nil
	}
	if n.Phase != core.Ready && n.Phase != node.Draining {
		return "", left, nil // what joins is not yet well, and has a deadline
	}
	if n.Role == protocol.Head {
		limit = max(limit, w.provider(n).Limits.Join) // a new one would end every session, and would need as long
	}
	left = min(left, limit-n.now.Sub(life.Later(well, n.listened)))
	lost := n.Role == protocol.Compute && n.Seen.Scheduler.Lost()
	if left > 0 && !lost {
		return "", left, nil
	}
	if n.Role == protocol.Compute {
		since, err := w.headWellSince(ctx, n.Cluster, limit/2)
		if err != nil || since.IsZero() {
			return "", limit, err
		}
		left = min(limit, limit-n.now.Sub(life.Later(life.Later(well, n.listened), since)))
		if lost && n.now.Sub(life.Later(since, n.listened)) >= limit {
			return n.scheduler.Title + " has given it up: it does not respond", left, nil
		}
		if left > 0 {
			return "", left, nil
		}
	}
	return fmt.Sprintf("not well for %.0f s: %s", n.now.Sub(well).Seconds(), n.unwell()), left, nil
}

// orStopped goes before the handler of a node on its way up. One that is not heard, and is seen to have stopped by itself, is
// failed at once, long before its deadline. Of a whole machine this is not known: it may have lost its power, and boots again in
// time. Nor is it of what cannot be seen now.
func (w Handlers) orStopped(handle func(context.Context, nodeView) core.Outcome) func(context.Context, nodeView) core.Outcome {
	return func(ctx context.Context, n nodeView) core.Outcome {
		heard := n.PhaseAt
		if n.Seen.Boot == n.Boot {
			heard = life.Later(heard, n.Seen.At)
		}
		if n.leaving() || w.provider(n).Caps.Power || n.now.Sub(heard) < 2*readyLooks {
			return handle(ctx, n)
		}
		seen, err := w.provider(n).Substrate.Observe(ctx, n.ref())
		if err == nil && seen.Present && !seen.Running && seen.Boot == n.Boot {
			return n.stopped(seen)
		}
		return handle(ctx, n)
	}
}

// stopped fails a node whose substrate shows that it does not run.
func (n nodeView) stopped(seen substrate.Observation) core.Outcome {
	return n.fail("it stopped by itself: %s", brief(seen.Detail)).Because(life.CauseStopped)
}

// headWellSince is since when the cluster's head is well without a gap; zero if it is not, or was not heard lately. Without
// its head no node is well, and its scheduler says nothing: that is the head's fault, and its nodes need time after it is back.
func (w Handlers) headWellSince(ctx context.Context, cluster string, lately time.Duration) (since time.Time, err error) {
	err = w.DB.View(ctx, func(tx *core.Tx) error {
		nodes, err := node.Of(ctx, tx, cluster)
		if err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		for _, n := range nodes {
			if n.Role == protocol.Head && n.Phase == core.Ready && n.Seen.Healthy(n.Boot) && now.Sub(n.Seen.At) < lately {
				since = life.Later(n.Seen.WellSince, n.PhaseAt)
			}
		}
		return err
	})
	return since, err
}
