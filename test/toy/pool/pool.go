// Package pool is a toy substrate: nodes that somebody else's cloud would run. It is here to show what a new substrate takes:
// this folder, and one line in the list of drivers. Nothing of the house knows it by name.
package pool

import (
	"context"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/fake"
	"muster/internal/inventory"
)

// Factory describes nodes that come from a pool.
func Factory() substrate.Factory {
	return substrate.Factory{
		Name: "pool",
		Doc:  "machines of a pool, which boot in half a minute and lose what they had",
		Caps: substrate.Capabilities{Kernel: true, OwnCPUs: true, Enrols: substrate.ByNumber, Lead: time.Minute,
			Turnaround: time.Minute},
		Open: func(_ context.Context, e substrate.Env) (substrate.Substrate, error) {
			return newDriver(e.Sockets), nil
		},
		Deadlines: substrate.Deadlines{
			Attach: time.Minute, Boot: time.Minute, Join: time.Minute, Test: time.Minute, Forget: 10 * time.Second,
			Silence: 30 * time.Second, MaxLostShare: 0.25, FailureWindow: time.Minute, Halt: time.Minute, KillGrace: time.Minute,
			Inspection: time.Minute, Quarantine: time.Minute, Rest: time.Minute,
		},
	}
}

// Driver keeps nodes in memory, and plays their agents.
type Driver struct {
	*fake.Substrate
	sockets string // where agents find the controllers
	started chan substrate.Node
}

var (
	_ substrate.Inspector = Driver{}
	_ substrate.Caller    = Driver{}
	_ substrate.Worker    = Driver{}
)

// New makes an empty pool whose nodes have no agents.
func New() Driver { return Driver{Substrate: fake.New(fake.Options{})} }

func newDriver(sockets string) Driver {
	d := Driver{sockets: sockets, started: make(chan substrate.Node)}
	d.Substrate = fake.New(fake.Options{Started: func(ctx context.Context, n substrate.Node) {
		select {
		case d.started <- n:
		case <-ctx.Done():
		}
	}})
	return d
}

// Ensure starts a node, whose cluster has what it shares on the controller's host.
func (d Driver) Ensure(ctx context.Context, n substrate.Node) error {
	if err := d.EnsureShared(ctx, n.Cluster, substrate.Network{Segment: 1}); err != nil {
		return err
	}
	return d.Substrate.Ensure(ctx, n)
}

// Inspect tells what all machines of the pool are.
func (Driver) Inspect(context.Context, substrate.Inspection) (substrate.Inspected, error) {
	return substrate.Inspected{Done: true, Facts: inventory.Facts{Arch: "amd64", CPUs: 2, MemoryMiB: 1024}}, nil
}

// EnsureOff has nothing to do: the pool looks after its machines.
func (Driver) EnsureOff(context.Context, inventory.Machine) (string, error) { return "", nil }

// Endpoints are the sockets of this host.
func (d Driver) Endpoints(context.Context) ([]string, error) {
	return []string{"unix://" + d.sockets}, nil
}

// Work plays the agents of nodes that start.
func (d Driver) Work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-d.started:
			go d.play(ctx, n)
		}
	}
}
