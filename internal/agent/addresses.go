package agent

import (
	"fmt"
	"sync"

	"muster/internal/agent/protocol"
	"muster/internal/slurm"
)

// addresses keeps the file that tells programs of jobs where the cluster's nodes are. slurmd refuses to start where it names
// slurmd's own node, and reads it only then: it is empty for that while.
type addresses struct {
	disk disk

	mu    sync.Mutex
	peers []protocol.Peer
	given bool
}

// want sets what the file says once it is given.
func (a *addresses) want(peers []protocol.Peer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.peers = peers
	return a.write()
}

// withhold empties the file: slurmd is about to start.
func (a *addresses) withhold() error { return a.set(false) }

// give fills it: slurmd has read its configuration.
func (a *addresses) give() error { return a.set(true) }

func (a *addresses) set(given bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.given = given
	return a.write()
}

func (a *addresses) write() error {
	peers := a.peers
	if !a.given {
		peers = nil
	}
	if _, err := a.disk.write(addressFile, []byte(slurm.Addresses(peers)), 0o644, nil); err != nil {
		return fmt.Errorf("write %s: %w", addressFile, err)
	}
	return nil
}
