package metal

import (
	"time"

	"muster/internal/substrate"
)

// Factory describes nodes that are whole machines. Their firmware may think for minutes before it asks for anything.
func Factory() substrate.Factory {
	return substrate.Factory{
		Name: "metal",
		Doc:  "whole machines, which boot from their network",
		Caps: substrate.Capabilities{
			Kernel: true, OwnCPUs: true, WholeMachine: true, Power: true, Enrols: substrate.ByList,
			Lead: 10 * time.Minute, Turnaround: 10 * time.Minute,
		},
	}
}
