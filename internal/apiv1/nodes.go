package apiv1

import (
	"muster/internal/noded/protocol"
	"muster/internal/place"
	"time"
)

// Node is a member of a cluster.
type Node struct {
	ID      string             `json:"id"`
	Name    string             `json:"name"`
	Role    protocol.Role      `json:"role"`
	Queue   string             `json:"queue,omitempty"`
	Class   string             `json:"class"`
	Machine string             `json:"machine"`
	Leaf    string             `json:"leaf,omitempty" doc:"the leaf switch of its machine, as known when it was chosen"`
	Part    *Part              `json:"part,omitempty" doc:"of a guest: the part of its host that it has"`
	Address string             `json:"address" doc:"on the cluster's own network"`
	Phase   Phase              `json:"phase" words:"node phases"`
	Reason  string             `json:"reason,omitempty"`
	Since   time.Time          `json:"since"`
	Seen    time.Time          `json:"seen,omitzero" doc:"last report of its agent"`
	Checks  []protocol.Check   `json:"checks,omitempty"`
	Undone  []protocol.Undone  `json:"undone,omitempty" doc:"of a head: what it could not do for users yet, and tries again"`
	Facts   protocol.NodeFacts `json:"facts" doc:"what the node reports about itself"`
	// Scheduler and Slurm say the same; only the first has words that mean the same of every scheduler.
	Scheduler *protocol.NodeState `json:"scheduler,omitempty" doc:"what the cluster's scheduler says of it"`
	Slurm     *SlurmNode          `json:"slurm,omitempty" deprecated:"true" doc:"deprecated: use scheduler"`
}

// Part is what a guest holds of its host.
type Part struct {
	Host    string       `json:"host"`
	Cells   []place.Cell `json:"cells" doc:"by NUMA node of the host"`
	Devices []string     `json:"devices,omitempty" doc:"PCI addresses on the host"`
	Share   int          `json:"share" doc:"number of guests that may share its cores, including itself"`
	MovesTo string       `json:"moves_to,omitempty" doc:"the host that it is being moved to"`
}

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
