package spec

// Cluster is the cluster file. Pointers and empty values mean "not written"; Resolve fills them.
type Cluster struct {
	Name      string    `json:"name"`
	Project   string    `json:"project,omitempty"`
	Site      []string  `json:"site,omitempty"` // one name or a list in order of preference
	Isolation string    `json:"isolation,omitempty"`
	Image     string    `json:"image,omitempty"`
	Nodes     int       `json:"nodes,omitempty"` // short for one queue of this many nodes; empty once resolved
	Head      *Head     `json:"head,omitempty"`
	Queues    []Queue   `json:"queues,omitempty"`
	Storage   []Storage `json:"storage,omitempty"`
	Software  *Software `json:"software,omitempty"`
	Access    *Access   `json:"access,omitempty"`
	Lease     *Lease    `json:"lease,omitempty"`
	Budget    *Budget   `json:"budget,omitempty"`
	Burst     *Burst    `json:"burst,omitempty"`
}

// Head says where users log in.
type Head struct {
	Class string `json:"class,omitempty"`
}

// Queue is a group of nodes of one class: a Slurm partition.
type Queue struct {
	Name      string   `json:"name"`
	Class     string   `json:"class,omitempty"`
	Nodes     *int     `json:"nodes,omitempty"` // short for min = max; empty once resolved
	Min       *int     `json:"min,omitempty"`
	Max       *int     `json:"max,omitempty"`
	Placement string   `json:"placement,omitempty"`
	Or        []string `json:"or,omitempty"`
	VM        *VM      `json:"vm,omitempty"`
}
