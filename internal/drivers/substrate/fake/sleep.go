package fake

import (
	"context"
	"fmt"

	"muster/internal/drivers/substrate"
)

var _ substrate.Sleeper = (*Substrate)(nil)

// CanSuspend is true of every host.
func (s *Substrate) CanSuspend(string) bool { return true }

// Sleep ends the node, which is remembered as it was. It takes all of its memory, or one byte.
func (s *Substrate) Sleep(ctx context.Context, r substrate.Ref, _ string) (int64, error) {
	held, unlock, err := s.lock(ctx, nameOf(r))
	if err != nil {
		return 0, err
	}
	defer unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if held.of.Boot != r.Boot || !held.running && !held.asleep {
		return 0, fmt.Errorf("%w: node %s: %s", substrate.ErrEnded, r.Node, held.detail)
	}
	held.running, held.asleep, held.detail, held.of.Allocation = false, true, "it sleeps", nil
	return max(1, int64(held.of.MemoryMiB)<<20), nil
}

// Wake lets the node run on.
func (s *Substrate) Wake(ctx context.Context, n substrate.Node, _ string) error {
	held, unlock, err := s.lock(ctx, nameOf(n.Ref))
	if err != nil {
		return err
	}
	defer unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case held.of.Boot == n.Boot && held.running:
		return nil
	case held.of.Boot != n.Boot || !held.asleep:
		return fmt.Errorf("%w: node %s: %s", substrate.ErrEnded, n.Node, held.detail)
	}
	s.check(n)
	held.running, held.asleep, held.detail, held.of = true, false, "", n
	return nil
}
