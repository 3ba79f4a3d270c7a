package api

import "muster/internal/agent/protocol"

// SlurmNode is what the API said of a node before it had words for every scheduler.
type SlurmNode struct {
	Name       string `json:"name"`
	State      string `json:"state"`
	Drain      bool   `json:"drain,omitempty"`
	Responding bool   `json:"responding"`
	Jobs       int    `json:"jobs"`
	LastBusy   string `json:"last_busy,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// slurmAlias says it in these words; nil of a node that the scheduler does not know.
func slurmAlias(s *protocol.NodeState) *SlurmNode {
	if s == nil {
		return nil
	}
	return &SlurmNode{s.Name, s.Raw, s.Closed(), s.Responding, s.Jobs, s.LastBusy, s.Reason}
}
