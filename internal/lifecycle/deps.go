// Package lifecycle makes intent true: its handlers move clusters, nodes and machines from phase to phase, one table of
// phase → handler for each kind (cluster.go, node.go, machine.go).
//
// What enters: intent and observations, as rows. What leaves: calls of the substrate, new phases, and an event for
// every change. A handler is idempotent, does one step and returns; it may be run again at any time, after any crash, by
// any replica. Two controllers never work on one row: each claims it, under a lease, with a fence that every commit
// checks.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/drivers/power"
	"muster/internal/drivers/substrate"
	"muster/internal/environment/identity"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/telemetry"
)

// Provider is what carries nodes on machines of one substrate.
type Provider struct {
	Caps      substrate.Capabilities
	Substrate substrate.Substrate
	Inspector substrate.Inspector
	Mover     substrate.Mover   // nil: nodes stay where they are
	Sleeper   substrate.Sleeper // nil: none of its nodes can sleep
	Keeper    substrate.Keeper  // makes its machines hypervisors; nil: they are none
	Endpoints []string          // where agents find the controllers; empty: at the controller's address on the machine's network
	// Limits are the deadlines, and Emulated those of guests whose host is a machine of its own and can only emulate them.
	Limits, Emulated substrate.Deadlines
}

// NewProvider is a substrate that was opened, with its deadlines as the site has them.
func NewProvider(f substrate.Factory, opened substrate.Substrate, site func(substrate.Factory, substrate.Deadlines) substrate.Deadlines) (Provider, error) {
	p := Provider{Caps: f.Caps, Substrate: opened, Limits: site(f, f.Deadlines), Emulated: site(f, f.Emulated)}
	p.Inspector, _ = opened.(substrate.Inspector)
	p.Mover, _ = opened.(substrate.Mover)
	p.Sleeper, _ = opened.(substrate.Sleeper)
	p.Keeper, _ = opened.(substrate.Keeper)
	if c, calls := opened.(substrate.Caller); calls {
		p.Endpoints = c.Endpoints()
	}
	if e, may := opened.(substrate.Emulator); may && e.Emulates() {
		p.Limits = p.Emulated
	}
	switch {
	case p.Inspector == nil:
		return p, fmt.Errorf("substrate %s looks after no machines", f.Name)
	case f.Caps.Moves && p.Mover == nil:
		return p, fmt.Errorf("substrate %s says that nodes move, and moves none", f.Name)
	case f.Caps.Sleeps && p.Sleeper == nil:
		return p, fmt.Errorf("substrate %s says that nodes sleep, and puts none to sleep", f.Name)
	}
	return p, nil
}

// Deps is what handlers act on.
type Deps struct {
	DB        *core.Store
	Providers map[string]Provider // by the machines' substrate
	Shared    substrate.Shared
	Snapshots substrate.Snapshots
	Admission *admission.Admission
	Authority *identity.Authority
	// Acceptance is how nodes are tested before they are handed over.
	Acceptance inventory.Acceptance
	Telemetry  *telemetry.Telemetry // nil: nobody looks on
	Power      power.Registry       // what the ways to switch machines can do
	Fabrics    Fabrics              // nil: none is looked after here
	Pace       FabricPace           // of fabrics; zero values are the usual ones
}

// New makes the engine of one controller; owner names the controller among its replicas.
func New(owner string, w Deps, log *slog.Logger) *core.Engine {
	w = w.watched()
	tables := []core.Table{w.clusters(), w.nodes(), w.machines(), w.snapshots(), w.tasks()}
	if w.Fabrics != nil {
		tables = append(tables, w.fabrics())
	}
	return core.NewEngine(w.DB, owner, tables, w.Telemetry, log)
}

// Sweep takes away what exists and nobody wants: remains of a controller that was fenced out or killed between two steps,
// and alarms that are over. It looks every interval until ctx ends. Nothing that is being made can fall to it, since a row
// is written before anything of it exists.
func (w Deps) Sweep(ctx context.Context, every time.Duration, log *slog.Logger) {
	for ctx.Err() == nil {
		if err := errors.Join(w.sweep(ctx, log), w.sweepSnapshots(ctx, log)); err != nil && ctx.Err() == nil {
			log.Error("cannot look for remains", "error", err)
		}
		if err := w.clearAlarms(ctx); err != nil && ctx.Err() == nil {
			log.Error("cannot look whether alarms are over", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

func (w Deps) sweep(ctx context.Context, log *slog.Logger) error {
	remains := map[substrate.Ref]substrate.Substrate{}
	for _, provider := range w.Providers {
		refs, err := provider.Substrate.List(ctx)
		if err != nil {
			return err
		}
		for _, ref := range refs {
			remains[ref] = provider.Substrate
		}
	}
	shared, err := w.Shared.ListShared(ctx)
	if err != nil {
		return err
	}
	boots, clusters := map[string]int64{}, map[string]bool{}
	err = w.DB.View(ctx, func(tx *core.Tx) error { // after the lists: whatever is listed had its row before
		nodes, err := node.List(ctx, tx)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			boots[n.ID] = n.Boot
		}
		living, err := cluster.List(ctx, tx, "")
		for _, c := range living {
			clusters[c.ID] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	for ref, driver := range remains {
		if boot, wanted := boots[ref.Node]; wanted && ref.Boot >= boot {
			continue
		}
		log.Warn("remove a node that nobody wants", "node", ref.Node, "boot", ref.Boot)
		if err := driver.Remove(ctx, ref); failure(err) != nil {
			log.Error("cannot remove it", "node", ref.Node, "error", err)
		}
	}
	for _, cluster := range shared {
		if clusters[cluster] {
			continue
		}
		log.Warn("remove a network that nobody wants", "cluster", cluster)
		if err := w.Shared.RemoveShared(ctx, cluster); err != nil {
			log.Error("cannot remove it", "cluster", cluster, "error", err)
		}
	}
	return nil
}
