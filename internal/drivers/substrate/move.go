package substrate

import (
	"context"
	"errors"
)

// ErrStays is returned by Move where the node could not be moved: it runs on where it was, and nothing of it is elsewhere. The
// error's text says why.
var ErrStays = errors.New("it stays where it is")

// ErrEnded is returned by Move, Sleep and Wake where the node does not run and cannot be brought back: it has died on its way.
var ErrEnded = errors.New("it has ended on its way")

// Mover takes nodes whose machines are guests from one host to another while they run. Hosts are named as their
// machines are.
type Mover interface {
	// Reaches says whether nodes can be moved from and to a host. It is quick.
	Reaches(host string) bool
	// Move returns when the node runs at its new host with what n.Allocation says, or with another part that Observe then
	// tells, and nothing of it is left at the old one. It may be called again after any crash, also when it was done: it looks
	// at both hosts first. At no time does the node run on both. Any error but ErrStays and ErrEnded says that the outcome is
	// not known: call it again; ErrUnderway that the move goes on without the caller meanwhile. Without that it blocks for as
	// long as the node's memory takes to be copied.
	Move(ctx context.Context, n Node, from, to string) error
	// Forget takes away what there is at a host of a node that was to move there and is to end now.
	Forget(ctx context.Context, r Ref, host string) error
}
