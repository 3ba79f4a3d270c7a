package metal

import (
	"context"
	"time"

	"muster/internal/drivers/substrate"
)

// switchAgain is how long a machine may look off after it was switched on.
const switchAgain = 15 * time.Second

// Factory describes nodes that are whole machines. Their firmware may think for minutes before it asks for anything.
func Factory() substrate.Factory {
	return substrate.Factory{
		Name: "metal",
		Open: func(_ context.Context, e substrate.Env) (substrate.Substrate, error) {
			return New(Config{Ledger: e.Boots, Power: e.Power, Again: switchAgain, Place: e.Place, Images: e.Images,
				Keys: e.Keys}), nil
		},
		Doc: "whole machines, which boot from their network",
		Caps: substrate.Capabilities{
			Kernel: true, OwnCPUs: true, WholeMachine: true, Power: true, Enrols: substrate.ByList,
			Lead: 10 * time.Minute, Turnaround: 10 * time.Minute,
		},
		Deadlines: substrate.Deadlines{
			Attach: time.Minute, Boot: 8 * time.Minute, Join: 3 * time.Minute, Test: 3 * time.Minute, Forget: 10 * time.Second,
			Silence: 30 * time.Second, MaxLostShare: 0.25, FailureWindow: time.Minute,
			Halt: 30 * time.Second, KillGrace: 20 * time.Second, Inspection: 8 * time.Minute, Quarantine: time.Minute,
			Rest: time.Minute,
			Idle: 10 * time.Minute,
		},
	}
}
