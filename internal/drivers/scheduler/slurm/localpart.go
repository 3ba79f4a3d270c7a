package slurm

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"muster/internal/drivers/scheduler"
	"muster/internal/inventory"
	"muster/internal/inventory/hardware"
	"muster/internal/protocol"
)

// localPart keeps a compute node's own part of slurm.conf and cgroup.conf: how its tasks are bound and its jobs confined, and,
// for programs of jobs, where the cluster's nodes are. slurmd refuses to start where it names slurmd's own node, and reads it
// only then: addresses are withheld for that while.
type localPart struct {
	files scheduler.Files
	slurm version

	mu    sync.Mutex
	local Local
	known bool // how jobs are bound and confined. It stays: slurmd reads it when it starts, and what slurmd starts reads it then
	given bool // the addresses
}

// want sets what the file says. It must be called before slurmd starts, which finds no configuration without the file.
func (l *localPart) want(config *protocol.Config) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known {
		controllers, err := l.files.Read(scheduler.ControlGroups + "/cgroup.controllers")
		if err != nil {
			return err
		}
		l.known, l.local.Binds = true, binds(config.Self)
		l.local.MemoryNodes = l.local.Binds && divided(hardware.Read(hardware.Tree(l.files.Path("/"))).Layout)
		switch {
		case !l.local.Binds:
		case l.files.Exists(scheduler.CPUSets + "/cpuset.cpus"):
			l.local.Cgroup = 1
		case l.slurm.ownGroups() && slices.Contains(strings.Fields(controllers), "cpuset"):
			l.local.Cgroup = 2
		}
		l.local.Watched = l.local.Cgroup != 2
	}
	l.local.Peers = config.Peers
	return l.write()
}

// withhold takes the addresses out: slurmd is about to start.
func (l *localPart) withhold() error { return l.set(false) }

// give puts them in: slurmd has read its configuration.
func (l *localPart) give() error { return l.set(true) }

func (l *localPart) set(given bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.given = given
	return l.write()
}

func (l *localPart) write() error {
	now := l.local
	if !l.given || l.slurm.keepsAddresses() { // by slurmctld: then they are not needed here
		now.Peers = nil
	}
	for name, text := range map[string]string{localFile: RenderLocal(now), groupsFile: RenderCgroup(now.Cgroup)} {
		if _, err := l.files.Write(name, []byte(text), 0o644, ""); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// divided says whether a package of the machine has cores of several NUMA nodes, and none of these spans packages.
func divided(layout inventory.Layout) bool {
	nodes, packages, divided := map[int]int{}, map[int]int{}, false // the first of the other kind that was seen
	for _, c := range layout {
		if node, seen := nodes[c.Package]; seen && node != c.NUMA {
			divided = true
		} else {
			nodes[c.Package] = c.NUMA
		}
		if p, seen := packages[c.NUMA]; seen && p != c.Package {
			return false
		}
		packages[c.NUMA] = c.Package
	}
	return divided
}
