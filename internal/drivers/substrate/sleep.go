package substrate

import "context"

// Sleeper puts nodes whose machines are guests to sleep: what they have in their memory goes to their host's disk, and back.
// Hosts are named as their machines are.
type Sleeper interface {
	// CanSuspend says whether nodes of a host can sleep there. It is quick.
	CanSuspend(host string) bool
	// Sleep writes the node's memory to disk and ends it; it returns how much that takes. What the node had of its host is free
	// then. It may be called again after any crash, also when it was done. ErrNoRoom where the disk has no room for it,
	// ErrRefused where what it has cannot be written: then it runs on. ErrEnded where it does not run and does not sleep. It
	// blocks for as long as the writing takes, or returns ErrUnderway where that goes on without the caller: call it again.
	Sleep(ctx context.Context, r Ref, host string) (bytes int64, err error)
	// Wake returns when the node runs on with what n.Allocation says, or with another part that Observe then tells, and its
	// memory is erased from the disk. It may be called again after any crash, also when it was done. ErrRefused where its host
	// cannot have it now, or not as the same machine: then it sleeps on. ErrEnded where it neither sleeps nor runs: its memory
	// is lost. A node that has run on is never woken as it was before. It blocks for as long as the reading takes, or returns
	// ErrUnderway as Sleep does.
	Wake(ctx context.Context, n Node, host string) error
}
