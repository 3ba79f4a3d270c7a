package protocol

import "time"

// MostWaiting bounds the jobs that a head tells of; the others are counted.
const MostWaiting = 200

// Waiting are the jobs that wait in the scheduler's queues.
type Waiting struct {
	// Jobs are at most MostWaiting: those first that more nodes would help, then by priority.
	Jobs  []WaitingJob `json:"waiting,omitempty" most:"200" bytes:"65536"`
	Total int          `json:"waits,omitempty"` // jobs that wait, told or not; every task of a job array is one
}

// WaitingJob is a job that waits, or all tasks of a job array that wait for the same.
type WaitingJob struct {
	ID       int       `json:"id"`
	Tasks    int       `json:"tasks"` // 1, or how many of the array; what follows is said of each
	User     string    `json:"user"`
	Queues   []string  `json:"queues" most:"64"` // any of them will do
	Nodes    int       `json:"nodes"`            // at least
	CPUs     int       `json:"cpus"`             // on all its nodes together
	NodeCPUs int       `json:"node_cpus"`        // on one node, at least
	Whole    bool      `json:"whole,omitempty"`  // it shares its nodes with no other job
	Since    time.Time `json:"since"`            // by the head's clock
	Reason   string    `json:"reason"`           // the scheduler's own
	// Grows says that, by the scheduler's reason, it waits for nodes, and not for a time, another job, or a person.
	Grows bool `json:"grows,omitempty"`
}
