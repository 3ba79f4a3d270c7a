package cli

import (
	"cmp"
	"fmt"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/kit/words"
)

// printAccelerators lists the GPUs and the InfiniBand ports that a cluster's nodes see.
func (a *app) printAccelerators(nodes []apiv1.Node) {
	gpus := newTable("NODE", "GPU", "ADDRESS", "DEVICE", "MEMORY", "CPUS", "DRIVER", "MODEL")
	ports := newTable("NODE", "PORT", "STATE", "RATE", "LAYER", "LID", "GUID", "PARTITIONS")
	for _, n := range nodes {
		for i, g := range n.Facts.GPUs {
			memory := ""
			if g.MemoryMiB > 0 {
				memory = words.Size(int64(g.MemoryMiB) << 20)
			}
			gpus.row(n.Name, fmt.Sprintf("gpu%d", i), g.Address, cmp.Or(g.Device, "none"), memory, g.CPUs, driverWords(g),
				cmp.Or(g.Model, g.PCI))
		}
		for _, p := range n.Facts.Ports {
			lid := ""
			if p.LID > 0 {
				lid = fmt.Sprint(p.LID)
			}
			ports.row(n.Name, fmt.Sprintf("%s/%d", p.Device, p.Port), p.State+", "+p.Link, p.Rate, p.Layer, lid, p.GUID,
				strings.Join(p.PKeys, ","))
		}
	}
	for _, t := range []*table{gpus, ports} {
		if len(t.rows) > 0 {
			a.out.gap()
			t.print(a.out)
		}
	}
}

func driverWords(g apiv1.GPUFacts) string {
	if g.Lacks != "" {
		return "the image lacks " + g.Lacks
	}
	return strings.TrimSpace(cmp.Or(g.Driver, "none") + " " + g.Version)
}
