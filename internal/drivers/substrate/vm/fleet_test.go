package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"muster/internal/drivers/substrate"
)

// Host is a hypervisor as the agents see it that carry guests from one to another: see Driver.
type Host interface {
	Sleep(ctx context.Context, r substrate.Ref) (bytes int64, err error)
	Wake(ctx context.Context, n substrate.Node) error
	Leave(ctx context.Context, r substrate.Ref) (description string, err error)
	Receive(ctx context.Context, n substrate.Node, description string) (here string, err error)
	Send(ctx context.Context, r substrate.Ref, description string, dial Dial) error
	Dial(ctx context.Context) (net.Conn, error)
	Arrive(ctx context.Context, n substrate.Node) error
	Remove(ctx context.Context, r substrate.Ref) error
}

var _ Host = (*Driver)(nil)

// recallWithin is how long it may take to find out where a guest is whose move has failed.
const recallWithin = time.Minute

// Fleet finds hypervisors by their machines' names, and does for them, call by call, what their agents do by rows.
type Fleet func(host string) (Host, error)

var _ substrate.Mover = Fleet(nil)

// Reaches says whether a hypervisor is found.
func (f Fleet) Reaches(host string) bool {
	_, err := f(host)
	return err == nil
}

// Move takes a guest from one hypervisor to another.
//
// There is never a second guest that runs, whatever dies when: only Arrive lets the guest's CPUs run at the new host, and it is
// called only when the guest's QEMU at the old one has ended, which only a whole copy makes it do. As long as that QEMU is
// there, the guest is there, and what is at the new host is thrown away.
func (f Fleet) Move(ctx context.Context, n substrate.Node, from, to string) error {
	source, err := f(from)
	if err != nil {
		return err
	}
	target, err := f(to)
	if err != nil { // then nothing can have gone there
		return fmt.Errorf("%w: %w", substrate.ErrStays, err)
	}
	if err := move(ctx, n, source, target); err != nil {
		return fmt.Errorf("move node %s: %w", n.Node, err)
	}
	return nil
}

// Forget takes away what there is of a guest at a host. Nothing can have gone to one that is not found.
func (f Fleet) Forget(ctx context.Context, r substrate.Ref, host string) error {
	if at, err := f(host); err == nil {
		return at.Remove(ctx, allOf(r))
	}
	return nil
}

func move(ctx context.Context, n substrate.Node, from, to Host) error {
	description, err := from.Leave(ctx, n.Ref)
	if err == nil {
		err = copyTo(ctx, n, description, from, to)
	}
	if err != nil && !errors.Is(err, ErrNotHere) {
		return err
	}
	// It is not at its old host, whether it was just sent, or long ago, or has gone although that was told to have failed.
	if err := to.Arrive(ctx, n); errors.Is(err, ErrNotHere) {
		return fmt.Errorf("%w: %w", substrate.ErrEnded, err)
	} else if err != nil {
		return err
	}
	return from.Remove(ctx, allOf(n.Ref))
}

// copyTo copies a guest that runs. If that fails the guest is found out about: ErrStays says that it runs on.
func copyTo(ctx context.Context, n substrate.Node, description string, from, to Host) error {
	there, err := to.Receive(ctx, n, description)
	if err == nil {
		err = from.Send(ctx, n.Ref, there, to.Dial)
	}
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return err // this controller ends; the next one finds out
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recallWithin)
	defer cancel()
	if _, lost := from.Leave(ctx, n.Ref); lost != nil {
		return errors.Join(err, lost)
	}
	if left := to.Remove(ctx, allOf(n.Ref)); left != nil {
		return errors.Join(err, left)
	}
	return fmt.Errorf("%w: %w", substrate.ErrStays, err)
}

// allOf names all boots of a node: what it leaves at a host is nothing, not even the number of its last boot.
func allOf(r substrate.Ref) substrate.Ref {
	r.Boot = 0
	return r
}
