package lifecycle

import (
	"muster/internal/agent/protocol"
	"muster/internal/store"
)

// A plain cluster has no scheduler of Muster's. What its users run there nobody tells of: so no node waits for Slurm to
// take it in, none waits for jobs to end before it goes, and what MPI may use stands in a host file, which its head writes.

// plain says that the node's cluster has no scheduler.
func (n nodeView) plain() bool { return n.cluster.Spec.Plain() }

// says picks the words for a cluster with Slurm, or for a plain one.
func (n nodeView) says(slurm, plain string) string {
	if n.plain() {
		return plain
	}
	return slurm
}

// listed says that the host file is as the nodes are: what a user was promised is there when the operation ends.
func (c clusterView) listed() bool {
	if !c.Spec.Plain() {
		return true
	}
	for _, n := range c.nodes {
		if n.Role == protocol.Head && n.Phase == store.Ready {
			return n.Seen.Boot == n.Boot && n.Seen.Revision >= c.Revision+n.News
		}
	}
	return false
}
