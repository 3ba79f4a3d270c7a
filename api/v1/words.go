package v1

// Role is what a person is to a project.
type Role string

// The roles of a project, from the one that may do most.
const (
	RoleOwner  Role = "owner"  // decides who is in the project
	RoleMember Role = "member" // has and uses clusters
	RoleViewer Role = "viewer" // looks
)

// Action is what somebody may do in a project.
type Action string

// The actions.
const (
	ActionSee    Action = "see"    // look at clusters, events, cost
	ActionOwn    Action = "own"    // create, change and delete clusters
	ActionEnter  Action = "enter"  // log in to clusters, open their web apps
	ActionGovern Action = "govern" // say who is in the project
	ActionLead   Action = "lead"   // say what runs as any of its people
)

// Scope is how much of what its person may do a token carries.
type Scope string

// The scopes.
const (
	ScopeAll  Scope = "all"  // whatever its person may
	ScopeRead Scope = "read" // look only
)

// NodeRole is what a node is to its cluster.
type NodeRole string

// The roles of nodes.
const (
	RoleHead    NodeRole = "head"
	RoleCompute NodeRole = "compute"
)

// JobState is what a job does, or how it has ended.
type JobState string

// The states of jobs.
const (
	JobPending     JobState = "pending"
	JobRunning     JobState = "running"
	JobCompleted   JobState = "completed"
	JobFailed      JobState = "failed"
	JobTimedOut    JobState = "timed-out"
	JobOutOfMemory JobState = "out-of-memory"
	JobCancelled   JobState = "cancelled"
	JobNodeFailed  JobState = "node-failed"
	JobPreempted   JobState = "preempted"
	JobRequeued    JobState = "requeued"
)

// JobEnds are the states of jobs that have ended.
func JobEnds() []JobState {
	return []JobState{JobCompleted, JobFailed, JobTimedOut, JobOutOfMemory, JobCancelled, JobNodeFailed, JobPreempted,
		JobRequeued}
}

// SchedulerState is what a scheduler may do with a node, whatever word of its own it has for that.
type SchedulerState string

// The states in which a node takes no new jobs.
const (
	NodeDraining SchedulerState = "draining" // it has some
	NodeDrained  SchedulerState = "drained"  // it has none
)

// Quantity is something that a node's test measures.
type Quantity string

// UsageKind is what is paid for.
type UsageKind string

// By says how much goes into one line of what was used.
type By string

// All of a queue, a node's life, or a period of a node in one state.
const (
	ByQueue By = "queue"
	ByNode  By = "node"
	ByRow   By = "row"
)
