package vm

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/internal/drivers/substrate/onhost"
	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/inventory"
	"muster/internal/kit/clock"
)

// mendEvery is how often it is tried to take back devices that did not come back from their guests.
const mendEvery = time.Minute

// lines logs what is written.
type lines struct{ log *slog.Logger }

func (l lines) Write(text []byte) (int, error) {
	l.log.Info(strings.TrimSpace(string(text)))
	return len(text), nil
}

// divide makes the virtual functions that the operator asked for, before the host is inspected. One that cannot be divided is no
// reason not to serve.
func (h host) divide(ctx context.Context) {
	if !h.env.Host.Guests {
		return
	}
	for _, address := range slices.Sorted(maps.Keys(h.env.Host.Divide)) {
		if err := h.config.Devices.CreateVFs(ctx, address, h.env.Host.Divide[address]); err != nil {
			h.env.Log.Error("a device of this host has not the virtual functions that it was to have", "error", err)
		}
	}
}

// Work looks after the host's devices, and keeps what guests and their programs say from filling the disk.
func (h host) Work(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { h.mend(ctx) })
	all.Go(func() { h.guard(ctx) })
	all.Go(func() { h.KeepEnds(ctx) })
	all.Wait()
}

// KeepEnds keeps of what guests, QEMU and libvirt say the last megabytes, until ctx ends.
func (d *Driver) KeepEnds(ctx context.Context) {
	onhost.KeepEnds(ctx, filepath.Join(d.guests(), "*/*", consoleFile), filepath.Join(d.folder("log"), "libvirtd.log"),
		d.qemuLog("*"))
}

// mend tries again to take back what is lost until ctx ends, and tells each reason once.
func (h host) mend(ctx context.Context) {
	said := ""
	for clock.Sleep(ctx, mendEvery) == nil {
		text := ""
		if err := h.config.Devices.Mend(ctx); err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != "" && text != said {
			h.env.Log.Warn("devices of this host are still lost", "error", text)
		}
		if text != said && ctx.Err() == nil {
			if err := h.env.Notices.Inspect(ctx, h.env.Host.Machine); err != nil {
				h.env.Log.Error("cannot have this host inspected, whose lost devices have changed", "error", err)
				continue
			}
		}
		said = text
	}
}

// guard looks at what guests on this host see of InfiniBand partitions until ctx ends, and tells what they were not to see.
func (h host) guard(ctx context.Context) {
	const every, keep = 3 * time.Second, 30 * time.Second
	said := map[string]string{}
	h.config.Devices.Watch(ctx, every, keep, func(found map[string]string, trouble string) {
		if trouble != "" {
			h.env.Log.Error("what guests see of InfiniBand partitions cannot be looked at", "error", trouble)
		}
		for address, what := range found {
			if said[address] != what {
				h.env.Log.Error("a guest's InfiniBand partitions were not its own", "device", address, "what", what)
				h.env.Notices.Machine(ctx, h.env.Host.Machine, "virtual function "+address+": "+what)
			}
		}
		said = found
	})
}

// markLost writes beside each of a host's devices why it cannot be given to anybody, if it cannot.
func markLost(all []inventory.Device, driver *devices.Driver) error {
	list, err := driver.List()
	if err != nil {
		return err
	}
	for i := range all {
		for _, s := range list {
			if s.PCI == all[i].PCI && s.State == devices.Lost {
				all[i].Lost = s.Reason
			}
		}
	}
	return nil
}
