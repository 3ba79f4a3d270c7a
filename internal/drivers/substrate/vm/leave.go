package vm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/kit/pipes"
)

// A guest that moves is copied by the two hosts' libvirts: the one that it leaves calls the other and sends it the guest's
// memory in the same conversation. They do not reach each other: what one of them takes for the other is a socket in its own
// folder, and Muster carries what goes through it, over whatever it has between the two hosts.
//
// All that is done for it may be done again after any crash.

// Dial opens a connection, which is the caller's to close.
type Dial func(context.Context) (net.Conn, error)

// ErrNotHere says that a guest does not run on a host and cannot be made to run there.
var ErrNotHere = errors.New("it is not here")

// holdGuest locks a guest. Send, which takes long, holds no lock of libvirt: the guest's folder keeps that alive.
func (d *Driver) holdGuest(ctx context.Context, r substrate.Ref) (home string, held *onhost.Hold, err error) {
	if home, err = d.home(r); err != nil {
		return "", nil, err
	}
	held, err = onhost.Exclusive(ctx, d.lockPath("guest-"+filepath.Base(home)))
	return home, held, err
}

// hold locks a guest, and keeps libvirt from ending with others who do. The guest's lock is given back before libvirt's.
func (d *Driver) hold(ctx context.Context, r substrate.Ref) (home string, held *onhost.Hold, release func(), err error) {
	unlock, err := onhost.Shared(ctx, d.lockPath("libvirt"))
	if err != nil {
		return "", nil, nil, err
	}
	if home, held, err = d.holdGuest(ctx, r); err != nil {
		unlock()
		return "", nil, nil, err
	}
	return home, held, func() { held.Release(); unlock() }, nil
}

// Leave says how a guest is described that is to go: in libvirt's words, as it runs. A move that was begun and broke off is
// called off first, so that the guest runs when Leave returns; ErrNotHere if its QEMU has ended, because it has gone or died.
func (d *Driver) Leave(ctx context.Context, r substrate.Ref) (description string, err error) {
	home, held, err := d.holdGuest(ctx, r)
	if err != nil {
		return "", err
	}
	defer held.Release()
	collect()
	b := d.bootAt(home, r.Boot)
	if seen, complete := b.read(); !complete || !seen.QEMU.Runs() {
		return "", fmt.Errorf("%w: its QEMU has ended%s", ErrNotHere, lastWords(b))
	}
	v, err := d.connect(ctx)
	if err != nil {
		return "", err
	}
	defer v.close()
	if err := v.callOff(ctx, b.name); err != nil {
		return "", fmt.Errorf("call its move off: %w", err)
	}
	if seen, _ := b.read(); !seen.QEMU.Runs() { // its move had come to its end
		return "", ErrNotHere
	}
	state, err := v.state(ctx, b.name)
	if err != nil {
		return "", err
	}
	if state != running { // it stood still for the last of its memory, and its move broke off then
		if err := held.Lost(); err != nil {
			return "", err
		}
		if err := v.resume(ctx, b.name); err != nil {
			return "", fmt.Errorf("it is %s; let it run on: %w", state, err)
		}
	}
	return v.describe(ctx, b.name)
}

// Send copies a running guest to a place that Receive has made, and ends it here. dial reaches the other host's libvirt.
func (d *Driver) Send(ctx context.Context, r substrate.Ref, description string, dial Dial) error {
	home, held, err := d.holdGuest(ctx, r)
	if err != nil {
		return err
	}
	defer held.Release()
	b := d.bootAt(home, r.Boot)
	v, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer v.close()
	socket, shut, err := d.lead(ctx, b, dial)
	if err != nil {
		return fmt.Errorf("a way to the other host: %w", err)
	}
	defer shut()
	done := make(chan struct{})
	defer close(done)
	go collectUntil(done) // libvirt waits for its QEMU to be gone, wherever that was started
	if err := held.Lost(); err != nil {
		return err
	}
	// Of a guest that is emulated QEMU does not see all that it writes while it is copied (until version 9.0).
	if err := v.migrate(ctx, b.name, "qemu+unix:///system?socket="+socket, description, d.kvm()); err != nil {
		return err
	}
	return onhost.Until(ctx, endWithin, func() (bool, error) {
		left, err := d.emulators(b.name)
		return len(left) == 0, err
	})
}

// lead makes a socket where our libvirt finds another one. It is in a folder that only root reaches, and may not be used by
// the QEMUs, whose user is another.
func (d *Driver) lead(ctx context.Context, b boot, to Dial) (inside string, shut func(), err error) {
	dir, err := os.Open(d.folder("run")) // its path may be longer than a socket's
	if err != nil {
		return "", nil, err
	}
	name := fmt.Sprintf("way-%.6x", sha256.Sum256([]byte(b.name)))
	path := filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), name)
	if err := missing(os.Remove(path)); err != nil { // of a controller that was killed
		dir.Close()
		return "", nil, err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "unix", path)
	if err != nil {
		dir.Close()
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var carriers sync.WaitGroup
	carriers.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // it is shut
			}
			carriers.Go(func() { d.carry(ctx, near, to) })
		}
	})
	return filepath.Join("/run/libvirt", name), func() {
		cancel()
		_ = listener.Close() // which removes the socket
		carriers.Wait()
		dir.Close()
	}, nil
}

// carry joins a connection with a new one until either ends, or ctx.
func (d *Driver) carry(ctx context.Context, near net.Conn, to Dial) {
	defer near.Close()
	far, err := to(ctx)
	if err != nil {
		d.config.Log.Error("a guest cannot move: the other host's libvirt is not reached", "error", err)
		return
	}
	_ = pipes.Join(ctx, near, far) // that it has ended is all there is to know; libvirt says why
}
