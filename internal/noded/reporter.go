package noded

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"muster/internal/kit/clock"
	"muster/internal/protocol"
)

const (
	reportEvery = 5 * time.Second        // until the controller says otherwise
	reportSoon  = 250 * time.Millisecond // after the last report, what is news but changes nothing yet
	reportRetry = 250 * time.Millisecond // after a failed report; doubles up to reportEvery
)

// reporter holds what the node knows of itself and tells the controller: at once when that may change what the node is, canWait
// when it is news all the same, else now and then. Each report is a transaction and a step of the node, and a node that starts
// has ten changes within half a second, and only the last of them count.
type reporter struct {
	late []string // checks that pass only after the node's test, or when others are there

	mu     sync.Mutex
	report protocol.Report
	undone map[string][]protocol.Undone // by who found it
	asked  int64                        // number of the test that is waited for; 0: none
	change chan struct{}                // holds one token while something is unsaid that cannot wait
	news   chan struct{}                // and while something is unsaid that can wait a little
}

// urgency says when a change is to be told.
type urgency int

const (
	nothing urgency = iota // with the next report
	canWait
	atOnce
)

// notChecked is the reason of a check that was not made yet.
const notChecked = "not checked yet"

// newReporter starts with all checks not passed.
func newReporter(boot int64, checks []string) *reporter {
	r := &reporter{report: protocol.Report{Boot: boot}, change: make(chan struct{}, 1), news: make(chan struct{}, 1)}
	for _, name := range checks {
		r.report.Checks = append(r.report.Checks, protocol.Check{Name: name, Text: notChecked})
	}
	return r
}

func (r *reporter) setFacts(f protocol.NodeFacts) {
	r.edit(func(p *protocol.Report) urgency {
		p.Facts = f
		return nothing // they go with the first report
	})
}

func (r *reporter) setRevision(revision int64) {
	r.edit(func(p *protocol.Report) urgency {
		if p.Revision == revision {
			return nothing
		}
		p.Revision = revision
		return r.whenComplete()
	})
}

// expect adds a check that came to be needed, not passed yet.
func (r *reporter) expect(name string) {
	r.edit(func(p *protocol.Report) urgency {
		p.Checks = append(p.Checks, protocol.Check{Name: name, Text: notChecked})
		return atOnce
	})
}

// setSiteChecks puts these in the place of the site's own checks that there were. What is known of one that stays is kept.
func (r *reporter) setSiteChecks(checks []protocol.Check) {
	r.edit(func(p *protocol.Report) urgency {
		for _, old := range p.Checks {
			for i, c := range checks {
				if c.Name == old.Name && c.Limit == old.Limit && c.Unit == old.Unit {
					checks[i] = old
				}
			}
		}
		p.Checks = append(slices.DeleteFunc(slices.Clone(p.Checks), protocol.Check.OfSite), checks...)
		return atOnce
	})
}

// setValue records what one of the site's own checks has found. Its result follows.
func (r *reporter) setValue(name string, value float64) {
	r.edit(func(p *protocol.Report) urgency {
		for i, c := range p.Checks {
			if c.Name == name {
				p.Checks[i].Found, p.Checks[i].Value = true, value
			}
		}
		return nothing
	})
}

// setCheck records a check's result; nil means passed.
func (r *reporter) setCheck(name string, err error) {
	r.edit(func(p *protocol.Report) urgency {
		i := slices.IndexFunc(p.Checks, func(c protocol.Check) bool { return c.Name == name })
		if i < 0 {
			return nothing
		}
		check := p.Checks[i]
		if check.OK, check.Text = err == nil, ""; err != nil {
			check.Text = err.Error()
		}
		if p.Checks[i] == check {
			return nothing
		}
		flipped := p.Checks[i].OK != check.OK
		p.Checks[i] = check
		switch {
		case !flipped:
			return nothing // another reason for the same failure can wait
		case !check.OK:
			return atOnce
		}
		return r.whenComplete()
	})
}

// expectTest has what completes the report wait for the test of this number.
func (r *reporter) expectTest(number int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = number
}

// setTest records what the node measured; nil when nothing is asked for.
func (r *reporter) setTest(t *protocol.TestResult) {
	r.edit(func(p *protocol.Report) urgency {
		if p.Test = t; t == nil {
			r.asked = 0
			return nothing
		}
		return r.whenComplete()
	})
}

// setScheduler records what the scheduler says; nil while it does not answer.
func (r *reporter) setScheduler(s *protocol.Scheduler) {
	r.edit(func(p *protocol.Report) urgency {
		if reflect.DeepEqual(p.Scheduler, s) {
			return nothing
		}
		p.Scheduler = s
		return atOnce
	})
}

// setUndone records what a part of the agent could not do for users.
func (r *reporter) setUndone(part string, undone []protocol.Undone) {
	r.edit(func(p *protocol.Report) urgency {
		if slices.Equal(r.undone[part], undone) {
			return nothing
		}
		if r.undone == nil {
			r.undone = map[string][]protocol.Undone{}
		}
		r.undone[part], p.Undone = undone, nil
		for _, part := range slices.Sorted(maps.Keys(r.undone)) {
			p.Undone = append(p.Undone, r.undone[part]...)
		}
		return atOnce
	})
}

// setTask records how far a task is; nil: it is over.
func (r *reporter) setTask(id string, state *protocol.TaskState) {
	r.edit(func(p *protocol.Report) urgency {
		tasks := slices.Clone(p.Tasks) // earlier reports have the old list
		i := slices.IndexFunc(tasks, func(t protocol.TaskState) bool { return t.ID == id })
		switch {
		case state == nil && i >= 0:
			tasks = slices.Delete(tasks, i, i+1)
		case state != nil && i >= 0:
			tasks[i] = *state
		case state != nil:
			tasks = append(tasks, *state)
		}
		p.Tasks = tasks
		if state == nil {
			return nothing
		}
		return atOnce
	})
}

// whenComplete is the urgency of good news: until the last of what the controller waits for is there, it can wait. The caller
// holds the lock.
func (r *reporter) whenComplete() urgency {
	if r.asked > 0 && (r.report.Test == nil || r.report.Test.Number < r.asked) {
		return canWait
	}
	failing := func(c protocol.Check) bool { return !c.OK && !slices.Contains(r.late, c.Name) }
	if slices.ContainsFunc(r.report.Checks, failing) {
		return canWait
	}
	return atOnce
}

func (r *reporter) edit(do func(*protocol.Report) urgency) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tell := r.change
	switch do(&r.report) {
	case nothing:
		return
	case canWait:
		tell = r.news
	}
	clock.Wake(tell)
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
	if !r.wait(ctx, reportSoon, false) { // that it lives, its join has said
		return nil
	}
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
	timer, began := time.NewTimer(d), time.Now()
	defer timer.Stop()
	change, news := r.change, r.news
	if failing {
		change, news = nil, nil
	}
	for {
		select {
		case <-timer.C:
		case <-change:
		case <-news:
			news = nil
			timer.Reset(min(d, reportSoon) - time.Since(began))
			continue
		case <-ctx.Done():
			return false
		}
		return true
	}
}
