package life

import (
	"context"
	"errors"
	"fmt"

	"muster/internal/core/telemetry"
	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
)

// Operation names what a cluster's nodes are at: its ID and the generation of what is asked for.
func Operation(c cluster.Cluster) string { return fmt.Sprintf("%s/%d", c.ID, c.Generation) }

// Watched is the same, with drivers whose every call is counted and traced.
func (w Deps) Watched() Deps {
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

// Failure is an error that is to be counted as one.
func Failure(err error) error {
	if errors.Is(err, substrate.ErrUnderway) {
		return nil
	}
	return err
}

// told tells of a call to something, by the names of both, and of its failure.
func told[T any](ctx context.Context, tell *telemetry.Telemetry, of, call string, do func() (T, error)) (T, error) {
	ended := tell.Call(ctx, of, call)
	value, err := do()
	ended(Failure(err))
	return value, err
}

// done is told of a call that has nothing to say.
func done(ctx context.Context, tell *telemetry.Telemetry, of, call string, do func() error) error {
	_, err := told(ctx, tell, of, call, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

func (s watchedSubstrate) Ensure(ctx context.Context, n substrate.Node) error {
	return done(ctx, s.tell, s.name, "ensure", func() error { return s.Substrate.Ensure(ctx, n) })
}

func (s watchedSubstrate) Observe(ctx context.Context, r substrate.Ref) (substrate.Observation, error) {
	return told(ctx, s.tell, s.name, "observe", func() (substrate.Observation, error) { return s.Substrate.Observe(ctx, r) })
}

func (s watchedSubstrate) Remove(ctx context.Context, r substrate.Ref) error {
	return done(ctx, s.tell, s.name, "remove", func() error { return s.Substrate.Remove(ctx, r) })
}

func (i watchedInspector) Inspect(ctx context.Context, what substrate.Inspection) (substrate.Inspected, error) {
	return told(ctx, i.tell, i.name, "inspect", func() (substrate.Inspected, error) { return i.Inspector.Inspect(ctx, what) })
}

func (i watchedInspector) EnsureOff(ctx context.Context, m inventory.Machine) (string, error) {
	return told(ctx, i.tell, i.name, "rest", func() (string, error) { return i.Inspector.EnsureOff(ctx, m) })
}

func (c watchedShared) EnsureShared(ctx context.Context, cluster string, n substrate.Network) error {
	return done(ctx, c.tell, "shared", "ensure", func() error { return c.Shared.EnsureShared(ctx, cluster, n) })
}

func (c watchedShared) RemoveShared(ctx context.Context, cluster string) error {
	return done(ctx, c.tell, "shared", "remove", func() error { return c.Shared.RemoveShared(ctx, cluster) })
}
