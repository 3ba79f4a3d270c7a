package vm

import (
	"context"
	"errors"
	"net"

	"muster/internal/drivers/substrate"
)

// Host is a hypervisor as the agents see it that carry guests from one to another. All methods may be called again after any
// crash.
type Host interface {
	// Sleep and Wake are those of substrate.Sleeper; ErrNotHere where that has ErrEnded.
	Sleep(ctx context.Context, r substrate.Ref) (bytes int64, err error)
	Wake(ctx context.Context, n substrate.Node) error
	// Leave says how a guest is described that is to go: in libvirt's words, as it runs. A move that was begun and broke off is
	// called off first, so that the guest runs when Leave returns; ErrNotHere if its QEMU has ended, because it has gone or
	// died.
	Leave(ctx context.Context, r substrate.Ref) (description string, err error)
	// Receive makes a place for a guest that comes with this description, and says how it is to be described here. What was
	// there of an earlier try is removed. substrate.ErrRefused if the host cannot have it, or not as the same machine.
	Receive(ctx context.Context, n substrate.Node, description string) (here string, err error)
	// Send copies a running guest to a place that Receive has made, and ends it here. dial reaches the other host's libvirt.
	Send(ctx context.Context, r substrate.Ref, description string, dial Dial) error
	// Dial reaches the host's libvirt.
	Dial(ctx context.Context) (net.Conn, error)
	// Arrive lets a guest run whose memory has come whole; ErrNotHere if it has not. The guest must have ended where it was.
	Arrive(ctx context.Context, n substrate.Node) error
	// Remove is that of substrate.Substrate.
	Remove(ctx context.Context, r substrate.Ref) error
}

var _ Host = (*Driver)(nil)

// Dial opens a connection, which is the caller's to close.
type Dial func(context.Context) (net.Conn, error)

// ErrNotHere says that a guest does not run on a host and cannot be made to run there.
var ErrNotHere = errors.New("it is not here")
