package v1

// ClusterSpec is the cluster file. Pointers and empty values mean "not written". What the controller answers is resolved: it has
// filled them.
type ClusterSpec struct {
	Name       string      `json:"name"`
	Project    string      `json:"project,omitempty"`
	Site       []string    `json:"site,omitempty"` // one name or a list in order of preference
	Isolation  string      `json:"isolation,omitempty"`
	Image      string      `json:"image,omitempty"`
	Boot       string      `json:"boot,omitempty"`
	Update     *Update     `json:"update,omitempty"`
	Nodes      int         `json:"nodes,omitempty"` // short for one queue of this many nodes; empty once resolved
	Head       *Head       `json:"head,omitempty"`
	Accounting string      `json:"accounting,omitempty"`
	QOS        []QOS       `json:"qos,omitempty"`
	Shares     []UserShare `json:"shares,omitempty"`
	Queues     []Queue     `json:"queues,omitempty"`
	Storage    []Storage   `json:"storage,omitempty"`
	Software   *Software   `json:"software,omitempty"`
	Access     *Access     `json:"access,omitempty"`
	Lease      *Lease      `json:"lease,omitempty"`
	Budget     *Budget     `json:"budget,omitempty"`
	Pause      *Pause      `json:"pause,omitempty"`
	Burst      *Burst      `json:"burst,omitempty"`
}

// Update says how a rolling change goes from node to node.
type Update struct {
	MaxUnavailable string `json:"max_unavailable,omitempty"` // a number of nodes, or a percentage of them
}

// Head says where users log in.
type Head struct {
	Class string `json:"class,omitempty"`
}

// Queue is a group of nodes of one class, which jobs are submitted to: a partition.
type Queue struct {
	Name      string   `json:"name"`
	Class     string   `json:"class,omitempty"`
	Nodes     *int     `json:"nodes,omitempty"` // short for min = max; empty once resolved
	Min       *int     `json:"min,omitempty"`
	Max       *int     `json:"max,omitempty"`
	IdleAfter string   `json:"idle_after,omitempty"` // of a queue that grows and shrinks; empty for one of fixed size
	Placement string   `json:"placement,omitempty"`
	Or        []string `json:"or,omitempty"` // classes to take instead, in order
	VM        *VM      `json:"vm,omitempty"`
}

// Elastic says that a resolved queue grows and shrinks with its jobs.
func (q Queue) Elastic() bool { return *q.Min < *q.Max }

// Classes are the classes of a resolved queue's nodes, the preferred one first.
func (q Queue) Classes() []string { return append([]string{q.Class}, q.Or...) }

// VM is the part of a machine that each node of a queue gets.
type VM struct {
	CPUs      int      `json:"cpus,omitempty"`
	Memory    string   `json:"memory,omitempty"`
	Devices   *Devices `json:"devices,omitempty"`
	Locality  string   `json:"locality,omitempty"` // of the devices; empty where there are none
	GPUDirect bool     `json:"gpu_direct,omitempty"`
}

// Devices are how many devices of each kind a node gets.
type Devices struct {
	GPU  int `json:"gpu,omitempty"`
	IB   int `json:"ib,omitempty"`
	Eth  int `json:"eth,omitempty"`
	NVMe int `json:"nvme,omitempty"`
}

// Storage is a file system that every node mounts.
type Storage struct {
	Mount  string `json:"mount"`
	Size   string `json:"size,omitempty"`
	Keep   *bool  `json:"keep,omitempty"` // outlives the cluster
	Source string `json:"source,omitempty"`
}

// Software is what runs on the nodes.
type Software struct {
	Scheduler string   `json:"scheduler,omitempty"`
	Packages  []string `json:"packages,omitempty"`
	Setup     string   `json:"setup,omitempty"`
}

// Scheduler names what starts jobs on a cluster's nodes; "" in a file that does not say so and was not resolved.
func (c ClusterSpec) Scheduler() string {
	if c.Software == nil {
		return ""
	}
	return c.Software.Scheduler
}

// QOS is a quality of service of jobs: a priority and limits. Zero and "" are none.
type QOS struct {
	Name     string      `json:"name"`
	Priority int         `json:"priority,omitempty"`
	MaxTime  string      `json:"max_time,omitempty"`
	MaxNodes int         `json:"max_nodes,omitempty"` // of a job
	PerUser  *UserLimits `json:"per_user,omitempty"`
}

// UserLimits are what the jobs of one user may have at the same time. Zero is no limit.
type UserLimits struct {
	CPUs      int `json:"cpus,omitempty"`
	Nodes     int `json:"nodes,omitempty"`
	Jobs      int `json:"jobs,omitempty"`
	Submitted int `json:"submitted,omitempty"`
}

// UserShare is a user's part of the cluster, next to 1 of everybody whom the file does not name.
type UserShare struct {
	User  string `json:"user"`
	Share int    `json:"share"`
}

// Access says who may come in besides the owner, and to what.
type Access struct {
	Users   []string `json:"users,omitempty"`
	Apps    []App    `json:"apps,omitempty"`
	OnLogin string   `json:"on_login,omitempty"` // what a login does while the cluster is paused
}

// App is a web application of the cluster that the site's HTTPS door leads to.
type App struct {
	Name string `json:"name"`
	Port int    `json:"port"`
	Node string `json:"node,omitempty"`
}

// Apps are the cluster's web applications.
func (c ClusterSpec) Apps() []App {
	if c.Access == nil {
		return nil
	}
	return c.Access.Apps
}

// Lease says when the cluster starts and ends, and what happens at its end.
type Lease struct {
	Start string `json:"start,omitempty"` // "now", an RFC 3339 time, or "+2h" from the request on
	For   string `json:"for,omitempty"`
	OnEnd string `json:"on_end,omitempty"`
}

// Budget limits what the cluster may cost.
type Budget struct {
	Limit   string `json:"limit,omitempty"` // amount and currency: "500 EUR"
	OnLimit string `json:"on_limit,omitempty"`
}

// Pause is what a pause keeps besides /home and the queue of jobs.
type Pause struct {
	Keep string `json:"keep"`
}

// Burst lends nodes of another site when this one is full.
type Burst struct {
	To  string `json:"to,omitempty"`
	Max int    `json:"max,omitempty"`
}

// Effect is what changing a field of the file does to a running cluster.
type Effect string

// Change is one difference between two clusters, and what it does to the running one.
type Change struct {
	Path   string `json:"path"` // entries of lists by name: "queues[cpu].max", "storage[/home].size"
	Old    string `json:"old"`  // empty for what is new
	New    string `json:"new"`  // empty for what is gone
	Effect Effect `json:"effect"`
	Why    string `json:"reason"`
}
