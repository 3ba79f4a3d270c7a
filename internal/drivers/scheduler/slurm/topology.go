package slurm

import (
	"fmt"
	"slices"
	"strings"

	"muster/internal/noded/protocol"
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

// RenderTopology returns topology.conf(5): a line for each leaf with its nodes, and one switch above them all. Nodes of which
// the leaf is not known are in none. It is "" where no leaf is known. Slurm 22.05 itself is not to read it, as it would start
// no job on dynamic nodes then: it is for programs that map ranks to the network.
func RenderTopology(peers []protocol.Peer) string {
	nodes, numbers := map[string][]string{}, map[string]int{}
	var leaves []string
	for _, p := range peers {
		if p.Leaf == "" {
			continue
		}
		leaf := plainName(p.Leaf)
		if nodes[leaf] == nil {
			leaves = append(leaves, leaf)
			numbers[leaf] = p.LeafNumber
		}
		nodes[leaf] = append(nodes[leaf], p.Name)
	}
	if len(leaves) == 0 {
		return ""
	}
	slices.SortStableFunc(leaves, func(a, b string) int { return numbers[a] - numbers[b] })
	var b strings.Builder
	b.WriteString("# Written by muster; changes are overwritten. This cluster's Slurm does not read it: nodes have their " +
		"switch as a feature.\n")
	for _, leaf := range leaves {
		fmt.Fprintf(&b, "SwitchName=%s Nodes=%s\n", leaf, strings.Join(nodes[leaf], ","))
	}
	if len(leaves) > 1 {
		fmt.Fprintf(&b, "SwitchName=muster_top Switches=%s\n", strings.Join(leaves, ","))
	}
	return b.String()
}
