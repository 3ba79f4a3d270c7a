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
	ID      int       `json:"id"`
	Tasks   int       `json:"tasks"`             // 1, or how many of the array; what follows is said of each
	AtOnce  int       `json:"at_once,omitempty"` // tasks of the array that may start now; 0: all
	User    string    `json:"user"`
	Queues  []string  `json:"queues" most:"64"` // any of them will do
	Request           // of one queue's nodes
	Since   time.Time `json:"since"`  // by the head's clock
	Reason  string    `json:"reason"` // the scheduler's own
	// Grows says that, by the scheduler's reason, it waits for nodes, and not for a time, another job, or a person.
	Grows bool `json:"grows,omitempty"`
	// Fixed is what it asks for that no new node brings, in words; "": nothing.
	Fixed string `json:"fixed,omitempty"`
}

// Request is what a job asks of the nodes that it gets. A field that is 0 asks for nothing. Memory and /tmp are in MiB.
type Request struct {
	Nodes     int  `json:"nodes"`                // at least
	MostNodes int  `json:"most_nodes,omitempty"` // at most
	CPUs      int  `json:"cpus"`                 // on all its nodes together
	NodeCPUs  int  `json:"node_cpus"`            // that each of its nodes has, at least
	Whole     bool `json:"whole,omitempty"`      // it shares its nodes with no other job

	Ranks     int `json:"ranks,omitempty"`      // programs that it starts side by side; 0: one
	NodeRanks int `json:"node_ranks,omitempty"` // of them on one node, at most
	RankCPUs  int `json:"rank_cpus,omitempty"`  // for each rank, on its node; 0: one

	CPUMemory  int `json:"cpu_memory,omitempty"`  // for each CPU that it gets
	NodeMemory int `json:"node_memory,omitempty"` // on each node, however many CPUs it gets there
	NodeTmp    int `json:"node_tmp,omitempty"`    // that /tmp of each node has, full or not

	GPUs      int `json:"gpus,omitempty"`       // on all its nodes together
	NodeGPUs  int `json:"node_gpus,omitempty"`  // on each node
	RankGPUs  int `json:"rank_gpus,omitempty"`  // for each rank, on its node
	GPUCPUs   int `json:"gpu_cpus,omitempty"`   // beside each GPU that it gets
	GPUMemory int `json:"gpu_memory,omitempty"` // for each GPU that it gets
}

// Size is what the jobs of a node may use together. What is 0 is not known, but for GPUs; without CPUs nothing is. Memory and
// /tmp are in MiB.
type Size struct {
	CPUs    int `json:"cpus,omitempty"`
	Threads int `json:"threads,omitempty"` // CPUs of one core, which no two jobs share
	Memory  int `json:"memory_mib,omitempty"`
	Tmp     int `json:"tmp_mib,omitempty"` // size of /tmp
	GPUs    int `json:"gpus,omitempty"`
}

// Least is what either has: the smaller of what both know. The zero value knows nothing.
func (s Size) Least(of Size) Size {
	switch {
	case s.CPUs == 0:
		return of
	case of.CPUs == 0:
		return s
	}
	return Size{CPUs: min(s.CPUs, of.CPUs), Threads: max(s.Threads, of.Threads), Memory: known(s.Memory, of.Memory),
		Tmp: known(s.Tmp, of.Tmp), GPUs: min(s.GPUs, of.GPUs)}
}

func known(a, b int) int {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}
