package nodelife

import (
	"context"
	"log/slog"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/life"
	"muster/internal/kinds/node"
)

func (w Handlers) Sweep(ctx context.Context, log *slog.Logger) error {
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
		log.Warn("a leftover node is removed", "node", ref.Node, "boot", ref.Boot)
		if err := driver.Remove(ctx, ref); life.Failure(err) != nil {
			log.Error("cannot remove a leftover", "node", ref.Node, "error", err)
		}
	}
	for _, cluster := range shared {
		if clusters[cluster] {
			continue
		}
		log.Warn("a leftover network is removed", "cluster", cluster)
		if err := w.Shared.RemoveShared(ctx, cluster); err != nil {
			log.Error("cannot remove a leftover", "cluster", cluster, "error", err)
		}
	}
	return nil
}
