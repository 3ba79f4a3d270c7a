package lifecycle

import (
	"context"
	"log/slog"
	"time"

	"muster/internal/admission"
	"muster/internal/environment/identity"
	"muster/internal/inventory"
	"muster/internal/store"
	"muster/internal/substrate"
)

// Inspector looks at a machine.
type Inspector interface {
	// Inspect returns the machine's facts, or why it is not fit to be used. It may be repeated.
	Inspect(ctx context.Context, m inventory.Machine) (inventory.Facts, error)
}

// World is what handlers act on.
type World struct {
	DB        *store.Store
	Substrate substrate.Substrate
	Commons   substrate.Commons
	Inspector Inspector
	Admission *admission.Admission
	Authority *identity.Authority
	Endpoints []string // where a node's agent finds the controllers
	Limits    Limits
}

// Limits are how long phases may last. They are generous: a busy host is slow, and to give up costs more than to wait.
type Limits struct {
	Attach     time.Duration // a node's network
	Boot       time.Duration // until its agent answers
	Join       time.Duration // until its services run and Slurm has it
	Test       time.Duration // its checks
	Forget     time.Duration // how long a released node may stand in Slurm's list
	KillGrace  time.Duration // for jobs that are ended at the drain's limit
	Inspection time.Duration // of a machine
	Quarantine time.Duration // then a machine is inspected again by itself
}

// DefaultLimits are those of nodes on this host.
func DefaultLimits() Limits {
	return Limits{
		Attach: time.Minute, Boot: 90 * time.Second, Join: 90 * time.Second, Test: time.Minute, Forget: 10 * time.Second,
		KillGrace: 20 * time.Second, Inspection: 2 * time.Minute, Quarantine: 30 * time.Second,
	}
}

// Sweep takes away what exists and nobody wants: remains of a controller that was fenced out or killed between two
// steps. It looks every interval until ctx ends. Nothing that is being made can fall to it, since a row is written before
// anything of it exists.
func (w World) Sweep(ctx context.Context, every time.Duration, log *slog.Logger) {
	for ctx.Err() == nil {
		if err := w.sweep(ctx, log); err != nil && ctx.Err() == nil {
			log.Error("cannot look for remains", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

func (w World) sweep(ctx context.Context, log *slog.Logger) error {
	refs, err := w.Substrate.List(ctx)
	if err != nil {
		return err
	}
	commons, err := w.Commons.ListCommons(ctx)
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
	for _, ref := range refs {
		if boot, wanted := boots[ref.Node]; wanted && ref.Boot >= boot {
			continue
		}
		log.Warn("remove a node that nobody wants", "node", ref.Node, "boot", ref.Boot)
		if err := w.Substrate.Remove(ctx, ref); err != nil {
			log.Error("cannot remove it", "node", ref.Node, "error", err)
		}
	}
	for _, cluster := range commons {
		if clusters[cluster] {
			continue
		}
		log.Warn("remove a network that nobody wants", "cluster", cluster)
		if err := w.Commons.RemoveCommons(ctx, cluster); err != nil {
			log.Error("cannot remove it", "cluster", cluster, "error", err)
		}
	}
	return nil
}
