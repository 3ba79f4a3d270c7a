package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

// Slurm counts a job's time by the clock, whether its nodes sleep or not. So before they do, their jobs may run for ever, as
// far as Slurm knows; and when its nodes are awake, each job has again what it had left.

// limitsFile is where a head notes the time limits of jobs whose nodes sleep. Its cluster keeps it, as it does the queue.
const limitsFile = protocol.StateOwn + "/time-limits.json"

// timeLimits is Control, or a fake.
type timeLimits interface {
	// TimeLimits lists those of the jobs that run, before their nodes go to sleep.
	TimeLimits(context.Context) ([]TimeLimit, error)
	// SetTimeLimit gives a job as many minutes from its begin; it may be repeated.
	SetTimeLimit(ctx context.Context, job, minutes int) error
}

// noted is the content of limitsFile.
type noted struct {
	At     time.Time   `json:"at"`
	Limits []TimeLimit `json:"limits"`
}

// limits are those of a cluster's jobs.
type limits struct {
	files scheduler.Files
	slurm timeLimits
	now   func() time.Time
}

// lift notes the time limits of the jobs that run, then takes them away. A note of an earlier try stands: what it has was
// lifted perhaps.
func (l limits) lift(ctx context.Context) error {
	before, _, err := l.read()
	if err != nil {
		return err
	}
	found, err := l.slurm.TimeLimits(ctx)
	if err != nil || len(found) == 0 && len(before.Limits) == 0 {
		return err
	}
	note := noted{At: l.now(), Limits: append(before.Limits, found...)}
	if len(before.Limits) > 0 {
		note.At = before.At
	}
	if err := l.write(note); err != nil {
		return err
	}
	for _, limit := range found {
		if err := l.slurm.SetTimeLimit(ctx, limit.Job, 0); err != nil && !errors.Is(err, ErrUnknown) {
			return err
		}
	}
	return nil
}

// put gives jobs their limits back, and the time that they slept on top. It may be called at any time; without a note there
// is nothing to do.
func (l limits) put(ctx context.Context) error {
	note, there, err := l.read()
	if err != nil || !there {
		return err
	}
	slept := int((max(0, l.now().Sub(note.At)) + time.Minute - 1) / time.Minute)
	var failed error
	note.Limits = slices.DeleteFunc(note.Limits, func(limit TimeLimit) bool {
		err := l.slurm.SetTimeLimit(ctx, limit.Job, limit.Minutes+slept)
		if err == nil || errors.Is(err, ErrUnknown) {
			return true
		}
		failed = err
		return false
	})
	if len(note.Limits) == 0 {
		return os.Remove(l.files.Path(limitsFile))
	}
	return errors.Join(failed, l.write(note)) // the rest, the next time
}

func (l limits) read() (note noted, there bool, err error) {
	text, err := l.files.Read(limitsFile)
	if err != nil || text == "" {
		return note, false, err
	}
	if err := json.Unmarshal([]byte(text), &note); err != nil {
		return note, false, fmt.Errorf("time limits of jobs: %w", err)
	}
	return note, true, nil
}

func (l limits) write(note noted) error {
	text, err := json.Marshal(note)
	if err == nil {
		_, err = l.files.Write(limitsFile, text, 0o600, "")
	}
	if err != nil {
		return fmt.Errorf("note time limits of jobs: %w", err)
	}
	return nil
}
