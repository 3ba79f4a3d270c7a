package core

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"muster/internal/core/telemetry"
)

// Looked is when the engine last looked for work, and Running how many handlers run now and how many may.
func (e *Engine) Looked() time.Time { return time.Unix(0, e.looked.Load()) }

// Running is how many handlers run now, and how many may.
func (e *Engine) Running() (now, most int) { return e.works(), workers }

// stillRelated is how long after a request what happens to its cluster is taken for its doing, in traces.
const stillRelated = time.Hour

// causeOf is the request behind what happens to a cluster now, or "".
func causeOf(ctx context.Context, tx *Tx, cluster string) (string, error) {
	if cluster == "" {
		return "", nil
	}
	request, ago, err := tx.LastRequest(ctx, cluster)
	if ago > stillRelated {
		request = ""
	}
	return request, err
}

// report tells the log and the telemetry how a step went. Each is told once, by the controller that took it.
func (e *Engine) report(ctx context.Context, claim Claim, s Subject, o Outcome, to Settlement, began time.Time, err error) {
	step := telemetry.Step{
		Kind: string(claim.Kind), From: string(s.Life.Phase), To: string(to.Phase), Stayed: s.now.Sub(s.Life.PhaseAt) +
			time.Since(began),
		Result: result(o, to.Phase != s.Life.Phase, err), Err: cmp.Or(err, o.Err), Began: began,
		Cluster: s.Event.Cluster, Node: s.Event.Node, Machine: s.Event.Machine, Op: s.Op, Fence: claim.Fence, Request: s.request,
	}
	if e.db.Definition(claim.Kind).Fails(to.Phase) {
		step.Cause = string(cmp.Or(o.cause, CauseOther))
	}
	e.tell.Step(ctx, step)
	level, words := slog.LevelInfo, "goes on to "+step.To
	switch step.Result {
	case telemetry.Fenced:
		level, words = slog.LevelWarn, "another controller has taken over, or it has changed or gone"
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
	for _, part := range []struct{ name, value string }{{"cluster", step.Cluster}, {"node", step.Node}, {"machine", step.Machine},
		{"op", step.Op}} {
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
		line = append(line, "why", o.Text)
	}
	e.log.Log(ctx, level, words, line...)
}

func result(o Outcome, moved bool, err error) string {
	switch {
	case errors.Is(err, ErrFenced):
		return telemetry.Fenced
	case err != nil:
		return telemetry.Lost
	case o.Err != nil:
		return telemetry.Retries
	case o.late:
		return telemetry.Late
	case moved:
		return telemetry.Advanced
	}
	return telemetry.Waits
}
