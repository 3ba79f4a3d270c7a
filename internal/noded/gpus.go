package noded

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/internal/inventory/hardware"
	"muster/internal/noded/accelerators"
	"muster/internal/protocol"
)

const (
	gpusCheck = "gpus"
	gpusEvery = time.Minute
	gpusLimit = 30 * time.Second // a driver that was not asked for long wakes its GPUs first, one after the other
)

// tree is where the kernel tells of the node's hardware.
func (n *node) tree() hardware.Tree { return hardware.Tree(n.deps.disk.root) }

// gpus are those that the node sees. A node in namespaces sees its host's, and has those only that it is said to have.
func (n *node) gpus(self protocol.Peer) []protocol.GPUFacts {
	if !n.boot.OwnKernel() && len(self.GPUs) == 0 {
		return nil
	}
	found := accelerators.GPUs(n.tree())
	accelerators.Name(found, self.GPUs)
	return found
}

// accelerators adds them, and the ports of InfiniBand adapters, to the node's facts.
func (n *node) accelerators(f protocol.NodeFacts, self protocol.Peer) protocol.NodeFacts {
	f.GPUs = n.gpus(self)
	if n.boot.OwnKernel() {
		f.Ports = accelerators.Ports(n.tree())
	}
	return f
}

// probeGPUs sees whether all GPUs that the node is to have are there and answer.
func (n *node) probeGPUs(self protocol.Peer) func(context.Context) error {
	return func(ctx context.Context) error {
		found := n.gpus(self)
		if err := accelerators.Missing(found, self.GPUs); err != nil {
			return err
		}
		ofNVIDIA := func(g protocol.GPUFacts) bool { return g.Driver == "nvidia" }
		if !slices.ContainsFunc(found, ofNVIDIA) || !n.deps.disk.exists("/usr/bin/nvidia-smi") {
			return nil
		}
		out, failed := n.deps.processes.Run(ctx, accelerators.Query()...)
		memory, err := accelerators.ParseMemory(string(out))
		if err = cmp.Or(err, failed); err != nil {
			return err
		}
		n.reporter.setMemory(memory)
		return accelerators.Silent(found, memory)
	}
}

// setMemory adds to the facts how much memory GPUs have, by their PCI addresses.
func (r *reporter) setMemory(mib map[string]int) {
	r.edit(func(p *protocol.Report) urgency {
		gpus, changed := slices.Clone(p.Facts.GPUs), nothing // a report that is on its way keeps its own
		for i, g := range gpus {
			if now := mib[g.PCI]; now > 0 && now != g.MemoryMiB {
				gpus[i].MemoryMiB, changed = now, atOnce
			}
		}
		p.Facts.GPUs = gpus
		return changed
	})
}

// gpusFile lists every GPU of the cluster, for people and for `muster gpus`.
const gpusFile = "/etc/muster/gpus"

// gpuList renders it. CPUs are those of the GPU's node that are nearest to it, "-" where none are.
func gpuList(peers []protocol.Peer) string {
	var b strings.Builder
	b.WriteString("# Written by muster; changes are overwritten.\n# node gpu address cpus model\n")
	for _, p := range peers {
		for i, g := range p.GPUs {
			fmt.Fprintf(&b, "%s %d %s %s %s\n", p.Name, i, g.Address, cmp.Or(g.CPUs, "-"), cmp.Or(g.Model, "-"))
		}
	}
	return b.String()
}
