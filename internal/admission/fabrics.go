package admission

import (
	"context"
	"errors"
	"maps"
	"slices"

	"muster/internal/core"
	"muster/internal/inventory"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/words"
)

// Fabrics: a node's ports join its cluster's partitions in the transaction that places it. Machines whose ports cannot take
// another key are not there for it.

// connected leaves out machines to which no node can come for their ports' sake, and says why of each.
func connected(ctx context.Context, tx *core.Tx, machines []machine.Machine) ([]machine.Machine, []string, error) {
	unfit, err := fabrics.Unfit(ctx, tx, machines)
	if err != nil || len(unfit) == 0 {
		return machines, nil, err
	}
	rest := slices.DeleteFunc(slices.Clone(machines), func(m machine.Machine) bool { return unfit[m.ID] != "" })
	return rest, slices.Sorted(maps.Values(unfit)), nil
}

// disconnected adds to a refusal for want of machines what keeps some of them from being given.
func disconnected(refusal *Refusal, why []string) {
	if refusal == nil || refusal.Kind != NoCapacity || len(why) == 0 {
		return
	}
	d := &refusal.Diagnostics[len(refusal.Diagnostics)-1]
	d.Text += "; " + why[0]
	if len(why) > 1 {
		d.Text += ", and " + words.Count(len(why)-1, "other machine") + " like it"
	}
}

// join makes a node's ports members of its cluster's partitions. The error is a *Refusal where they cannot be.
func join(ctx context.Context, tx *core.Tx, node node.Node, m inventory.Machine, guest *host.Guest) error {
	var held []string
	if guest != nil {
		held = guest.Allocation.Devices
	}
	err := fabrics.Join(ctx, tx, node.ID, node.Cluster, m, held)
	var full *fabrics.TableFull
	var used *fabrics.KeysUsed
	if errors.As(err, &full) || errors.As(err, &used) {
		return refuse(NoCapacity, "no-capacity", "", err.Error(), "`muster fabric get` shows the partitions in use")
	}
	return err
}
