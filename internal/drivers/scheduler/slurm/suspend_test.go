package slurm

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"muster/internal/drivers/scheduler/schedulertest"
)

// fakeLimits are the time limits of jobs in minutes, 0 for none.
type fakeLimits struct {
	jobs map[int]int
	err  error // of every change
}

func (f *fakeLimits) TimeLimits(context.Context) (all []TimeLimit, err error) {
	for job, minutes := range f.jobs {
		if minutes > 0 {
			all = append(all, TimeLimit{Job: job, Minutes: minutes})
		}
	}
	return all, nil
}

func (f *fakeLimits) SetTimeLimit(_ context.Context, job, minutes int) error {
	if _, runs := f.jobs[job]; !runs {
		return ErrUnknown
	}
	if f.err == nil {
		f.jobs[job] = minutes
	}
	return f.err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestJobsHaveAfterSleepWhatTheyHadLeft(t *testing.T) {
	jobs := &fakeLimits{jobs: map[int]int{1: 60, 2: 0, 3: 5}}
	now := time.Now()
	l := limits{files: schedulertest.NewFiles(t), slurm: jobs, now: func() time.Time { return now }}
	must(t, l.put(t.Context())) // nothing is noted
	must(t, l.lift(t.Context()))
	if !maps.Equal(jobs.jobs, map[int]int{1: 0, 2: 0, 3: 0}) {
		t.Errorf("while they sleep: %v", jobs.jobs)
	}
	now = now.Add(time.Minute)
	must(t, l.lift(t.Context())) // again, after a crash: what was noted stands
	now = now.Add(9*time.Minute + time.Second)
	delete(jobs.jobs, 3) // it was cancelled
	jobs.err = errors.New("slurmctld is busy")
	if l.put(t.Context()) == nil {
		t.Error("a failure is not told")
	}
	jobs.err = nil
	must(t, l.put(t.Context()))
	if !maps.Equal(jobs.jobs, map[int]int{1: 71, 2: 0}) {
		t.Errorf("after it: %v", jobs.jobs)
	}
	now = now.Add(time.Hour)
	must(t, l.put(t.Context()))
	if jobs.jobs[1] != 71 {
		t.Errorf("and once more: %v", jobs.jobs)
	}
}
