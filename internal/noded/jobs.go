package noded

import (
	"context"
	"reflect"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/kit/clock"
	"muster/internal/protocol"
)

// When the head asks for jobs: some time after its scheduler has said something, as what a job has used is known last, and now
// and then.
const (
	jobsSoon = 5 * time.Second
	jobsBusy = 10 * time.Second // there are jobs: why one waits changes, and the scheduler does not say so
	jobsIdle = time.Minute
)

// jobsDuty tells the controller of a head's jobs.
type jobsDuty struct {
	scheduler scheduler.Teller
	tell      func(context.Context, protocol.JobsTold) (protocol.JobsKept, error)
	console   *console
	wake      chan struct{}
	since     time.Time             // what ended earlier the controller knows; zero: it was not asked yet
	current   *protocol.CurrentJobs // as the controller was told last
}

func newJobsDuty(s scheduler.Teller, tell func(context.Context, protocol.JobsTold) (protocol.JobsKept, error),
	out *console) *jobsDuty {
	d := &jobsDuty{scheduler: s, tell: tell, console: out, wake: make(chan struct{}, 1)}
	d.look()
	return d
}

// look makes it be asked soon.
func (d *jobsDuty) look() {
	clock.Wake(d.wake)
}

// run asks and tells until ctx ends.
func (d *jobsDuty) run(ctx context.Context) {
	for failing := false; d.wait(ctx); {
		err := d.once(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			d.console.printf("%v; trying on", err)
		}
		failing = err != nil
	}
}

// wait returns when it is time. What is said meanwhile counts for the next time.
func (d *jobsDuty) wait(ctx context.Context) bool {
	pause := jobsIdle
	if now := d.current; now != nil && now.Running+now.Waiting > 0 {
		pause = jobsBusy
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.wake:
		_ = clock.Sleep(ctx, jobsSoon)
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// once tells what is news since it was told last.
func (d *jobsDuty) once(ctx context.Context) error {
	if d.since.IsZero() {
		kept, err := d.tell(ctx, protocol.JobsTold{})
		if err != nil {
			return err
		}
		d.since = kept.Since
	}
	told, err := d.scheduler.Tell(ctx, d.since)
	if err != nil {
		return err
	}
	current := told.Current
	if reflect.DeepEqual(d.current, current) {
		told.Current = nil
	}
	if told.Current == nil && len(told.Ended) == 0 {
		if !told.Until.IsZero() {
			d.since = told.Until
		}
		return nil
	}
	kept, err := d.tell(ctx, told)
	if err != nil {
		return err
	}
	if d.current = current; !told.Until.IsZero() {
		d.since = kept.Since
	}
	return nil
}
