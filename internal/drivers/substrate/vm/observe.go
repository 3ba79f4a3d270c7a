package vm

import (
	"context"
	"fmt"
	"strings"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
)

// Observe looks at what is there. It changes nothing of guests, but starts libvirt where that has died.
func (d *Driver) Observe(ctx context.Context, r substrate.Ref) (substrate.Observation, error) {
	home, err := d.home(r)
	if err != nil {
		return substrate.Observation{}, err
	}
	unlock, err := onhost.Shared(ctx, d.lockPath("libvirt"))
	if err != nil {
		return substrate.Observation{}, err
	}
	defer unlock()
	collect()
	boots, err := onhost.Boots(home)
	if err == nil && len(boots) > 0 {
		var seen substrate.Observation
		if seen, err = d.look(ctx, d.bootAt(home, boots[len(boots)-1])); err == nil {
			return seen, nil
		}
	}
	if err != nil {
		err = fmt.Errorf("observe node %s: %w", r.Node, err)
	}
	return substrate.Observation{}, err
}

// look sees a boot that is present.
func (d *Driver) look(ctx context.Context, b boot) (substrate.Observation, error) {
	seen := substrate.Observation{Present: true, Boot: b.number}
	p, given, err := b.part()
	if err != nil {
		return seen, err
	}
	if given {
		seen.Allocation = &p.Allocation
	}
	r, complete := b.read()
	switch {
	case b.sleeps():
		seen.Detail = "it is suspended: its memory is on its host's disk"
	case !complete:
		seen.Detail = "its start was not finished" + lastWords(b)
	case !r.QEMU.Runs():
		seen.Detail = "its QEMU has ended" + lastWords(b)
		if d.cgroups.OutOfMemory(b.name) > 0 {
			seen.Detail = "its QEMU took more memory than it may have, and was killed" + lastWords(b)
		}
	default:
		v, err := d.connect(ctx)
		if err != nil {
			return seen, err
		}
		defer v.close()
		state, err := v.state(ctx, b.name)
		if err != nil {
			return seen, err
		}
		if seen.Running = state == running; seen.Running {
			seen.Limits = r.Limits
			if err := steer("/proc", p.Allocation.Devices, r.Besides); err != nil {
				d.config.Log.Warn("interrupts of a guest's devices are not where they should be", "guest", b.name, "why", err)
			}
		} else {
			seen.Detail = "it is " + state + lastWords(b)
		}
	}
	return seen, nil
}

// lastWords are what the guest said last, if it said anything.
func lastWords(b boot) string {
	line := strings.Map(func(c rune) rune {
		if c < ' ' {
			return -1
		}
		return c
	}, onhost.LastLine(b.path(consoleFile)))
	if line == "" {
		return ""
	}
	return "; last words: " + line
}

// List names every boot of every guest that is present.
func (d *Driver) List(context.Context) ([]substrate.Ref, error) {
	collect()
	return onhost.List(d.guests())
}
