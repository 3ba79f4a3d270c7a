package inspection

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/clock"
	"muster/internal/protocol"
)

// erase erases every disk of the machine and proves it; one receipt a disk, in their order. Disks are erased at the
// same time, but those of one NVMe subsystem one after the other, and so those with one serial number, which may be two
// paths to one disk.
func (m *machine) erase(ctx context.Context, disks []disk, p *progress) []protocol.Erased {
	var own []disk
	for _, d := range disks {
		if d.remote {
			m.logf("%s is on a storage network (%s): left alone", d.Name, d.Bus)
			continue
		}
		own = append(own, d)
	}
	receipts := make([]protocol.Erased, len(own))
	together := map[string][]int{}
	for i, d := range own {
		key := d.controller
		if d.Serial != "" && d.Bus != "nvme" {
			key = "serial number " + d.Serial
		}
		together[key] = append(together[key], i)
	}
	var erasing sync.WaitGroup
	for _, indexes := range together {
		erasing.Go(func() {
			for _, i := range indexes {
				e := &erasure{machine: m, disk: own[i], progress: p}
				receipts[i] = e.run(ctx, ladder())
			}
		})
	}
	erasing.Wait()
	return receipts
}

// erasure is the erasing of one disk.
type erasure struct {
	machine  *machine
	disk     disk
	progress *progress
}

// say tells how far a method is: "40 %", or "" when it has just begun.
func (e *erasure) say(method, far string) {
	e.progress.say(e.disk.Name, strings.TrimSpace("erasing "+e.disk.Name+": "+method+" "+far))
}

// run climbs down the ladder of methods until one is proved to have erased the disk.
func (e *erasure) run(ctx context.Context, methods []method) protocol.Erased {
	began := time.Now()
	r := protocol.Erased{Disk: e.disk.Name, Model: e.disk.Model, Serial: e.disk.Serial, Bytes: e.disk.bytes}
	err := e.climb(ctx, methods, &r)
	r.OK, r.Took = err == nil, time.Since(began)
	e.progress.say(e.disk.Name, "")
	if err != nil {
		r.Method, r.Verified, r.Error = "", "", oneLine(err)
		e.machine.logf("%s is NOT erased: %s", e.disk.Name, r.Error)
		return r
	}
	e.machine.logf("%s is erased: %s, %s, %.1f s", e.disk.Name, r.Method, r.Verified, r.Took.Seconds())
	return r
}

func (e *erasure) climb(ctx context.Context, methods []method, r *protocol.Erased) error {
	if e.disk.readOnly {
		return errors.New("the disk is read-only: it can't be erased")
	}
	e.say("asking what it offers", "")
	can := e.machine.abilities(ctx, e.disk)
	r.Tried = append(r.Tried, can.notes...)
	p, err := newProof(e.disk.bytes)
	if err != nil {
		return err
	}
	failed := 0
	for _, method := range methods {
		fits, why := method.offered(can)
		if why != "" {
			r.Tried = append(r.Tried, method.name+": "+why)
		}
		if !fits {
			continue
		}
		e.say(method.name, "")
		if err := e.prepare(ctx, p, method.zeroes); err != nil {
			return err // as long as markers can't be written, nothing can be proved by any method
		}
		verified, err := e.attempt(ctx, p, method)
		if err == nil {
			r.Method, r.Verified = method.name, verified
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e.machine.logf("%s: %s: %v", e.disk.Name, method.name, err)
		r.Tried = append(r.Tried, method.name+": "+oneLine(err))
		failed++
	}
	if failed == 0 {
		return errors.New("no method of erasing fits this disk")
	}
	return fmt.Errorf("none of %d methods erased it; the last: %s", failed, r.Tried[len(r.Tried)-1])
}

// oneLine is an error in words for a list: joined errors have a line each.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// prepare writes the markers, and, for methods that leave something else than zeros, records what was there.
func (e *erasure) prepare(ctx context.Context, p *proof, zeroes bool) error {
	return e.with(ctx, true, func(d device) error {
		if d.Size() != p.size {
			return fmt.Errorf("the disk had %d bytes and has %d now", p.size, d.Size())
		}
		if !zeroes && p.before == nil {
			if err := p.record(ctx, d); err != nil {
				return err
			}
		}
		return p.mark(d)
	})
}

// attempt lets one method work and reads back what it did.
func (e *erasure) attempt(ctx context.Context, p *proof, method method) (verified string, err error) {
	if err := method.do(ctx, e, func(far string) { e.say(method.name, far) }); err != nil {
		return "", err
	}
	e.say(method.name, "done, reading back")
	err = e.with(ctx, false, func(d device) error {
		verified, err = p.verify(ctx, d, method.zeroes)
		return err
	})
	return verified, err
}

// gone says that there is no such disk now.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV)
}

// with opens the disk, waiting a little for one that its own controller has just reset.
func (e *erasure) with(ctx context.Context, write bool, use func(device) error) error {
	const (
		patience = 10 * time.Second
		pause    = 500 * time.Millisecond
	)
	for began := time.Now(); ; {
		d, err := e.machine.open(e.disk, write)
		if err == nil {
			err = use(d)
			return errors.Join(err, unwrapPath(d.Close()))
		}
		if time.Since(began) > patience || !gone(err) {
			return err
		}
		if clock.Sleep(ctx, pause) != nil {
			return context.Cause(ctx)
		}
	}
}
