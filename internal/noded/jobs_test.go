package noded

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"muster/internal/protocol"
)

// jobsSite is a scheduler in which jobs have ended, and a controller that hears of them.
type jobsSite struct {
	ended   map[int64]time.Time
	until   time.Time
	current protocol.CurrentJobs
	asked   []time.Time

	since time.Time // of the controller
	kept  map[int64]bool
	knows *protocol.CurrentJobs
	asks  int
	lost  bool // answers of the controller are
}

func (o *jobsSite) Tell(_ context.Context, since time.Time) (told protocol.JobsTold, err error) {
	o.asked = append(o.asked, since)
	for number, at := range o.ended {
		if !at.Before(since) && at.Before(o.until) {
			told.Ended = append(told.Ended, protocol.EndedJob{Job: protocol.Job{Number: number}, Ended: at})
		}
	}
	told.Until, told.Current = o.until, new(o.current)
	return told, nil
}

func (o *jobsSite) hear(_ context.Context, told protocol.JobsTold) (protocol.JobsKept, error) {
	o.asks++
	for _, j := range told.Ended {
		o.kept[j.Number] = true
	}
	if told.Until.After(o.since) {
		o.since = told.Until
	}
	if told.Current != nil {
		o.knows = told.Current
	}
	if o.lost {
		return protocol.JobsKept{}, errors.New("the answer is lost")
	}
	return protocol.JobsKept{Since: o.since}, nil
}

func TestJobsAreToldUntilTheyAreKept(t *testing.T) {
	at := func(n int64) time.Time { return time.Unix(1000+n, 0) }
	o := &jobsSite{ended: map[int64]time.Time{1: at(1), 5: at(5)}, since: at(3), kept: map[int64]bool{}}
	d := newJobsDuty(o, o.hear, &console{out: io.Discard})
	once := func(fails bool, asks int, kept ...int64) {
		t.Helper()
		o.asks = 0
		if err := d.once(t.Context()); (err != nil) != fails || o.asks != asks || len(o.kept) != len(kept) {
			t.Errorf("%v after %d calls; it has %v, want %v", err, o.asks, o.kept, kept)
		}
		for _, number := range kept {
			if !o.kept[number] {
				t.Errorf("it has %v, want %v", o.kept, kept)
			}
		}
	}
	once(false, 2) // what is known is asked, and told that there are no jobs now; what has ended is not known yet
	if len(o.asked) != 1 || !o.asked[0].Equal(at(3)) || o.knows == nil {
		t.Errorf("it was asked for what has ended since %v, and told %v", o.asked, o.knows)
	}
	o.until = at(5)
	once(false, 0) // nothing is news
	o.until, o.lost = at(8), true
	once(true, 1, 5)
	o.lost = false
	once(false, 1, 5) // again
	o.ended[9], o.until = at(9), at(10)
	once(false, 1, 5, 9)
	once(false, 0, 5, 9)
	o.current.Running, o.until = 1, time.Time{} // its accounts are away
	once(false, 1, 5, 9)
	if o.knows.Running != 1 {
		t.Errorf("%+v run", o.knows)
	}
	o.until, o.current.Running = at(20), 2
	once(false, 1, 5, 9)
	once(false, 0, 5, 9)
	if last := o.asked[len(o.asked)-1]; !last.Equal(at(20)) {
		t.Errorf("it asks for what has ended since %v", last)
	}
	o = &jobsSite{kept: map[int64]bool{}, lost: true}
	d = newJobsDuty(o, o.hear, &console{out: io.Discard})
	once(true, 1) // until it knows since when, it does not ask the scheduler
	if len(o.asked) > 0 {
		t.Errorf("it was asked for what has ended since %v", o.asked)
	}
}
