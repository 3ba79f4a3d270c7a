package lifecycle

import (
	"context"
	"fmt"
	"time"

	"muster/internal/core"
)

// Outcome is what a handler's step came to: go on to another phase, stay and wait, stay and try again. It is written in
// one transaction, and only if the claim still holds.
type Outcome struct {
	phase  core.Phase // to go on to; "" to stay
	text   string     // what happened, for the event; or what it waits for, for the row
	after  time.Duration
	asleep bool
	err    error // retry with backoff because of it
	late   bool  // the phase's deadline had passed
	cause  Cause // of a failure
	also   []func(context.Context, *core.Tx) error
}

// advance goes on to a phase; text says why in a user's words.
func advance(to core.Phase, format string, args ...any) Outcome {
	return Outcome{phase: to, text: fmt.Sprintf(format, args...)}
}

// waitFor stays, and looks again after a while or when woken; text says what it waits for.
func waitFor(after time.Duration, format string, args ...any) Outcome {
	return Outcome{after: after, text: fmt.Sprintf(format, args...)}
}

// rest stays until woken.
func rest() Outcome { return Outcome{asleep: true} }

// retry stays and tries again, later with every failure in a row.
func retry(err error) Outcome { return Outcome{err: err, text: err.Error()} }

// Cause is the kind of a failure, to be counted; its words are in the outcome's text. There are few, and they mean the same
// for years.
type Cause string

// Causes of failures.
const (
	CauseDeadline   Cause = "deadline"   // a phase lasted too long
	CauseBoot       Cause = "boot"       // it came to nothing, more than once
	CauseStopped    Cause = "stopped"    // a node ended by itself
	CauseAcceptance Cause = "acceptance" // a node did worse in its tests than its class does
	CauseLost       Cause = "lost"       // a node's agent was silent, or what runs on it was not well
	CauseMachine    Cause = "machine"    // the machine under a node was taken out of service
	CauseInspection Cause = "inspection" // a machine's tests or the erasure of its disks
	CauseSuspect    Cause = "suspect"    // a machine on which a node failed
	CauseNodes      Cause = "nodes"      // a cluster lacks nodes
	CauseOther      Cause = "other"
)

// because says what kind of failure it is.
func (o Outcome) because(c Cause) Outcome {
	o.cause = c
	return o
}

// with adds something to the outcome's transaction.
func (o Outcome) with(f func(context.Context, *core.Tx) error) Outcome {
	o.also = append(o.also, f)
	return o
}

// Backoff between tries: doubles from the first to the last.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 30 * time.Second
)

func backoff(failures int) time.Duration {
	d := firstRetry << min(max(failures-1, 0), 16)
	return min(d, lastRetry)
}
