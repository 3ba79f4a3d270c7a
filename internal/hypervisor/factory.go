package hypervisor

import (
	"time"

	"muster/internal/substrate"
)

// Factory describes nodes that are virtual machines, on this host or on another one.
func Factory() substrate.Factory {
	return substrate.Factory{
		Name: "vm",
		Doc:  "virtual machines: parts of hypervisors, with CPUs and memory of their own",
		Caps: substrate.Capabilities{Kernel: true, OwnCPUs: true, Guest: true, Sleeps: true, Moves: true, Turnaround: 10 * time.Minute},
	}
}
