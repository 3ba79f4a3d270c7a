package local

import (
	"time"

	"muster/internal/drivers/substrate"
)

// Factory describes nodes in namespaces.
func Factory() substrate.Factory {
	return substrate.Factory{
		Name:    "local",
		ByAgent: true,
		Open:    openDriver,
		Doc:     "Linux namespaces on the controller's host",
		Caps:    substrate.Capabilities{OnHost: true, KeepsHead: true, Enrols: substrate.ByNumber, Turnaround: 10 * time.Second},
		Deadlines: substrate.Deadlines{
			Attach: time.Minute, Boot: 90 * time.Second, Join: 90 * time.Second, Test: 90 * time.Second, Forget: 10 * time.Second,
			Silence: 30 * time.Second, MaxLostShare: 0.25, FailureWindow: time.Minute,
			Halt: 30 * time.Second, KillGrace: 20 * time.Second, Inspection: 2 * time.Minute, Quarantine: 30 * time.Second,
			Rest: time.Hour,
		},
	}
}
