package remote

import (
	"context"
	"errors"
	"fmt"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// A guest elsewhere is put to sleep and woken as it is made: it is asked for in the ledger, the host does it once a try, and
// says how that ended. What was asked for last counts; a host that is asked for something else meanwhile does that next.

var _ substrate.Sleeper = (*Driver)(nil)

// sleepTries is how often a host tries in vain to write a guest's memory before the guest is said to be one that cannot sleep.
const sleepTries = 3

// CanSuspend is true of every host elsewhere. One without a disk says so when memory is to be written.
func (d *Driver) CanSuspend(string) bool { return true }

// Sleep has the host put the guest to sleep, and returns when the host has said that it sleeps, or with ErrUnderway.
func (d *Driver) Sleep(ctx context.Context, r substrate.Ref, _ string) (bytes int64, err error) {
	e, err := d.done(ctx, r, protocol.DoSleep, func(keep func(Entry) (bool, error)) error {
		return d.config.Ledger.WantSleep(ctx, r, keep)
	})
	if err != nil {
		return 0, fmt.Errorf("suspend node %s: %w", r.Node, err)
	}
	return e.State.Bytes, nil
}

// Wake has the host let the guest run on, and returns when the host has said that it does, or with ErrUnderway.
func (d *Driver) Wake(ctx context.Context, n substrate.Node, _ string) error {
	_, err := d.done(ctx, n.Ref, protocol.DoWake, func(keep func(Entry) (bool, error)) error {
		return d.config.Ledger.Want(ctx, n, protocol.DoWake, keep)
	})
	return wrap.Errorf(err, "resume node %s", n.Node)
}

// done asks for something, unless it was, and returns when it has come to its end. What has failed is asked for again by the
// next call, but for what no other try would change. A host that is silent is waited for: what ends that is its report, or its
// machine, seen off.
func (d *Driver) done(ctx context.Context, r substrate.Ref, do protocol.HostedDo,
	ask func(keep func(Entry) (bool, error)) error) (e Entry, err error) {
	try := int64(0)
	err = ask(func(e Entry) (bool, error) {
		if err := e.lacks(r); err != nil {
			return false, err
		}
		try = e.Try
		switch {
		case e.Do == protocol.DoRun && do == protocol.DoWake && e.runs(): // it has never slept
			return true, nil
		case e.Do == protocol.DoRun && do == protocol.DoWake:
			return false, fmt.Errorf("%w: it was not suspended", substrate.ErrEnded)
		case e.Do == do && (e.State.Try < e.Try || !again(e.outcome())): // the host is at it, or will be; or has done it
			return true, nil
		}
		try = e.Try + 1
		return false, nil
	})
	if err == nil {
		err = d.await(ctx, r.Node, func(now Entry) (bool, error) {
			e = now
			if err := e.lacks(r); err != nil {
				return true, err
			}
			if e.State.Try < try {
				return false, e.late()
			}
			return true, e.outcome()
		})
	}
	if errors.Is(err, ErrNone) {
		err = fmt.Errorf("%w: no hypervisor holds it", substrate.ErrEnded)
	}
	if errors.Is(err, errSilent) {
		err = fmt.Errorf("%w: %w", substrate.ErrUnderway, err)
	}
	return e, err
}

// lacks says why nothing can be done with a boot any more; nil if it can.
func (e Entry) lacks(r substrate.Ref) error {
	switch {
	case e.Node.Boot > r.Boot:
		return fmt.Errorf("%w: boot %d was asked for already", substrate.ErrStale, e.Node.Boot)
	case e.Node.Boot != r.Boot:
		return fmt.Errorf("%w: hypervisor %s was never to hold it", substrate.ErrEnded, e.Host)
	case !e.Wanted || e.Off:
		return fmt.Errorf("%w: hypervisor %s has been switched off since, and what it held is lost", substrate.ErrEnded, e.Host)
	}
	return nil
}

// outcome is how the newest try has ended that put the guest to sleep or woke it.
func (e Entry) outcome() error {
	s := e.State
	switch {
	case s.Gone != "":
		return fmt.Errorf("%w: hypervisor %s: %s", substrate.ErrEnded, e.Host, s.Gone)
	case s.NoRoom != "":
		return fmt.Errorf("%w: hypervisor %s: %s", substrate.ErrNoRoom, e.Host, s.NoRoom)
	case s.Refused != "":
		return fmt.Errorf("%w: hypervisor %s: %s", substrate.ErrRefused, e.Host, s.Refused)
	case s.Failed != "" && e.Do == protocol.DoSleep && e.Again+1 >= sleepTries:
		return fmt.Errorf("%w: hypervisor %s has tried %d times: %s", substrate.ErrRefused, e.Host, e.Again+1, s.Failed)
	case s.Failed != "":
		return fmt.Errorf("hypervisor %s: %s", e.Host, s.Failed)
	case e.Do == protocol.DoSleep && s.Bytes == 0: // an agent that knows of no sleep
		return fmt.Errorf("%w: hypervisor %s has written nothing", substrate.ErrRefused, e.Host)
	}
	return nil
}

// again says whether what has failed is worth another try.
func again(err error) bool {
	return err != nil && !errors.Is(err, substrate.ErrEnded) && !errors.Is(err, substrate.ErrNoRoom) &&
		!errors.Is(err, substrate.ErrRefused)
}
