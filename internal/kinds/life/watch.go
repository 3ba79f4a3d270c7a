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

func (s watchedSubstrate) Ensure(ctx context.Context, n substrate.Node) error {
	ended := s.tell.Call(ctx, s.name, "ensure")
	err := s.Substrate.Ensure(ctx, n)
	ended(Failure(err))
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
	ended(Failure(err))
	return err
}

func (i watchedInspector) Inspect(ctx context.Context, what substrate.Inspection) (substrate.Inspected, error) {
	ended := i.tell.Call(ctx, i.name, "inspect")
	seen, err := i.Inspector.Inspect(ctx, what)
	ended(Failure(err))
	return seen, err
}

func (i watchedInspector) EnsureOff(ctx context.Context, m inventory.Machine) (string, error) {
	ended := i.tell.Call(ctx, i.name, "rest")
	did, err := i.Inspector.EnsureOff(ctx, m)
	ended(Failure(err))
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
