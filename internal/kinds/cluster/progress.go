package cluster

import (
	"slices"

	"muster/internal/core"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// NextToReboot are the nodes to reboot now, so that never more are down than its file allows, whatever the others
// are down for. Compute nodes come first, those without jobs before the others; the head, by which users and jobs find
// each other, comes alone and last.
func (c Cluster) NextToReboot(nodes []node.Node) []node.Node {
	if c.Desired != core.Present || c.Halted() {
		return nil
	}
	want := c.WantsInAll()
	up, settled := 0, true
	var behind, head []node.Node
	for _, n := range nodes {
		steady := n.Desired == core.Present && n.Phase == core.Ready && !n.Renew
		switch {
		case n.Role == protocol.Head && steady && c.Behind(n):
			head = append(head, n)
		case n.Role == protocol.Head:
		case !steady:
			settled = settled && n.Desired == node.Absent
		default:
			up++
			if c.Behind(n) {
				behind = append(behind, n)
			}
		}
	}
	// A node that died and has no successor yet is missing; one for which there is no machine is not waited for.
	if len(behind) == 0 && settled && (up >= want || c.Short != "") {
		return head
	}
	slices.SortStableFunc(behind, node.CheapestFirst)
	return behind[:min(len(behind), max(0, spec.Unavailable(c.Spec, want)-max(0, want-up)))]
}

// Progress is how far a rollout is.
type Progress struct {
	To       string   // in words: "image debian13-hpc"
	Done     int      // nodes that are ready with it
	Total    int      // nodes that are to stay
	Draining []string // nodes that wait for their jobs
}

// Progress counts the nodes of a rollout. It reports false where there is nothing to roll out.
func (c Cluster) Progress(nodes []node.Node) (Progress, bool) {
	p := Progress{To: node.Aim(c.Root(), c.Rollout.Good)}
	behind := false
	for _, n := range nodes {
		if n.Desired != core.Present {
			continue
		}
		p.Total++
		behind = behind || c.Behind(n)
		switch {
		case n.Phase == core.Ready && n.Boot > 0 && n.Has(c.Root()):
			p.Done++
		case n.Phase == node.Draining && n.Renew:
			p.Draining = append(p.Draining, n.Name)
		}
	}
	return p, behind || c.Halted()
}
