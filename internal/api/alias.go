package api

import (
	"muster/internal/apiv1"
	"muster/internal/noded/protocol"
)

// slurmAlias says it in these words; nil of a node that the scheduler does not know.
func slurmAlias(s *protocol.NodeState) *apiv1.SlurmNode {
	if s == nil {
		return nil
	}
	return &apiv1.SlurmNode{Name: s.Name, State: s.Raw, Drain: s.Closed(), Responding: s.Responding, Jobs: s.Jobs,
		LastBusy: s.LastBusy, Reason: s.Reason}
}
