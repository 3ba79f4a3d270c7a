// Package remote makes guests exist on hypervisors that are machines of their own, whose agents it never calls.
//
// What enters: a guest's boot. What leaves: intent in the Ledger, which the host's agent fetches, and observations from there,
// which the agent has reported. The driver keeps nothing itself, so that any replica can go on with the work. A guest stands in
// the Ledger before anything of it exists.
//
// A host that is silent is not a host without guests: while its guests are not known, Observe and Remove say so and prove
// nothing. What ends that is a report, or the host's machine, seen off.
package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// Entry is what the Ledger has of one node, in one snapshot.
type Entry struct {
	Node    substrate.Ref
	Host    string // name of the hypervisor
	Wanted  bool   // the host is to hold it
	Do      protocol.HostedDo
	Try     int64 // times that something was asked of it, Do at last
	Again   int64 // tries in a row that were to do the same before
	Off     bool  // the host's agent was never here since its machine was off: nothing runs there
	Current bool  // the host has said that it knows of what this entry wants
	Silent  time.Duration
	State   protocol.HostedState // what the host says of this boot; its zero value if it says nothing
	Seen    protocol.HostedState // what is present of the node there, of the newest boot; its zero value if nothing is
}

// Ledger keeps intent and reports. ErrNone is returned for what is not there.
type Ledger interface {
	// Look finds the entry of a node.
	Look(ctx context.Context, node string) (Entry, error)
	// Want makes this boot what the host is to hold of the node, and to do with it, and counts one more try, unless keep says
	// of the entry that is there that it needs none. An error of keep is returned, and changes nothing.
	Want(ctx context.Context, n substrate.Node, do protocol.HostedDo, keep func(Entry) (bool, error)) error
	// WantSleep is Want for a boot that is to sleep, as it was described last.
	WantSleep(ctx context.Context, r substrate.Ref, keep func(Entry) (bool, error)) error
	// Release has the host hold the node no longer, up to a boot.
	Release(ctx context.Context, node string, upTo int64) error
	// Forget forgets that a host ever held the node. It is called once the host was seen without it.
	Forget(ctx context.Context, node string) error
	// Guests names all that hosts have or are to have.
	Guests(ctx context.Context) ([]substrate.Ref, error)
	// Changed is closed when there may be news.
	Changed() <-chan struct{}
}

// ErrNone says that the ledger has no such entry.
var ErrNone = errors.New("no such entry")

// Config is what the driver works with.
type Config struct {
	Ledger   Ledger
	Silence  time.Duration // a host's agent that says nothing for longer is silent
	Patience time.Duration // how long a call waits for a host before it is ErrUnderway
}

// Driver is the substrate of guests elsewhere. It implements substrate.Substrate.
type Driver struct{ config Config }

var _ substrate.Substrate = (*Driver)(nil)

// New makes a driver.
func New(c Config) *Driver { return &Driver{c} }

// look is how often news of other replicas are looked for.
const look = 300 * time.Millisecond

// Ensure has the host make the guest run, and returns when the host has said that it does, or with ErrUnderway.
func (d *Driver) Ensure(ctx context.Context, n substrate.Node) error {
	if n.Boot < 1 {
		return fmt.Errorf("boot %d of node %s: boots count from 1", n.Boot, n.Node)
	}
	try := int64(0)
	err := d.config.Ledger.Want(ctx, n, protocol.DoRun, func(e Entry) (bool, error) {
		switch {
		case e.Node.Boot > n.Boot:
			return false, fmt.Errorf("%w: boot %d was asked for already", substrate.ErrStale, e.Node.Boot)
		case e.Node.Boot < n.Boot || !e.Wanted:
			try = e.Try + 1
			return false, nil
		case e.Do != protocol.DoRun && !e.runs(): // what has slept is woken, or is lost, and never made again
			return false, errors.New("it was suspended")
		case e.runs() || e.State.Try < e.Try || e.State.Unseen: // or the host is at it, or will be, or cannot tell
			try = e.Try
			return true, nil
		}
		try = e.Try + 1
		return false, nil
	})
	if err == nil {
		err = d.await(ctx, n.Node, func(e Entry) (bool, error) { return e.made(n.Boot, try) })
	}
	return wrap.Errorf(err, "boot %d of node %s", n.Boot, n.Node)
}

// runs says that the host has said that this boot runs.
func (e Entry) runs() bool { return e.State.Present && e.State.Running && e.State.Boot == e.Node.Boot }

// made says whether a try has come to its end, and to which.
func (e Entry) made(boot, try int64) (over bool, err error) {
	switch {
	case e.Node.Boot > boot:
		return true, fmt.Errorf("%w: boot %d was asked for meanwhile", substrate.ErrStale, e.Node.Boot)
	case !e.Wanted:
		return true, errors.New("it was given up meanwhile")
	case e.runs():
		return true, nil
	case e.State.Try < try || e.State.Boot != boot || e.State.Unseen:
		return false, e.late()
	case e.State.Refused != "":
		return true, fmt.Errorf("%w: %s", substrate.ErrRefused, e.State.Refused)
	case e.State.Failed != "":
		return true, fmt.Errorf("hypervisor %s: %s", e.Host, e.State.Failed)
	}
	return true, fmt.Errorf("hypervisor %s: it does not run: %s", e.Host, e.State.Detail)
}

// late says, of a host that has not done what it was asked for, how far it is.
func (e Entry) late() error {
	switch {
	case e.Off:
		return fmt.Errorf("hypervisor %s is not there yet", e.Host)
	case e.State.Doing != "":
		return fmt.Errorf("hypervisor %s %s", e.Host, e.State.Doing)
	case e.Seen.Unseen:
		return fmt.Errorf("hypervisor %s cannot look at it: %s", e.Host, e.Seen.Detail)
	case !e.Current:
		return fmt.Errorf("hypervisor %s has not taken it up yet", e.Host)
	}
	return fmt.Errorf("hypervisor %s is at it", e.Host)
}

// await looks at a node's entry until over says that it is what is waited for. What over says of one that is not is the error
// once patience, or ctx, has ended.
func (d *Driver) await(ctx context.Context, node string, over func(Entry) (bool, error)) error {
	patience := time.NewTimer(d.config.Patience)
	defer patience.Stop()
	for {
		changed := d.config.Ledger.Changed()
		e, err := d.config.Ledger.Look(ctx, node)
		if err != nil {
			return err
		}
		done, err := over(e)
		if done {
			return err
		}
		if silent := d.silence(e); silent != nil {
			return silent
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return fmt.Errorf("%w: %w", substrate.ErrUnderway, err)
		case <-changed:
		case <-time.After(look):
		}
	}
}

var errSilent = errors.New("nobody can tell how its guests are")

// silence is errSilent if it cannot be known what the host has.
func (d *Driver) silence(e Entry) error {
	if e.Off || e.Silent <= d.config.Silence {
		return nil
	}
	return fmt.Errorf("hypervisor %s has been silent for %.0f s: %w", e.Host, e.Silent.Seconds(), errSilent)
}

// Observe says what the host has said last.
func (d *Driver) Observe(ctx context.Context, r substrate.Ref) (substrate.Observation, error) {
	e, err := d.config.Ledger.Look(ctx, r.Node)
	if errors.Is(err, ErrNone) {
		return substrate.Observation{}, nil
	}
	if err == nil {
		err = d.silence(e)
	}
	if err != nil {
		return substrate.Observation{}, fmt.Errorf("observe node %s: %w", r.Node, err)
	}
	if e.Seen.Unseen { // which proves nothing, as silence does
		return substrate.Observation{}, fmt.Errorf("observe node %s: hypervisor %s cannot look at it: %s", r.Node, e.Host,
			e.Seen.Detail)
	}
	seen, err := Seen(e.Seen)
	return seen, wrap.Errorf(err, "observe node %s: hypervisor %s", r.Node, e.Host)
}

// Remove has the host end the guest, and returns when the host has said that nothing of it is there, or with ErrUnderway.
func (d *Driver) Remove(ctx context.Context, r substrate.Ref) error {
	err := d.remove(ctx, r)
	if err != nil && !errors.Is(err, ErrNone) {
		return fmt.Errorf("remove node %s: %w", r.Node, err)
	}
	return nil
}

func (d *Driver) remove(ctx context.Context, r substrate.Ref) error {
	e, err := d.config.Ledger.Look(ctx, r.Node)
	if err != nil {
		return err
	}
	if r.Boot > 0 && e.Node.Boot > r.Boot {
		return nil // a later one is wanted, which ends what is there of this
	}
	if err := d.config.Ledger.Release(ctx, r.Node, e.Node.Boot); err != nil {
		return err
	}
	if err := d.await(ctx, r.Node, func(e Entry) (bool, error) {
		switch {
		case e.Wanted:
			return true, errors.New("it was asked for again meanwhile")
		case e.Off || e.Current && !e.Seen.Present && !e.Seen.Unseen && e.State.Doing == "":
			return true, nil
		case e.Current && e.Seen.Detail != "":
			return false, fmt.Errorf("hypervisor %s still has something of it: %s", e.Host, e.Seen.Detail)
		}
		return false, e.late()
	}); err != nil || r.Boot > 0 {
		return err
	}
	return d.config.Ledger.Forget(ctx, r.Node)
}

// List names what hosts have or are to have.
func (d *Driver) List(ctx context.Context) ([]substrate.Ref, error) {
	refs, err := d.config.Ledger.Guests(ctx)
	return refs, wrap.Errorf(err, "list guests elsewhere")
}
