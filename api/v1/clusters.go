package v1

import "time"

// ListClustersInput is what ListClusters takes.
type ListClustersInput struct {
	Page
	Project string `query:"project" doc:"only those of this project" maxLength:"63"`
	Phase   Phase  `query:"phase" enum:"pending,provisioning,ready,degraded,pausing,paused,resuming,deleting" doc:"only those in this phase"`
}

// ClusterRef is a cluster in a path.
type ClusterRef struct {
	Cluster string `path:"cluster" doc:"name, PROJECT/NAME, or ID" maxLength:"127"`
}

// Request is what every request for a change may carry.
type Request struct {
	DryRun         bool   `query:"dry_run" doc:"plan only; nothing is changed"`
	DrainTimeout   string `query:"drain_timeout" doc:"how long nodes to be removed may wait for their jobs, as a duration such as 10m; then the jobs are ended; default: no limit"`
	IdempotencyKey string `header:"Idempotency-Key" doc:"requests with the same key are executed once and get the same answer" maxLength:"200"`
}

// FileInput is a request that brings a cluster file.
type FileInput struct {
	Request
	RawBody []byte `contentType:"application/yaml"`
}

// ApplyClusterInput is what ApplyCluster takes.
type ApplyClusterInput struct {
	ClusterRef
	FileInput
	RefreshImage bool `query:"refresh_image" doc:"roll out the newest build of the file's image, also where the image's name has not changed"`
}

// ScaleClusterInput is what ScaleCluster takes.
type ScaleClusterInput struct {
	ClusterRef
	Request
	Body ScaleClusterBody
}

// ScaleClusterBody is the body of a ScaleClusterInput.
type ScaleClusterBody struct {
	Queue string `json:"queue,omitempty" doc:"may be left out if there is only one queue" maxLength:"63"`
	Nodes int    `json:"nodes,omitempty" doc:"its size; an elastic queue has this fixed size from now on" minimum:"0" maximum:"1000"`
	Min   *int   `json:"min,omitempty" doc:"with max, instead of nodes: the queue grows and shrinks between these with its jobs" minimum:"0" maximum:"1000"`
	Max   *int   `json:"max,omitempty" minimum:"1" maximum:"1000"`
}

// CreateClusterInput is what CreateCluster takes.
type CreateClusterInput struct {
	FileInput
	FromSnapshot string `query:"from_snapshot" doc:"name or ID of the snapshot that the cluster gets its /home and its queue of jobs from" maxLength:"63"`
}

// DeleteClusterInput is what DeleteCluster takes.
type DeleteClusterInput struct {
	ClusterRef
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"200"`
}

// Term is when a cluster's lease runs.
type Term struct {
	StartsAt time.Time `json:"starts_at" doc:"when it starts"`
	EndsAt   time.Time `json:"ends_at,omitzero" doc:"absent: no end"`
	OnEnd    Desired   `json:"on_end" enum:"paused,deleted" doc:"what happens at its end"`
}

// ExtendClusterInput is what ExtendCluster takes.
type ExtendClusterInput struct {
	ClusterRef
	Request
	Body ExtendClusterBody
}

// ExtendClusterBody is the body of a ExtendClusterInput.
type ExtendClusterBody struct {
	For   string `json:"for,omitempty" doc:"how much longer, such as 2d; counted from the present end, or from now if that has passed" maxLength:"20"`
	Until string `json:"until,omitempty" doc:"the new end, in RFC 3339 or as +2d from now; either this or for" maxLength:"40"`
}

// PauseClusterInput is what PauseCluster takes.
type PauseClusterInput struct {
	ClusterRef
	Request
	OnJobs string `query:"on_jobs" enum:"requeue,wait,keep" doc:"requeue: running jobs are requeued at once; wait: wait for them, for drain_timeout at most; keep: suspend the nodes with them, if all nodes are virtual machines that can be suspended. For a paused cluster, requeue discards the memory that it keeps. Default: wait if there is a drain_timeout, else requeue"`
}

// ResumeClusterInput is what ResumeCluster takes.
type ResumeClusterInput struct {
	ClusterRef
	DryRun         bool   `query:"dry_run" doc:"plan only; nothing is changed"`
	IdempotencyKey string `header:"Idempotency-Key" doc:"requests with the same key are executed once and get the same answer" maxLength:"200"`
}

// Rollout is how far the nodes of a cluster are with what they are to boot.
type Rollout struct {
	To       string   `json:"to" doc:"the image that nodes boot, as text"`
	Done     int      `json:"done" doc:"number of nodes that are ready with it"`
	Total    int      `json:"total"`
	Draining []string `json:"draining,omitempty" doc:"nodes that wait for their jobs to end"`
	Stopped  string   `json:"stopped,omitempty" doc:"why it has stopped; it continues when it is resumed or another change is made"`
}

// Step is what a change does to one node that is there.
type Step struct {
	Node   string `json:"node"`
	Action string `json:"action" enum:"remove,reboot"`
	Wave   int    `json:"wave" doc:"those of a wave may be down at the same time; each wave waits for the one before"`
	When   string `json:"when"`
	Why    string `json:"reason"`
}

// ChangeRolloutInput is what ChangeRollout takes.
type ChangeRolloutInput struct {
	ClusterRef
	Request
	Body ChangeRolloutBody
}

// ChangeRolloutBody is the body of a ChangeRolloutInput.
type ChangeRolloutBody struct {
	Action string `json:"action" enum:"resume,back" doc:"resume: continue; back: return to the image with which all of the cluster was last ready"`
}

// Cluster is a cluster as users see it.
type Cluster struct {
	ID         string       `json:"id" doc:"never changes"`
	Name       string       `json:"name"`
	Project    string       `json:"project"`
	Phase      Phase        `json:"phase" words:"cluster phases"`
	Desired    Desired      `json:"desired" enum:"present,paused,deleted" doc:"what is wanted of it"`
	Reason     string       `json:"reason,omitempty" doc:"why it is in this phase, or what it waits for"`
	Held       int64        `json:"held,omitempty" doc:"bytes of /home and state that a paused cluster takes"`
	Home       *HomeUsage   `json:"home,omitempty" doc:"how full /home is; absent if not known"`
	Lacks      string       `json:"lacks,omitempty" doc:"why missing nodes cannot be added now"`
	Since      time.Time    `json:"since" doc:"when the phase began"`
	Rollout    *Rollout     `json:"rollout,omitempty" doc:"set while nodes have another image than the spec says"`
	Generation int64        `json:"generation" doc:"of the spec; every accepted change adds one"`
	Reached    int64        `json:"reached" doc:"the newest generation that was completely ready"`
	Image      string       `json:"image" doc:"digest"`
	Spec       ClusterSpec  `json:"spec" doc:"with all defaults filled in"`
	Lease      Term         `json:"lease"`
	Price      string       `json:"price,omitempty" doc:"per hour when all its nodes are ready, where the site has prices"`
	Cost       string       `json:"cost,omitempty" doc:"charged so far"`
	PerHour    string       `json:"per_hour,omitempty" doc:"charged per hour at present"`
	Limits     []Limit      `json:"limits,omitempty" doc:"the cluster's own budget"`
	CreatedAt  time.Time    `json:"created_at"`
	CreatedBy  string       `json:"created_by"`
	Nodes      []Node       `json:"nodes" doc:"nodes that are not gone, the head first"`
	Keys       []ClusterKey `json:"keys,omitempty" doc:"its partitions on InfiniBand fabrics"`
	Apps       []WebApp     `json:"apps,omitempty" doc:"its web apps"`
	Waiting    *Waiting     `json:"waiting,omitempty" doc:"jobs that wait; absent if none does"`
	Receipt    *Receipt     `json:"receipt,omitempty" doc:"proof of its end, once deleted"`
}

// HomeUsage is how full a cluster's /home is, in bytes.
type HomeUsage struct {
	Size int64 `json:"size" doc:"size in bytes"`
	Used int64 `json:"used" doc:"bytes used"`
}

// Operation is an accepted change on its way. It is done when the cluster has reached its generation, or is paused, or is
// deleted.
type Operation struct {
	Kind        string `json:"kind" enum:"create,change,pause,resume,delete"`
	Cluster     string `json:"cluster" doc:"ID"`
	Generation  int64  `json:"generation"`
	EventsAfter int64  `json:"events_after" doc:"its events have higher numbers; give it as Last-Event-ID"`
}

// Plan is what a change does, or would do.
type Plan struct {
	Changes  []Change    `json:"changes" doc:"differences from the running cluster"`
	Messages []string    `json:"messages"`
	Price    string      `json:"price,omitempty" doc:"per hour, of the whole cluster"`
	Total    string      `json:"total,omitempty" doc:"what its lease costs if nothing changes; absent if it has none"`
	After    *Quota      `json:"after,omitempty" doc:"what its project holds once it is done, and how long the limits last at the rate that it then has; absent unless it is a dry run after which the cluster has nodes"`
	FitsAt   *time.Time  `json:"fits_at,omitempty" doc:"when it can start; absent: now"`
	ReadyIn  *ReadyIn    `json:"ready_in,omitempty" doc:"how long its nodes will take about, once it can start; absent unless it is a dry run that adds nodes, and nodes of their classes are ready"`
	Add      []Placed    `json:"add" doc:"nodes to be added, with the machines chosen for them"`
	Release  []string    `json:"release" doc:"nodes to be removed"`
	Steps    []Step      `json:"steps" doc:"what happens to existing nodes: which, when and why"`
	Layouts  []Layout    `json:"layouts,omitempty" doc:"where the nodes of each queue are in the network, if that is known"`
	Spec     ClusterSpec `json:"spec" doc:"with all defaults filled in"`
}

// ReadyIn is how long nodes took that are ready now: nine in ten no less than Low, nine in ten no more than High.
type ReadyIn struct {
	Low   float64 `json:"low_seconds"`
	High  float64 `json:"high_seconds"`
	Nodes int     `json:"nodes" doc:"how many they were: the last hundred at most"`
}

// Layout is how a queue's nodes lie in a fabric.
type Layout struct {
	Queue    string     `json:"queue"`
	Fabric   string     `json:"fabric"`
	Leaves   []LeafPart `json:"leaves" doc:"the one with the most nodes first"`
	Hops     int        `json:"hops" doc:"links between switches on the longest path between two nodes: 0 on one leaf, 2 over a spine; -1 if a path is not known"`
	MeanHops float64    `json:"mean_hops" doc:"mean number of links between switches, over all pairs of nodes"`
	Unknown  int        `json:"unknown,omitempty" doc:"number of nodes whose leaf switch is not known"`
	Text     string     `json:"text" doc:"all of it in one sentence"`
}

// LeafPart is how many nodes are on a leaf switch.
type LeafPart struct {
	Leaf   string `json:"leaf" doc:"its leaf switch; of machines with several rails all of them: leaf01+leaf02"`
	Nodes  int    `json:"nodes"`
	Cables int    `json:"cables,omitempty" doc:"number of cables to other switches, which the nodes share; 0: not known"`
}

// Placed is a node with its machine.
type Placed struct {
	Node    string `json:"node"`
	Queue   string `json:"queue,omitempty"`
	Class   string `json:"class"`
	Machine string `json:"machine"`
}

// Answer is a plan and, unless it was a dry run, what was made of it.
type Answer struct {
	Plan
	Cluster   *Cluster   `json:"cluster,omitempty" doc:"absent on a dry run"`
	Operation *Operation `json:"operation,omitempty" doc:"absent on a dry run and when nothing changes"`
}

// Waiting are the jobs that wait in a cluster's queues, as its head told last.
type Waiting struct {
	Total int          `json:"total" doc:"number of jobs that wait; every task of a job array counts"`
	Jobs  []WaitingJob `json:"jobs" doc:"first those for which nodes can be added, then by priority; at most 200"`
}

// WaitingJob is a job that waits, or all tasks of a job array that wait for the same.
type WaitingJob struct {
	ID       int       `json:"id"`
	Tasks    int       `json:"tasks" doc:"number of tasks of the job array, else 1"`
	User     string    `json:"user"`
	Queues   []string  `json:"queues" doc:"queues in which it may run"`
	Nodes    int       `json:"nodes" doc:"number of nodes that it needs at least"`
	CPUs     int       `json:"cpus" doc:"on all its nodes together"`
	Since    time.Time `json:"since"`
	Reason   string    `json:"reason" doc:"the scheduler's own"`
	WaitsFor string    `json:"waits_for" doc:"the reason in plain words, and what would end it where that is known"`
}

// ClusterKey is a partition that a cluster has on a fabric.
type ClusterKey struct {
	Fabric string `json:"fabric"`
	Key    string `json:"key"`
	Ports  int    `json:"ports" doc:"number of ports that are to be members"`
}

// Receipt is the proof of a cluster's end.
type Receipt struct {
	Machines []string `json:"machines"` // every machine that was given back
	// Released is how each whole machine was: switched off, its disks erased and read back.
	Released []Released `json:"released,omitempty"`
	// Guests are those of the machines that were parts of others. Their memory and disks went with them.
	Guests  []GuestEnd `json:"guests,omitempty"`
	Seconds float64    `json:"seconds"` // from creation to the proof
	At      time.Time  `json:"at"`      // when nothing was left
}

// Released is a machine with the receipt of its release.
type Released struct {
	Machine string  `json:"machine"`
	Release Release `json:"release"`
}

// GuestEnd is a guest that a cluster had.
type GuestEnd struct {
	Guest string `json:"guest"`
	Host  string `json:"host"`
}
