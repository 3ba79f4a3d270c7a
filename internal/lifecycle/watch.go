package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/telemetry"
)

// Looked is when the engine last looked for work, and Running how many handlers run now and how many may.
func (e *Engine) Looked() time.Time { return time.Unix(0, e.looked.Load()) }

// Running is how many handlers run now, and how many may.
func (e *Engine) Running() (now, most int) { return len(e.busy), cap(e.busy) }

// stillRelated is how long after a request what happens to its cluster is taken for its doing, in traces.
const stillRelated = time.Hour

// causeOf is the request behind what happens to a cluster now, or "".
func causeOf(ctx context.Context, tx *core.Tx, cluster string) (string, error) {
	if cluster == "" {
		return "", nil
	}
	request, ago, err := tx.LastRequest(ctx, cluster)
	if ago > stillRelated {
		request = ""
	}
	return request, err
}

// operation names what a cluster's nodes are at: its ID and the generation of what is asked for.
func operation(c cluster.Cluster) string { return fmt.Sprintf("%s/%d", c.ID, c.Generation) }

// report tells the log and the telemetry how a step went. Each is told once, by the controller that took it.
func (e *Engine) report(ctx context.Context, claim core.Claim, s subject, o Outcome, to core.Settlement, began time.Time, err error) {
	step := telemetry.Step{
		Kind: string(claim.Kind), From: string(s.life.Phase), To: string(to.Phase), Stayed: s.now.Sub(s.life.PhaseAt) + time.Since(began),
		Result: result(o, to.Phase != s.life.Phase, err), Err: cmp.Or(err, o.err), Began: began,
		Cluster: s.event.Cluster, Node: s.event.Node, Machine: s.event.Machine, Op: s.op, Fence: claim.Fence, Request: s.request,
	}
	if e.db.Definition(claim.Kind).Fails(to.Phase) {
		step.Cause = string(cmp.Or(o.cause, CauseOther))
	}
	e.tell.Step(ctx, step)
	level, words := slog.LevelInfo, "goes on to "+step.To
	switch step.Result {
	case telemetry.Fenced:
		level, words = slog.LevelWarn, "another controller has taken over"
	case telemetry.Lost:
		level, words = slog.LevelError, "a step was lost; its lease will end and it will be done again"
	case telemetry.Retries:
		level, words = slog.LevelWarn, "will try again"
	case telemetry.Late:
		words = "lasted too long; " + words
	case telemetry.Waits:
		return
	}
	if !e.log.Enabled(ctx, level) {
		return
	}
	line := []any{"kind", step.Kind}
	for _, part := range []struct{ name, value string }{{"cluster", step.Cluster}, {"node", step.Node}, {"machine", step.Machine}, {"op", step.Op}} {
		if part.value != "" {
			line = append(line, part.name, part.value)
		}
	}
	line = append(line, "id", claim.ID, "fence", claim.Fence, "phase", step.From)
	switch {
	case step.Err != nil && step.Result == telemetry.Retries:
		line = append(line, "in", to.After, "error", step.Err)
	case step.Err != nil:
		line = append(line, "error", step.Err)
	default:
		line = append(line, "why", o.text)
	}
	e.log.Log(ctx, level, words, line...)
}

func result(o Outcome, moved bool, err error) string {
	switch {
	case errors.Is(err, core.ErrFenced):
		return telemetry.Fenced
	case err != nil:
		return telemetry.Lost
	case o.err != nil:
		return telemetry.Retries
	case o.late:
		return telemetry.Late
	case moved:
		return telemetry.Advanced
	}
	return telemetry.Waits
}

// watched is the same world, whose drivers tell of every call.
func (w Deps) watched() Deps {
	if w.Telemetry == nil {
		return w
	}
	providers := map[string]Provider{}
	for name, provider := range w.Providers {
		provider.Substrate = watchedSubstrate{provider.Substrate, name, w.Telemetry}
		provider.Inspector = watchedInspector{provider.Inspector, name, w.Telemetry}
		providers[name] = provider
	}
	w.Providers, w.Shared = providers, watchedShared{w.Shared, w.Telemetry}
	return w
}

// One wrapper for each interface; what is not named here passes through.
type (
	watchedSubstrate struct {
		substrate.Substrate
		name string
		tell *telemetry.Telemetry
	}
	watchedInspector struct {
		substrate.Inspector
		name string
		tell *telemetry.Telemetry
	}
	watchedShared struct {
		substrate.Shared
		tell *telemetry.Telemetry
	}
)

// failure is an error that is to be counted as one.
func failure(err error) error {
	if errors.Is(err, substrate.ErrUnderway) {
		return nil
	}
	return err
}

func (s watchedSubstrate) Ensure(ctx context.Context, n substrate.Node) error {
	ended := s.tell.Call(ctx, s.name, "ensure")
	err := s.Substrate.Ensure(ctx, n)
	ended(failure(err))
	return err
}

func (s watchedSubstrate) Observe(ctx context.Context, r substrate.Ref) (substrate.Observation, error) {
	ended := s.tell.Call(ctx, s.name, "observe")
	seen, err := s.Substrate.Observe(ctx, r)
	ended(err)
	return seen, err
}

func (s watchedSubstrate) Remove(ctx context.Context, r substrate.Ref) error {
	ended := s.tell.Call(ctx, s.name, "remove")
	err := s.Substrate.Remove(ctx, r)
	ended(failure(err))
	return err
}

func (i watchedInspector) Inspect(ctx context.Context, what substrate.Inspection) (substrate.Inspected, error) {
	ended := i.tell.Call(ctx, i.name, "inspect")
	seen, err := i.Inspector.Inspect(ctx, what)
	ended(err)
	return seen, err
}

func (i watchedInspector) Rest(ctx context.Context, m inventory.Machine) (string, error) {
	ended := i.tell.Call(ctx, i.name, "rest")
	did, err := i.Inspector.Rest(ctx, m)
	ended(err)
	return did, err
}

func (c watchedShared) EnsureShared(ctx context.Context, cluster string, n substrate.Network) error {
	ended := c.tell.Call(ctx, "shared", "ensure")
	err := c.Shared.EnsureShared(ctx, cluster, n)
	ended(err)
	return err
}

func (c watchedShared) RemoveShared(ctx context.Context, cluster string) error {
	ended := c.tell.Call(ctx, "shared", "remove")
	err := c.Shared.RemoveShared(ctx, cluster)
	ended(err)
	return err
}
