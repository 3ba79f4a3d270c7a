package vm

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

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
func (g guests) divide(ctx context.Context) {
	if !g.env.Host.Guests {
		return
	}
	for _, address := range slices.Sorted(maps.Keys(g.env.Host.Divide)) {
		if err := g.devices.CreateVFs(ctx, address, g.env.Host.Divide[address]); err != nil {
			g.env.Log.Error("a device of this host has not the virtual functions that it was to have", "error", err)
		}
	}
}

// Work looks after the host's devices.
func (g guests) Work(ctx context.Context) {
	if g.devices == nil {
		return
	}
	mended := make(chan struct{})
	go func() {
		defer close(mended)
		g.mend(ctx)
	}()
	g.guard(ctx)
	<-mended
}

// mend tries again to take back what is lost until ctx ends, and tells each reason once.
func (g guests) mend(ctx context.Context) {
	said := ""
	for clock.Sleep(ctx, mendEvery) == nil {
		text := ""
		if err := g.devices.Mend(ctx); err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != "" && text != said {
			g.env.Log.Warn("devices of this host are still lost", "error", text)
		}
		if text != said && ctx.Err() == nil {
			if err := g.env.Notices.Inspect(ctx, g.env.Host.Machine); err != nil {
				g.env.Log.Error("cannot have this host inspected, whose lost devices have changed", "error", err)
				continue
			}
		}
		said = text
	}
}

// guard looks at what guests on this host see of InfiniBand partitions until ctx ends, and tells what they were not to see.
func (g guests) guard(ctx context.Context) {
	const every, keep = 3 * time.Second, 30 * time.Second
	said := map[string]string{}
	g.devices.Watch(ctx, every, keep, func(found map[string]string, trouble string) {
		if trouble != "" {
			g.env.Log.Error("what guests see of InfiniBand partitions cannot be looked at", "error", trouble)
		}
		for address, what := range found {
			if said[address] != what {
				g.env.Log.Error("a guest's InfiniBand partitions were not its own", "device", address, "what", what)
				g.env.Notices.Machine(ctx, g.env.Host.Machine, "virtual function "+address+": "+what)
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
