package noded

import (
	"context"
	"slices"
	"sync"
	"time"

	"muster/internal/kit/clock"
	"muster/internal/protocol"
)

// homesAgain is how often homes are tried that could not be as they should: until there is room, or what is in the way is gone.
const homesAgain = 30 * time.Second

// homeKeeper has the homes of a head's users be as the last configuration says, and tells of those that are not.
type homeKeeper struct {
	try   func([]protocol.User, string) []protocol.Undone // system.homes
	tell  func([]protocol.Undone)
	again time.Duration

	mu      sync.Mutex // held while homes are made
	users   []protocol.User
	cluster string
	undone  []protocol.Undone
	due     chan struct{} // holds a token when they have just been tried
}

func newHomeKeeper(system system, tell func([]protocol.Undone)) *homeKeeper {
	return &homeKeeper{try: system.homes, tell: tell, again: homesAgain, due: make(chan struct{}, 1)}
}

// want tries at once.
func (k *homeKeeper) want(users []protocol.User, cluster string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.users, k.cluster = users, cluster
	k.once()
	clock.Wake(k.due)
}

// once tries all homes. The caller holds the lock.
func (k *homeKeeper) once() {
	before := k.undone
	if k.undone = k.try(k.users, k.cluster); !slices.Equal(before, k.undone) {
		k.tell(k.undone)
	}
}

// follow tries again until ctx ends.
func (k *homeKeeper) follow(ctx context.Context) {
	for {
		k.mu.Lock()
		var later <-chan time.Time
		if len(k.undone) > 0 {
			later = time.After(k.again)
		}
		k.mu.Unlock()
		select {
		case <-k.due:
		case <-later:
			k.mu.Lock()
			k.once()
			k.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}
