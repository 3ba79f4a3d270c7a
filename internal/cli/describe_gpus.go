package cli

import (
	"cmp"
	"fmt"
	"strings"

	apiv1 "muster/api/v1"
)

// printAccelerators lists the GPUs and the InfiniBand ports that a cluster's nodes see.
func (a *app) printAccelerators(nodes []apiv1.Node) {
	gpus := newTable("NODE", "GPU", "ADDRESS", "DEVICE", "MEMORY", "CPUS", "DRIVER", "MODEL")
	ports := newTable("NODE", "PORT", "STATE", "RATE", "LAYER", "LID", "GUID", "PARTITIONS")
	for _, n := range nodes {
		for i, g := range n.Facts.GPUs {
			gpus.row(n.Name, fmt.Sprintf("gpu%d", i), g.Address, cmp.Or(g.Device, "none"), memoryText(int64(g.MemoryMiB)), g.CPUs,
				driverWords(g), cmp.Or(g.Model, g.PCI))
		}
		for _, p := range n.Facts.Ports {
			ports.row(n.Name, fmt.Sprintf("%s/%d", p.Device, p.Port), p.State+", "+p.Link, p.Rate, p.Layer, number(p.LID), p.GUID,
				strings.Join(p.PKeys, ","))
		}
	}
	gpus.printBelow(a.out)
	ports.printBelow(a.out)
}

func driverWords(g apiv1.GPUFacts) string {
	if g.Lacks != "" {
		return "the image lacks " + g.Lacks
	}
	return strings.TrimSpace(cmp.Or(g.Driver, "none") + " " + g.Version)
}
