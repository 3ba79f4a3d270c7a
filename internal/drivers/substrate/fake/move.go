package fake

import (
	"context"
	"fmt"

	"muster/internal/drivers/substrate"
)

var _ substrate.Mover = (*Substrate)(nil)

// Reaches is true of every host.
func (s *Substrate) Reaches(string) bool { return true }

// Move gives the node what it has elsewhere. There is one world: what is where is the caller's to know.
func (s *Substrate) Move(ctx context.Context, n substrate.Node, from, to string) error {
	held, unlock, err := s.lock(ctx, nameOf(n.Ref))
	if err != nil {
		return err
	}
	defer unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !held.running || held.of.Boot != n.Boot {
		return fmt.Errorf("%w: from %s to %s: %s", substrate.ErrEnded, from, to, held.detail)
	}
	held.of = n
	return nil
}

// Forget has nothing to take away: a node is here once.
func (s *Substrate) Forget(context.Context, substrate.Ref, string) error { return nil }
