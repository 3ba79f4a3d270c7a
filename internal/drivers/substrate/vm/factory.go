package vm

import (
	"time"

	"muster/internal/drivers/substrate"
)

// Factory describes nodes that are virtual machines, on this host or on another one. They boot a kernel as whole machines do,
// without firmware that thinks. Where their host can only emulate them they are many times slower, and may say nothing for a
// while because they compute.
func Factory() substrate.Factory {
	usual := substrate.Deadlines{
		Attach: time.Minute, Boot: 3 * time.Minute, Join: 3 * time.Minute, Test: 3 * time.Minute, Forget: 10 * time.Second,
		Silence: 30 * time.Second, MaxLostShare: 0.25, FailureWindow: time.Minute,
		Halt: 30 * time.Second, KillGrace: 20 * time.Second, Move: 30 * time.Minute,
		Inspection: 2 * time.Minute, Quarantine: 30 * time.Second, Rest: time.Minute,
	}
	emulated := usual
	emulated.Boot, emulated.Join, emulated.Test, emulated.Silence = 10*time.Minute, 10*time.Minute, 10*time.Minute, 3*time.Minute
	return substrate.Factory{
		Name:    "vm",
		Folder:  "guests",
		ByAgent: true,
		Open:    openDriver,
		Doc:     "virtual machines: parts of hypervisors, with CPUs and memory of their own",
		Caps: substrate.Capabilities{Kernel: true, OwnCPUs: true, Guest: true, Sleeps: true, Moves: true,
			Turnaround: 10 * time.Minute},
		Deadlines: usual,
		Emulated:  emulated,
	}
}
