package substrate

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"muster/internal/inventory"
	"muster/internal/protocol"
)

// Machine is a whole machine with what is needed to reach it.
type Machine struct {
	inventory.Machine
	On      inventory.Network // that it boots from
	Address netip.Addr        // its lease there; zero if it never had one
	// OffSince is since when it is told to be off and was not yet seen so; zero: that is not waited for.
	OffSince time.Time
}

// Boot is what a machine is to boot.
type Boot struct {
	Machine string            // ID
	Subject string            // ID of the node, or of the machine itself for an inspection
	Number  int64             // of the subject's boots; they only grow
	Image   string            // digest
	File    protocol.BootFile // without its token
	Disk    bool
	Erase   bool

	Powered  time.Time // when it was switched on; zero: not yet
	Joined   bool      // its agent has come
	Step     protocol.BootStep
	Detail   string
	Findings *protocol.Findings
	Key      string // fingerprint of the key that its agent joined with
}

// Boots are what machines are to boot, and how far they are. They outlive the caller, and stand before anything is done for
// them.
// ErrNoBoot is returned for what is not there.
type Boots interface {
	// Machine finds a machine by name or ID.
	Machine(ctx context.Context, ref string) (Machine, error)
	// BootOn is what a machine boots now.
	BootOn(ctx context.Context, machine string) (Boot, error)
	// BootOf is the boot that a subject, a node or a machine itself, is at, on whichever machine.
	BootOf(ctx context.Context, subject string) (Boot, error)
	// Begin makes b what its machine boots. ErrStale if the subject has begun a later boot.
	Begin(ctx context.Context, b Boot) error
	// Powered notes that the machine was switched on for the boot.
	Powered(ctx context.Context, b Boot) error
	// WaitForOff notes that a machine, by its ID, is told to be off: Machine says so from now on, since the first time. With
	// false that is not waited for any more.
	WaitForOff(ctx context.Context, machine string, waits bool) error
	// End tells the boot's agent, or an older one's, to end.
	End(ctx context.Context, subject string, number int64) error
	// Drop forgets the boot. It is called once the machine was seen off.
	Drop(ctx context.Context, subject string, number int64) error
	// Nodes lists the boots of nodes.
	Nodes(ctx context.Context) ([]Ref, error)
}

// ErrNoBoot says that there is no such boot.
var ErrNoBoot = errors.New("no such boot")
