package clusterlife

import (
	"fmt"

	"muster/internal/core"
	"muster/internal/kinds/node"
	"muster/internal/kit/words"
)

// standing is how a cluster's nodes are, beside how they are to be.
type standing struct {
	want    int                 // compute nodes; the head comes on top
	ready   int                 // of them
	present int                 // nodes that are to stay, ready or not, the head among them
	waits   map[string][]string // phase → nodes that are not ready
	// settled says that all that was promised is there. What an elastic queue has above its min comes and goes with the
	// jobs, and the cluster is no less ready for it.
	settled bool
}

func (c clusterView) standing() standing {
	s := standing{waits: map[string][]string{}}
	ready, moving := map[string]int{}, map[string]int{} // by queue; the head's is ""
	for _, n := range c.nodes {
		word := n.Phase
		if n.Desired == node.Absent && n.Phase == core.Ready {
			word = node.Draining
		}
		if n.Desired == core.Present {
			s.present++
		}
		if word == core.Ready {
			ready[n.Queue]++
			continue
		}
		moving[n.Queue]++
		s.waits[string(word)] = append(s.waits[string(word)], n.Name)
	}
	s.settled = ready[""] == 1
	for _, q := range c.Spec.Queues {
		wants := c.Wants(q)
		s.want += wants
		s.ready += ready[q.Name]
		if q.Elastic() {
			s.settled = s.settled && ready[q.Name] >= *q.Min
			delete(moving, q.Name)
			continue
		}
		s.settled = s.settled && ready[q.Name] == wants
	}
	s.settled = s.settled && len(moving) == 0 // of queues of fixed size, and of those that are no more
	return s
}

// text is "head and 4 nodes ready", or how many of how many and what the others do.
func (s standing) text() string {
	if s.settled && s.ready == s.want && len(s.waits) == 0 {
		return fmt.Sprintf("head and %s ready", words.Count(s.want, "node"))
	}
	return summary(s.ready, s.want, s.waits)
}
