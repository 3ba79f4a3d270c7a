package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/digitalocean/go-libvirt"

	"muster/internal/drivers/substrate/onhost"
)

// virt is one conversation with libvirt.
type virt struct {
	wire   net.Conn
	rpc    *libvirt.Libvirt
	within time.Duration // that an answer may take
}

const (
	// answerWithin is how long libvirt may take for what neither starts nor copies a guest. One that hangs fails the call, and
	// does not keep the caller, and the locks that it holds.
	answerWithin = time.Minute
	// createWithin is how long it may take to start a QEMU, which touches all of its guest's memory.
	createWithin = 15 * time.Minute
)

// dialSocket connects to the libvirt whose socket is in a folder. The folder's path may be longer than a socket's.
func dialSocket(ctx context.Context, folder string) (net.Conn, error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(int(dir.Fd()))+"/"+socketFile)
}

// dial begins a conversation with it, whose answers take so long at most.
func dial(ctx context.Context, folder string, within time.Duration) (*virt, error) {
	wire, err := dialSocket(ctx, folder)
	if err != nil {
		return nil, err
	}
	v := &virt{wire, libvirt.NewWithDialer(dialed{wire}), within}
	if err := v.do(ctx, within, func() error { return v.rpc.ConnectToURI(libvirt.QEMUSystem) }); err != nil {
		wire.Close()
		return nil, fmt.Errorf("connect to libvirt: %w", err)
	}
	return v, nil
}

// dialed is a dialer of a connection that is there.
type dialed struct{ net.Conn }

func (d dialed) Dial() (net.Conn, error) { return d.Conn, nil }

// do makes a call of libvirt's, which knows no context, end with ctx, or when it has taken too long.
func (v *virt) do(ctx context.Context, within time.Duration, call func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("libvirt has not answered for %v", within))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { v.wire.Close() })
	defer stop()
	err := call()
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

func (v *virt) close() {
	impatient := time.AfterFunc(v.within, func() { v.wire.Close() })
	defer impatient.Stop()
	_ = v.rpc.Disconnect() // it has nothing more to tell
	v.wire.Close()
}

// create makes a domain that ends with its QEMU. Its CPUs are stopped.
func (v *virt) create(ctx context.Context, xml string) error {
	return v.do(ctx, createWithin, func() error {
		_, err := v.rpc.DomainCreateXML(xml, libvirt.DomainStartPaused|libvirt.DomainStartValidate)
		return err
	})
}

func (v *virt) resume(ctx context.Context, name string) error {
	return v.with(ctx, name, v.rpc.DomainResume)
}

func (v *virt) destroy(ctx context.Context, name string) error {
	err := v.with(ctx, name, v.rpc.DomainDestroy)
	if libvirt.IsNotFound(err) {
		return nil
	}
	return err
}

// with makes a call about a domain.
func (v *virt) with(ctx context.Context, name string, call func(libvirt.Domain) error) error {
	return v.long(ctx, v.within, name, call)
}

// long is with for a call that may take longer.
func (v *virt) long(ctx context.Context, within time.Duration, name string, call func(libvirt.Domain) error) error {
	return v.do(ctx, within, func() error {
		found, err := v.rpc.DomainLookupByName(name)
		if err != nil {
			return err
		}
		return call(found)
	})
}

// States of a domain, in a user's words.
const (
	running = "running"
	paused  = "paused"
	moving  = "on its way" // comes, and is not whole; or has sent all of itself, and is not yet said to have come
	absent  = "not known to libvirt"
)

func (v *virt) state(ctx context.Context, name string) (string, error) {
	var state, reason int32
	err := v.with(ctx, name, func(d libvirt.Domain) (err error) {
		state, reason, err = v.rpc.DomainGetState(d, 0)
		return err
	})
	if libvirt.IsNotFound(err) {
		return absent, nil
	}
	if err != nil {
		return "", fmt.Errorf("ask libvirt: %w", err)
	}
	switch libvirt.DomainState(state) {
	case libvirt.DomainRunning:
		return running, nil
	case libvirt.DomainPaused:
		if libvirt.DomainPausedReason(reason) == libvirt.DomainPausedMigration {
			return moving, nil
		}
		return paused, nil
	case libvirt.DomainShutdown:
		return "shutting down", nil
	case libvirt.DomainCrashed:
		return "crashed", nil
	}
	return "switched off", nil
}

// describe is a domain that runs, as another libvirt takes it.
func (v *virt) describe(ctx context.Context, name string) (xml string, err error) {
	err = v.with(ctx, name, func(d libvirt.Domain) (err error) {
		xml, err = v.rpc.DomainGetXMLDesc(d, libvirt.DomainXMLMigratable|libvirt.DomainXMLSecure)
		return err
	})
	return xml, err
}

// copyWithin bounds what has no other bound: callers that move a guest, or have it sleep, have a shorter limit of their own.
const copyWithin = 24 * time.Hour

// migrate copies a domain to the libvirt at uri, while it runs if it is live, and ends it here. There its CPUs stand still. A
// guest that writes faster than it can be copied is slowed down.
func (v *virt) migrate(ctx context.Context, name, uri, xml string, live bool) error {
	return v.long(ctx, copyWithin, name, func(d libvirt.Domain) error {
		how := libvirt.MigratePeer2peer | libvirt.MigrateTunnelled | libvirt.MigratePaused | libvirt.MigrateAbortOnError
		if live {
			how |= libvirt.MigrateLive | libvirt.MigrateAutoConverge
		}
		params := []libvirt.TypedParam{{Field: libvirt.MigrateParamDestXML, Value: *libvirt.NewTypedParamValueString(xml)}}
		_, err := v.rpc.DomainMigratePerform3Params(d, libvirt.OptString{uri}, params, nil, how)
		return err
	})
}

// save writes a domain's memory to a file and ends it.
func (v *virt) save(ctx context.Context, name, path string) error {
	return v.long(ctx, copyWithin, name, func(d libvirt.Domain) error {
		return v.rpc.DomainSaveFlags(d, path, nil, uint32(libvirt.DomainSavePaused))
	})
}

// saved is how the domain is described that a file is of. The error says that there is none, or that it is not whole.
func (v *virt) saved(ctx context.Context, path string) (xml string, err error) {
	err = v.do(ctx, v.within, func() (err error) {
		xml, err = v.rpc.DomainSaveImageGetXMLDesc(path, uint32(libvirt.DomainSaveImageXMLSecure))
		return err
	})
	return xml, err
}

// restore makes a domain from such a file. Its CPUs are stopped.
func (v *virt) restore(ctx context.Context, path, xml string) error {
	return v.do(ctx, copyWithin, func() error {
		return v.rpc.DomainRestoreFlags(path, libvirt.OptString{xml}, uint32(libvirt.DomainSavePaused))
	})
}

// callOffWithin is how long libvirt may take to end what it is doing with a domain.
const callOffWithin = 30 * time.Second

// callOff ends what libvirt is doing with a domain on behalf of somebody who has ended. On return it has ended, this way or
// that way.
func (v *virt) callOff(ctx context.Context, name string) error {
	return onhost.Until(ctx, callOffWithin, func() (bool, error) {
		idle := false
		err := v.with(ctx, name, func(d libvirt.Domain) error {
			kind, _, _, _, _, _, _, _, _, _, _, _, err := v.rpc.DomainGetJobInfo(d)
			if idle = libvirt.DomainJobType(kind) == libvirt.DomainJobNone; err != nil || idle {
				return err
			}
			_ = v.rpc.DomainAbortJob(d) // one that cannot be ended any more is about to end
			return nil
		})
		if libvirt.IsNotFound(err) {
			return true, nil
		}
		return idle, err
	})
}
