package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"muster/internal/admission"
	"muster/internal/agent/protocol"
	"muster/internal/drivers/power"
	"muster/internal/drivers/substrate"
	"muster/internal/environment/identity"
	"muster/internal/inventory"
	"muster/internal/store"
	"muster/internal/telemetry"
)

// Inspector looks after machines of one substrate, apart from the nodes on them.
type Inspector interface {
	// Inspect takes an inspection a step further; it is called again until it is done.
	Inspect(ctx context.Context, i Inspection) (Inspected, error)
	// Rest sees to it that a machine that nobody uses is at rest, which for a whole machine means off. It says what it
	// had to do, "" if nothing.
	Rest(ctx context.Context, m inventory.Machine) (did string, err error)
}

// Inspection is one attempt to look at a machine.
type Inspection struct {
	Machine inventory.Machine
	Number  int64 // a later attempt has a higher one
	Erase   bool  // the disks first
}

// Inspected is how far an inspection is.
type Inspected struct {
	Done   bool
	Doing  string // while it is not done
	Stuck  string // why it cannot go on by itself; "" if it can
	Facts  inventory.Facts
	Checks []protocol.Check  // of its health
	Erased []protocol.Erased // one a disk
	Unread string            // why the users of its BMC could not be read; "": they could, or there is nobody to ask
	Key    string            // fingerprint of the key that the machine got with this boot, and that this was delivered with; "" of a machine of this host
}

// Provider is what carries nodes on machines of one substrate.
type Provider struct {
	Caps      substrate.Capabilities
	Substrate substrate.Substrate
	Mover     substrate.Mover   // nil: nodes stay where they are
	Sleeper   substrate.Sleeper // nil: none of its nodes can sleep
	Inspector Inspector
	Keeper    Keeper   // makes its machines hypervisors; nil: they are none
	Endpoints []string // where agents find the controllers; empty: at the controller's address on the machine's network
	Limits    substrate.Deadlines
	// Of guests whose hosts are machines of their own: what moves them, nil: they stay there; what puts them to sleep, nil:
	// they cannot; and their limits where their host can only emulate them.
	RemoteMover   substrate.Mover
	RemoteSleeper substrate.Sleeper
	Emulated      substrate.Deadlines
}

// Deps is what handlers act on.
type Deps struct {
	DB        *store.Store
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
	err = w.DB.View(ctx, func(tx *store.Tx) error { // after the lists: whatever is listed had its row before
		nodes, err := tx.EveryNode(ctx)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			boots[n.ID] = n.Boot
		}
		living, err := tx.Clusters(ctx, "")
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
