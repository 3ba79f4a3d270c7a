package noded

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

// pausing is the step of a pause that this head is at.
type pausing struct {
	step    protocol.PauseStep
	callOff context.CancelFunc // ends what it is doing
}

// pause carries out a pause's step, once, and reports its outcome. No step means that there is no pause, or no longer.
func (n *node) pause(ctx context.Context, step protocol.PauseStep) {
	if step == n.pausing.step {
		return
	}
	if n.pausing.callOff != nil {
		n.pausing.callOff()
	}
	if n.head != nil {
		n.head.keep(step != "")
	}
	ctx, cancel := context.WithCancel(ctx)
	n.pausing = pausing{step, cancel}
	n.reporter.withdraw(protocol.PauseHalt, protocol.PauseSleep)
	steps := map[protocol.PauseStep]func(context.Context) protocol.Check{
		protocol.PauseHalt:  n.halt,
		protocol.PauseSleep: n.doze,
	}
	if run, known := steps[step]; known {
		n.tasks.Go(func() {
			outcome := run(ctx)
			if ctx.Err() == nil {
				outcome.Name = string(step)
				n.reporter.conclude(outcome)
				n.console.printf("pause: %s", outcome.Text)
			}
		})
	}
}

// halt ends the scheduler's controller, which saves its state.
func (n *node) halt(context.Context) protocol.Check {
	controller := n.scheduler.Caps.Controller
	if controller == "" {
		return protocol.Check{OK: true, Text: "no scheduler is to be stopped"}
	}
	began := time.Now()
	n.supervisor.end(controller)
	took := time.Since(began).Seconds()
	return protocol.Check{OK: true, Text: fmt.Sprintf("%s has stopped in %.1f s and saved its state", n.scheduler.Title, took)}
}

// doze is halt for a cluster whose jobs go on when its nodes are resumed.
func (n *node) doze(ctx context.Context) protocol.Check {
	var failed error
	if s, ok := n.driver.(scheduler.Suspender); ok {
		failed = s.Suspend(ctx)
	}
	outcome := n.halt(ctx)
	if failed != nil {
		outcome.OK = false
		outcome.Text += "; " + failed.Error()
	}
	return outcome
}

// conclude reports a check that comes up once.
func (r *reporter) conclude(c protocol.Check) {
	r.edit(func(p *protocol.Report) urgency {
		p.Checks = append(p.Checks, c)
		return atOnce
	})
}

// withdraw takes such checks out of the report again.
func (r *reporter) withdraw(steps ...protocol.PauseStep) {
	r.edit(func(p *protocol.Report) urgency {
		before := len(p.Checks)
		p.Checks = slices.DeleteFunc(slices.Clone(p.Checks), func(c protocol.Check) bool {
			return slices.Contains(steps, protocol.PauseStep(c.Name))
		})
		if len(p.Checks) == before {
			return nothing
		}
		return atOnce
	})
}

// keep says whether nodes that are no peers stay in the scheduler's list. While the cluster pauses they do: a queued job
// that names one would be lost when the scheduler starts again and does not know it.
func (h *headDuty) keep(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keeps = on
}
