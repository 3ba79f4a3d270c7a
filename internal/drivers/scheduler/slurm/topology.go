package slurm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/internal/protocol"
)

// SwitchFeature is the feature of nodes on a leaf switch: jobs ask for one switch by --constraint="[switch_a|switch_b]".
// Queues' names, which are features, too, have no such sign in them.
func SwitchFeature(leaf string) string { return "switch_" + plainName(leaf) }

// plainName keeps of a name what has no meaning in Slurm's lists and constraints.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '.':
			return r
		}
		return '_'
	}, name[:min(len(name), 60)])
}

// RenderTopology returns topology.conf(5): a line for each leaf with its nodes, one for nodes whose leaf is not known, and a
// switch above them all. It is "" where no leaf is known. Where slurmctld does not read it, it is for programs that map ranks to
// the network.
func RenderTopology(peers []protocol.Peer, read bool) string {
	const unknown = "muster_unknown"
	nodes, numbers := map[string][]string{}, map[string]int{unknown: math.MaxInt}
	for _, p := range peers {
		switch {
		case p.Role != protocol.Compute:
		case p.Leaf == "":
			nodes[unknown] = append(nodes[unknown], p.Name)
		default:
			leaf := plainName(p.Leaf)
			if nodes[leaf] == nil {
				numbers[leaf] = p.LeafNumber
			}
			nodes[leaf] = append(nodes[leaf], p.Name)
		}
	}
	leaves := slices.SortedFunc(maps.Keys(nodes), func(a, b string) int {
		return cmp.Or(cmp.Compare(numbers[a], numbers[b]), cmp.Compare(a, b))
	})
	if len(leaves) == 0 || leaves[0] == unknown {
		return ""
	}
	var b strings.Builder
	b.WriteString(written)
	if !read {
		b.WriteString("# This cluster's Slurm does not read it: nodes have their switch as a feature.\n")
	}
	for _, leaf := range leaves {
		fmt.Fprintf(&b, "SwitchName=%s Nodes=%s\n", leaf, strings.Join(nodes[leaf], ","))
	}
	if len(leaves) > 1 {
		fmt.Fprintf(&b, "SwitchName=muster_top Switches=%s\n", strings.Join(leaves, ","))
	}
	return b.String()
}

// switches has slurmctld read on which switches new nodes are. When it starts or reads its files again, it learns that of the
// nodes that it has, and it starts nothing on those that come later.
type switches struct {
	mu   sync.Mutex
	used bool
	read map[string]bool // the nodes that it had then
	at   time.Time
}

// want has slurmctld place jobs by switches from now on, and says that it did not before: it must restart then.
func (s *switches) want() (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = !s.used
	s.used = true
	return first
}

// saw is what a look at Slurm finds. Nodes that have come since slurmctld read its files are not free before it has done so
// again.
func (s *switches) saw(ctx context.Context, c Control, nodes []protocol.NodeState) (failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.used {
		return nil
	}
	there := map[string]bool{}
	var fresh []*protocol.NodeState
	for i := range nodes {
		if there[nodes[i].Name] = true; !s.read[nodes[i].Name] {
			fresh = append(fresh, &nodes[i])
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	const least = time.Second // all slurmd read their files again, too: nodes that come together are read together
	if time.Since(s.at) >= least {
		s.at = time.Now()
		if _, failed = c.run(ctx, "read where new nodes are", "scontrol", "reconfigure"); failed == nil {
			s.read = there
			return nil
		}
	}
	for _, n := range fresh {
		if n.State == protocol.NodeFree {
			n.State = protocol.NodeUnknown
		}
	}
	return failed
}

// without is called before a node goes: who comes back by its name is a new one.
func (s *switches) without(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.read, node)
}
