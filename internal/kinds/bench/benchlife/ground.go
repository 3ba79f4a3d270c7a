package benchlife

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
)

// ground is what Muster knows of a cluster's nodes, and what they cannot say of themselves.
type ground struct {
	nodes    map[string]node.Node       // by name
	machines map[string]machine.Machine // theirs and their hosts, by ID
	beside   map[string]int             // other nodes on the host of each, by name
}

func groundOf(ctx context.Context, tx *core.Tx, cluster string) (g ground, err error) {
	nodes, err := node.Of(ctx, tx, cluster)
	if err != nil {
		return g, err
	}
	g.nodes = map[string]node.Node{}
	for _, n := range nodes {
		g.nodes[n.Name] = n
	}
	if g.machines, err = machine.Under(ctx, tx, cluster); err == nil {
		g.beside, err = bench.Beside(ctx, tx, cluster)
	}
	return g, err
}

// of is what is known of a node, by the keys of a look.
func (g ground) of(name string) map[string]string {
	n, known := g.nodes[name]
	if !known {
		return nil
	}
	said := map[string]string{"image": n.Image, "class": n.Class, "platform": "container",
		bench.BesideKey: strconv.Itoa(g.beside[name])}
	on := g.machines[n.MachineID]
	switch {
	case n.IsGuest():
		said["platform"], on = "virtual machine", g.machines[n.HostID]
		said["host-cpu"] = on.Facts.CPUModel
	case n.Whole:
		said["platform"] = "bare metal"
	}
	if n.LeafNumber > 0 {
		said["leaf"] = strconv.Itoa(n.LeafNumber)
	}
	said["host-firmware"], said["host-memory"] = on.Facts.System.Firmware, modules(on.Facts.DIMMs)
	maps.DeleteFunc(said, func(_, value string) bool { return value == "" })
	return said
}

// modules are those of a machine's memory in words, alike ones together.
func modules(all []inventory.DIMM) string {
	count := map[string]int{}
	for _, m := range all {
		count[strings.TrimSuffix(fmt.Sprintf("%d MiB at %s", m.SizeMiB, m.Speed), " at ")]++
	}
	var texts []string
	for _, text := range slices.Sorted(maps.Keys(count)) {
		texts = append(texts, fmt.Sprintf("%d of %s", count[text], text))
	}
	return strings.Join(texts, ", ")
}
