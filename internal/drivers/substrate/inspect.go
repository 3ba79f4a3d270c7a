package substrate

import (
	"context"

	"muster/internal/inventory"
	"muster/internal/protocol"
)

// Inspector looks after machines of one substrate, apart from the nodes on them.
type Inspector interface {
	// Inspect takes an inspection a step further; it is called again until it is done. ErrUnderway: the machine goes off first.
	Inspect(ctx context.Context, i Inspection) (Inspected, error)
	// EnsureOff sees to it that an unused machine is at rest, which for a whole machine means off. It says what it had to do, ""
	// if nothing. ErrUnderway, with what it does: the machine was not yet seen off; call it again.
	EnsureOff(ctx context.Context, m inventory.Machine) (did string, err error)
}

// Inspection is one attempt to look at a machine.
type Inspection struct {
	Machine inventory.Machine
	Number  int64 // a later attempt has a higher one
	Erase   bool  // the disks first
}

// Inspected is how far an inspection is.
type Inspected struct {
	Done   bool
	Doing  string // while it is not done
	Stuck  string // why it cannot go on by itself; "" if it can
	Facts  inventory.Facts
	Checks []protocol.Check  // of its health
	Erased []protocol.Erased // one a disk
	Unread string            // why the users of its BMC could not be read; "": they could, or there is nothing to ask
	// fingerprint of the key that the machine got with this boot, and that this was delivered with; "" of a machine of this host
	Key string
}

// HypervisorBooter makes machines hypervisors.
type HypervisorBooter interface {
	// Host takes a machine's boot as a hypervisor a step further; it is called again until the machine's agent has reported.
	// stuck is why it cannot go on by itself, "" if it can. ErrUnderway: the machine goes off first.
	Host(ctx context.Context, m inventory.Machine, number int64) (doing, stuck string, err error)
	// End switches the machine off. It was seen off when this returns nil; ErrUnderway before that: call it again.
	End(ctx context.Context, m inventory.Machine) error
}
