package telemetry

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// Results of a step.
const (
	Advanced = "advanced"
	Waits    = "waits"
	Retries  = "retries"
	Late     = "late"
	Fenced   = "fenced"
	Lost     = "lost"
)

// Step is one run of a handler, with its commit.
type Step struct {
	Kind     string
	From, To string        // phases; equal if it stays
	Stayed   time.Duration // in From, until now
	Result   string
	Cause    string // of a failure; "" if To is none. Of a small set.
	Err      error  // why it retries or was lost
	Began    time.Time

	// For its span.
	Cluster, Node, Machine string // names
	Op                     string // what it carries out: cluster ID and generation
	Fence                  int64
	Request                string // that asked for it; "" if unknown or long ago
}

// Step tells of one that has ended; ctx is the one that Trail returned.
func (t *Telemetry) Step(ctx context.Context, s Step) {
	if t == nil {
		return
	}
	m := &t.meters
	m.steps.WithLabelValues(s.Kind, s.From, s.Result).Inc()
	m.stepSeconds.WithLabelValues(s.Kind).Observe(time.Since(s.Began).Seconds())
	if s.To != s.From && (s.Result == Advanced || s.Result == Late) {
		m.stays.WithLabelValues(s.Kind, s.From).Observe(s.Stayed.Seconds())
		if s.Cause != "" {
			m.failures.WithLabelValues(s.Kind, s.From, s.Cause).Inc()
		}
	}
	t.stepSpan(ctx, s)
}

// Request is one request to the API that was answered.
type Request struct {
	ID        string
	Operation string
	Status    int
	Began     time.Time
	Stream    bool        // a watch, a tunnel or a terminal: its length says nothing
	Identity  string      // who asked
	Cluster   string      // that it is about
	Op        string      // what it began: cluster ID and generation
	Caller    Traceparent // the trace that the client says it is part of
}

// Request tells of one that was answered; ctx is the one that Trail returned.
func (t *Telemetry) Request(ctx context.Context, r Request) {
	if t == nil {
		return
	}
	t.meters.requests.WithLabelValues(r.Operation, strconv.Itoa(r.Status)).Inc()
	if !r.Stream {
		t.meters.requestSeconds.WithLabelValues(r.Operation).Observe(time.Since(r.Began).Seconds())
	}
	t.requestSpan(ctx, r)
}

// Stream tells that a watch, a tunnel or a terminal is open, until the function that it returns is called.
func (t *Telemetry) Stream(operation string) (closed func()) {
	if t == nil {
		return func() {}
	}
	open := t.meters.streams.WithLabelValues(operation)
	open.Inc()
	return open.Dec
}

// Call tells of a driver's call that begins; what it returns is told of its end. A call that was cut short because the
// controller stops is no failure.
func (t *Telemetry) Call(ctx context.Context, driver, call string) (ended func(error)) {
	if t == nil {
		return func(error) {}
	}
	began := time.Now()
	return func(err error) {
		t.meters.callSeconds.WithLabelValues(driver, call).Observe(time.Since(began).Seconds())
		if err != nil && !errors.Is(err, context.Canceled) {
			t.meters.callFailures.WithLabelValues(driver, call).Inc()
		}
		note(ctx, driver+" "+call, began, err)
	}
}
