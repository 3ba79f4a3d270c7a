package core

import (
	"context"
	"fmt"
	"time"
)

// Outcome is what a handler's step came to: go on to another phase, stay and wait, stay and try again. It is written in
// one transaction, and only if the claim still holds.
type Outcome struct {
	Phase  Phase  // to go on to; "" to stay
	Text   string // what happened, for the event; or what it waits for, for the row
	After  time.Duration
	Asleep bool
	Err    error // retry with backoff because of it
	late   bool  // the phase's deadline had passed
	cause  Cause // of a failure
	also   []func(context.Context, *Tx) error
}

// Advance goes on to a phase; text says why in a user's words.
func Advance(to Phase, format string, args ...any) Outcome {
	return Outcome{Phase: to, Text: fmt.Sprintf(format, args...)}
}

// WaitFor stays, and looks again after a while or when woken; text says what it waits for.
func WaitFor(after time.Duration, format string, args ...any) Outcome {
	return Outcome{After: after, Text: fmt.Sprintf(format, args...)}
}

// Rest stays until woken.
func Rest() Outcome { return Outcome{Asleep: true} }

// Retry stays and tries again, later with every failure in a row.
func Retry(err error) Outcome { return Outcome{Err: err, Text: err.Error()} }

// Cause is the kind of a failure, to be counted; its words are in the outcome's text. There are few, and they mean the same
// for years.
type Cause string

// CauseOther is that of failures whose handlers name none.
const CauseOther Cause = "other"

// Because says what kind of failure it is.
func (o Outcome) Because(c Cause) Outcome {
	o.cause = c
	return o
}

// With adds something to the outcome's transaction.
func (o Outcome) With(f func(context.Context, *Tx) error) Outcome {
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

// Within makes an outcome's next look come no later than this.
func (o Outcome) Within(d time.Duration) Outcome {
	if d++; o.Asleep || o.After > d {
		o.Asleep, o.After = false, d
	}
	return o
}
