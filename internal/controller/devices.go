package controller

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/inventory"
	"muster/internal/store"
)

// mendEvery is how often it is tried to take back devices that did not come back from their guests.
const mendEvery = time.Minute

// openDevices is what moves this host's devices between it and its guests. Its records lie beside the guests.
func (k *controller) openDevices() (*devices.Driver, error) {
	return devices.New(devices.Options{
		Kernel: devices.HostKernel{}, Links: devices.HostLinks{}, Tools: devices.HostTools{},
		Eraser: devices.HostEraser{Tools: devices.HostTools{}, Console: lines{k.Log}}, Dir: filepath.Join(k.dir.guests(), "devices"),
	})
}

// lines logs what is written.
type lines struct{ log *slog.Logger }

func (l lines) Write(text []byte) (int, error) {
	l.log.Info(strings.TrimSpace(string(text)))
	return len(text), nil
}

// divideDevices makes the virtual functions that the operator asked for. One that cannot be divided is no reason not to
// serve.
func (k *controller) divideDevices(ctx context.Context) {
	for _, address := range slices.Sorted(maps.Keys(k.Divide)) {
		if err := k.devices.CreateVFs(ctx, address, k.Divide[address]); err != nil {
			k.Log.Error("a device of this host has not the virtual functions that it was to have", "error", err)
		}
	}
}

// mendDevices tries again to take back what is lost until ctx ends, and tells each reason once.
func (k *controller) mendDevices(ctx context.Context) error {
	tick := time.NewTicker(mendEvery)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		text := ""
		if err := k.devices.Mend(ctx); err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != "" && text != said {
			k.Log.Warn("devices of this host are still lost", "error", text)
		}
		if text != said && ctx.Err() == nil {
			if err := k.lookAgain(ctx); err != nil {
				k.Log.Error("cannot have this host inspected, whose lost devices have changed", "error", err)
				continue
			}
		}
		said = text
	}
}

// guardDevices looks at what guests on this host see of InfiniBand partitions until ctx ends, and tells what they were not to see.
func (k *controller) guardDevices(ctx context.Context) error {
	const every, keep = 3 * time.Second, 30 * time.Second
	said := map[string]string{}
	k.devices.Watch(ctx, every, keep, func(found map[string]string, trouble string) {
		if trouble != "" {
			k.Log.Error("what guests see of InfiniBand partitions cannot be looked at", "error", trouble)
		}
		for address, what := range found {
			if said[address] != what {
				k.Log.Error("a guest's InfiniBand partitions were not its own", "device", address, "what", what)
				k.tellOfHost(ctx, "virtual function "+address+": "+what)
			}
		}
		said = found
	})
	return nil
}

// tellOfHost logs an alarm about this host.
func (k *controller) tellOfHost(ctx context.Context, text string) {
	host, err := os.Hostname()
	if err == nil {
		err = k.db.Update(ctx, func(tx *store.Tx) error {
			tx.Log(store.Event{Type: "machine.warning", Machine: hypervisorName(host), Text: text})
			return nil
		})
	}
	if err != nil && ctx.Err() == nil {
		k.Log.Error("an alarm could not be written down", "alarm", text, "error", err)
	}
}

// lookAgain has this host inspected: what of it is lost is not what its facts say.
func (k *controller) lookAgain(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	return k.db.Update(ctx, func(tx *store.Tx) error {
		m, err := tx.Machine(ctx, hypervisorName(host))
		if errors.Is(err, store.ErrNotFound) { // it holds no guests any more
			return nil
		}
		if err != nil {
			return err
		}
		return tx.AskInspection(ctx, m.ID)
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
