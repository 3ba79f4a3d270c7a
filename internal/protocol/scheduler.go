package protocol

// Scheduler is what a cluster's scheduler tells of its nodes and of the jobs that wait.
type Scheduler struct {
	Nodes []NodeState `json:"nodes" most:"10000"`
	Waiting
}

// State is what a scheduler may do with a node, whatever word of its own it has for that.
type State string

// The states.
const (
	NodeFree     State = "free"     // it takes jobs and has none
	NodeBusy     State = "busy"     // it has jobs, and takes more if they fit
	NodeDraining State = "draining" // it takes no new jobs and has some
	NodeDrained  State = "drained"  // it takes no new jobs and has none
	NodeDown     State = "down"     // somebody has taken it out of service
	NodeLost     State = "lost"     // the scheduler has given it up, since it does not answer
	NodeUnknown  State = "unknown"  // anything else
)

// States lists them.
func States() []State {
	return []State{NodeFree, NodeBusy, NodeDraining, NodeDrained, NodeDown, NodeLost, NodeUnknown}
}

// StateOf is the state of a node in service: closed, it takes no new jobs; it works if it has some.
func StateOf(closed, works bool) State {
	switch {
	case closed && works:
		return NodeDraining
	case closed:
		return NodeDrained
	case works:
		return NodeBusy
	}
	return NodeFree
}

// NodeState is what a scheduler says of one compute node. The questions below may be asked of nil: the scheduler does not
// know the node.
type NodeState struct {
	Name       string `json:"name"`
	State      State  `json:"state"`
	Responding bool   `json:"responding"`          // the scheduler has recently heard from it
	Jobs       int    `json:"jobs"`                // number of jobs that run on it
	LastBusy   string `json:"last_busy,omitempty"` // when its last job ended, in the scheduler's own format: to compare only
	Reason     string `json:"reason,omitempty"`    // why it is drained or down, as the scheduler says
	Raw        string `json:"raw"`                 // the scheduler's own word for its state
	Reboots    bool   `json:"reboots,omitempty"`   // somebody has told the scheduler to reboot it, and its jobs have ended
	Size       Size   `json:"size,omitzero"`       // what its jobs may use together, as the scheduler counts it
}

// Usable says that a job may begin there.
func (n *NodeState) Usable() bool {
	return n != nil && n.Responding && !n.Reboots && (n.State == NodeFree || n.State == NodeBusy)
}

// Rebooting says that it is to reboot now.
func (n *NodeState) Rebooting() bool { return n != nil && n.Reboots }

// Working says that it has a job.
func (n *NodeState) Working() bool {
	return n != nil && (n.Jobs > 0 || n.State == NodeBusy || n.State == NodeDraining)
}

// Idle says that it is in service and has no job.
func (n *NodeState) Idle() bool {
	return n != nil && !n.Working() && (n.State == NodeFree || n.State == NodeDrained)
}

// Closed says that it takes no new jobs because somebody asked for that.
func (n *NodeState) Closed() bool {
	return n != nil && (n.State == NodeDraining || n.State == NodeDrained)
}

// Drained says that it takes no new jobs, and that the last one has ended.
func (n *NodeState) Drained() bool { return n != nil && n.State == NodeDrained }

// Lost says that the scheduler has given it up.
func (n *NodeState) Lost() bool { return n != nil && n.State == NodeLost }
