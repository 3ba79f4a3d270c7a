package devices

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/internal/kit/clock"
)

// Guard looks at what the virtual functions of adapters that map partitions see now, and ends what they are not to see: the
// port's table is the subnet manager's, which may have put another tenant's key into a slot behind the driver's back. It may be
// called at any time and by several processes, and is to be called every few seconds.
//
// What it returns is what was found, by PCI address and in words: a guest that saw another partition than its own, though it does
// no longer, and one whose own is gone. An error says what could not be looked at, or not be ended; the rest was looked at all
// the same.
func (d *Driver) Guard(ctx context.Context) (found map[string]string, err error) {
	found = map[string]string{}
	names, err := d.Kernel.List("class/infiniband")
	if missing(err) {
		return found, nil
	}
	if err != nil {
		return found, fmt.Errorf("RDMA devices: %w", err)
	}
	physical := map[string]bool{}
	for _, name := range names {
		address, err := d.optional("class/infiniband/" + name + "/device")
		if err == nil && isAddress(address) {
			physical[address] = true
		}
	}
	var failed []error
	for _, address := range slices.Sorted(maps.Keys(physical)) {
		if err := d.guard(ctx, address, found); err != nil {
			failed = append(failed, fmt.Errorf("partitions of %s's virtual functions: %w", address, err))
		}
	}
	return found, errors.Join(failed...)
}

// Watch calls Guard at once and every so often until ctx ends. It tells what was found and the last error's text at each
// change; what was found is told for a while, since what has been ended would otherwise be gone before anybody asked.
func (d *Driver) Watch(ctx context.Context, every, keep time.Duration, tell func(found map[string]string, trouble string)) {
	type finding struct {
		words string
		until time.Time
	}
	kept, said, saidTrouble := map[string]finding{}, map[string]string{}, ""
	for {
		found, err := d.Guard(ctx)
		if ctx.Err() != nil {
			return
		}
		now, trouble := time.Now(), ""
		if err != nil {
			trouble = err.Error()
		}
		for address, words := range found {
			kept[address] = finding{words, now.Add(keep)}
		}
		maps.DeleteFunc(kept, func(_ string, f finding) bool { return now.After(f.until) })
		all := map[string]string{}
		for address, f := range kept {
			all[address] = f.words
		}
		if !maps.Equal(all, said) || trouble != saidTrouble {
			tell(maps.Clone(all), trouble)
			said, saidTrouble = all, trouble
		}
		if clock.Sleep(ctx, every) != nil {
			return
		}
	}
}

func (d *Driver) guard(ctx context.Context, physical string, found map[string]string) error {
	a, err := d.rdma(physical)
	if err != nil || a == nil {
		return err
	}
	release, err := d.family(ctx, physical)
	if err != nil {
		return err
	}
	defer release()
	vfs, err := d.virtual(physical)
	if err != nil {
		return err
	}
	tables := map[int]table{}
	for _, port := range a.ports {
		if tables[port], err = d.table(a, port); err != nil {
			return err
		}
	}
	var failed []error
	for number, address := range vfs {
		r, err := d.record(address)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if r == nil || r.Withheld {
			r = &record{PCI: address, Number: number}
		}
		words, err := d.watch(ctx, a, tables, *r)
		if len(words) > 0 {
			found[address] = strings.Join(words, "; ")
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// watch looks at one function and ends what it is not to see.
func (d *Driver) watch(ctx context.Context, a *adapter, tables map[int]table, r record) (words []string, err error) {
	keys, err := parseKeys(r.Keys)
	if err != nil {
		return nil, err
	}
	over := r.Returning || r.Lost != "" // no guest runs with it
	var failed []error
	for _, port := range a.ports {
		s := a.side(r.Number, port)
		key, err := d.key(s, keys)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		mapping, err := d.mapping(s)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		strange := tables[port].strange(mapping, key)
		slot, gone := tables[port].slot(key), false
		switch {
		case over || r.Guest == "":
			slot = none
		case key == 0:
			slot = tables[port].nowhere()
		case slot == none:
			// Its key comes back to the slot where it was, as long as the manager keeps to its habit.
			if gone = true; len(strange) == 0 {
				slot = mapping[0]
				break
			}
			slot = tables[port].nowhere()
		}
		// A guest that is not prepared yet sees nothing, and is not shown anything here: that is Prepare's to do.
		mapped := slices.ContainsFunc(mapping, func(text string) bool { return text != none })
		if r.Guest != "" && !over && mapped {
			if len(strange) > 0 {
				words = append(words, fmt.Sprintf("guest %s saw partition %v at %s, which is not its own", r.Guest, strange, s))
			}
			if gone {
				words = append(words, fmt.Sprintf("guest %s has no partition at %s any more: %s is not in the port's table",
					r.Guest, s, key))
			}
		}
		if !mapped && slot != none && !d.shown(r) {
			continue
		}
		if err := d.remap(ctx, s, slot); err != nil {
			failed = append(failed, fmt.Errorf("virtual function %d: %w", r.Number, err))
		}
	}
	return words, errors.Join(failed...)
}

// shown says whether a guest has the function already, so that its partition may come back to it.
func (d *Driver) shown(r record) bool {
	driver, err := d.optional(device(r.PCI, "driver"))
	return err == nil && driver == vfio
}
