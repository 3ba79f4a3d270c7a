package agent

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"muster/internal/agent/protocol"
)

const (
	reportEvery = 5 * time.Second        // until the controller says otherwise
	reportRetry = 250 * time.Millisecond // after a failed report; doubles up to reportEvery
)

// reporter holds what the node knows of itself and tells the controller: at once when it changes, else now and then.
type reporter struct {
	mu     sync.Mutex
	report protocol.Report
	change chan struct{} // holds one token while something is unsaid
}

// newReporter starts with all checks not passed.
func newReporter(boot int64, checks []string) *reporter {
	r := &reporter{report: protocol.Report{Boot: boot}, change: make(chan struct{}, 1)}
	for _, name := range checks {
		r.report.Checks = append(r.report.Checks, protocol.Check{Name: name, Text: "not checked yet"})
	}
	return r
}

func (r *reporter) setFacts(f protocol.NodeFacts) {
	r.edit(func(p *protocol.Report) bool {
		p.Facts = f
		return false // they go with the first report
	})
}

func (r *reporter) setRevision(revision int64) {
	r.edit(func(p *protocol.Report) bool {
		changed := p.Revision != revision
		p.Revision = revision
		return changed
	})
}

// expect adds a check that came to be needed, not passed yet.
func (r *reporter) expect(name string) {
	r.edit(func(p *protocol.Report) bool {
		p.Checks = append(p.Checks, protocol.Check{Name: name, Text: "not checked yet"})
		return true
	})
}

// setCheck records a check's result; nil means passed.
func (r *reporter) setCheck(name string, err error) {
	check := protocol.Check{Name: name, OK: err == nil}
	if err != nil {
		check.Text = err.Error()
	}
	r.edit(func(p *protocol.Report) bool {
		i := slices.IndexFunc(p.Checks, func(c protocol.Check) bool { return c.Name == name })
		if i < 0 || p.Checks[i] == check {
			return false
		}
		flipped := p.Checks[i].OK != check.OK
		p.Checks[i] = check
		return flipped // another reason for the same failure can wait
	})
}

// setTest records what the node measured; nil when nothing is asked for.
func (r *reporter) setTest(t *protocol.TestResult) {
	r.edit(func(p *protocol.Report) bool {
		p.Test = t
		return t != nil
	})
}

// setScheduler records what the scheduler says; nil while it does not answer.
func (r *reporter) setScheduler(s *protocol.Scheduler) {
	r.edit(func(p *protocol.Report) bool {
		if reflect.DeepEqual(p.Scheduler, s) {
			return false
		}
		p.Scheduler = s
		return true
	})
}

func (r *reporter) edit(do func(*protocol.Report) (changed bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if do(&r.report) {
		select {
		case r.change <- struct{}{}:
		default:
		}
	}
}

// snapshot is a copy that later edits leave alone; Scheduler is replaced as a whole and needs none.
func (r *reporter) snapshot() protocol.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := r.report
	report.Checks = slices.Clone(report.Checks)
	return report
}

// run reports until ctx ends, or until the controller refuses to hear more: ErrRefused. newest hears the revision that
// the controller has with each answer.
func (r *reporter) run(ctx context.Context, to controller, console *console, newest func(revision int64)) error {
	every, retry, failing := reportEvery, reportRetry, false
	for ctx.Err() == nil {
		wait := every
		reply, err := to.Report(ctx, r.snapshot())
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrRefused):
			return err
		case err != nil:
			wait, retry = retry, min(2*retry, reportEvery)
			if !failing {
				console.printf("%v; trying on", err)
			}
		default:
			retry = reportRetry
			if reply.Every > 0 {
				every = reply.Every
				wait = every
			}
			newest(reply.Revision)
		}
		failing = err != nil
		if !r.wait(ctx, wait, failing) {
			return nil
		}
	}
	return nil
}

// wait returns when it is time for the next report; a change does not shorten the pause after a failure.
func (r *reporter) wait(ctx context.Context, d time.Duration, failing bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	change := r.change
	if failing {
		change = nil
	}
	select {
	case <-timer.C:
	case <-change:
	case <-ctx.Done():
		return false
	}
	return true
}
