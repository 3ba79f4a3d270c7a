// Package pool is a toy substrate: nodes that somebody else's cloud would run. It is here to show what a new substrate takes:
// this folder, and one line in the list of drivers. Nothing of the house knows it by name.
package pool

import (
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/fake"
)

// Factory describes nodes that come from a pool.
func Factory() substrate.Factory {
	return substrate.Factory{
		Name: "pool",
		Doc:  "machines of a pool, which boot in half a minute and lose what they had",
		Caps: substrate.Capabilities{Kernel: true, OwnCPUs: true, Enrols: substrate.ByNumber, Lead: time.Minute, Turnaround: time.Minute},
		Deadlines: substrate.Deadlines{
			Attach: time.Minute, Boot: time.Minute, Join: time.Minute, Test: time.Minute, Forget: 10 * time.Second,
			Silence: 30 * time.Second, Together: 0.25, Calm: time.Minute, Halt: time.Minute, KillGrace: time.Minute,
			Inspection: time.Minute, Quarantine: time.Minute, Rest: time.Minute,
		},
	}
}

// Driver keeps nodes in memory.
type Driver struct{ *fake.Substrate }

// New makes an empty pool.
func New() Driver { return Driver{fake.New(fake.Options{})} }
