package local

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/inventory"
	"muster/internal/inventory/hardware"
	"muster/internal/protocol"
)

// host is the driver as a site opens it, with what it says of this host.
type host struct{ *Driver }

var (
	_ substrate.Inspector = host{}
	_ substrate.Networks  = host{}
	_ substrate.Caller    = host{}
	_ substrate.Worker    = host{}
)

func openDriver(ctx context.Context, e substrate.Env) (substrate.Substrate, error) {
	// First processes of nodes are orphans of the runc that started them; as a subreaper this process learns how they end.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a subreaper: %w", err)
	}
	driver, err := New(Config{
		Dir: e.Dir, Binary: e.Binary, Sockets: e.Sockets, Grace: time.Second, Log: e.Log,
		Home: e.Site.HomeBytes, Layers: e.Site.Layers, Reserve: e.Site.Reserve, Opened: Opened(e.Site.Nodes),
		Images: func(digest string) (string, error) {
			image, err := e.Images.Files(digest)
			return image.Root, err
		},
	})
	if err != nil {
		return nil, err
	}
	return host{driver}, driver.goOn(ctx)
}

// Work keeps volumes from the reserve of the disk, nodes from numbers that others need, and what nodes say from filling the
// disk.
func (h host) Work(ctx context.Context) {
	if err := widen(fewNumbers()); err != nil {
		h.config.Log.Warn("one node may take all that this host has of something", "error", err)
	}
	var all sync.WaitGroup
	all.Go(func() { h.GuardShares(ctx) })
	all.Go(func() {
		boot := filepath.Join(h.config.Dir, "nodes/*/*")
		onhost.KeepEnds(ctx, filepath.Join(boot, "console/log"), filepath.Join(boot, "console.log")) // from before an upgrade
	})
	all.Go(func() { h.GuardDisk(ctx) })
	all.Wait()
}

// Room is how many bytes volumes may still take, below 0 if they have taken from the reserve, and why no more files fit; "": they
// do.
func (h host) Room(context.Context) (left int64, full string, err error) {
	disk, err := h.Disk()
	if err == nil && disk.Short() {
		full = fmt.Sprintf("the controller's disk is full: %d MiB are free, of which %d are promised to what is being "+
			"written, and %d stay free",
			disk.Free>>20, disk.Promised>>20, disk.Reserve>>20)
	}
	return disk.Left(), full, err
}

// Endpoints are the sockets, which nodes see.
func (host) Endpoints(context.Context) ([]string, error) {
	return []string{"unix://" + protocol.SocketDir}, nil
}

// Inspect finds what a part of this host is.
func (host) Inspect(_ context.Context, in substrate.Inspection) (substrate.Inspected, error) {
	facts, err := hardware.Host()
	if err != nil {
		return substrate.Inspected{Stuck: "inspection: " + err.Error()}, nil
	}
	return substrate.Inspected{Done: true, Facts: part(facts, in.Machine.Facts), Checks: within(facts, in.Machine.Facts)}, nil
}

// within checks that a host has what an enrolment asked for.
func within(host, asked inventory.Facts) (failed []protocol.Check) {
	for _, one := range []struct {
		name        string
		asked, have int
		unit        string
	}{{"cpus", asked.CPUs, host.CPUs, ""}, {"memory", asked.MemoryMiB, host.MemoryMiB, " MiB"}} {
		if one.asked > one.have {
			failed = append(failed, protocol.Check{Name: one.name, Text: fmt.Sprintf(
				"%d%s asked for, and this host has %d%s; remove the machine, and add it with no more", one.asked, one.unit,
				one.have, one.unit)})
		}
	}
	return failed
}

// defaultMemory is what a local machine has if its enrolment did not say: enough for a small MPI job, little enough for
// several machines on one host.
const defaultMemory = 4096 // MiB

// part is a part of a host as its enrolment asked for it. No core and no device is its own.
func part(host, asked inventory.Facts) inventory.Facts {
	facts := host
	facts.Layout, facts.Devices = nil, nil
	facts.MemoryMiB = min(defaultMemory, host.MemoryMiB)
	if asked.CPUs > 0 {
		facts.CPUs = asked.CPUs
	}
	if asked.MemoryMiB > 0 {
		facts.MemoryMiB = asked.MemoryMiB
	}
	return facts
}

// EnsureOff has nothing to do: a part of this host without a node is nothing.
func (host) EnsureOff(context.Context, inventory.Machine) (string, error) { return "", nil }
