package protocol

import "time"

// JobsPath is where a head tells of its scheduler's jobs, by JobsTold → JobsKept.
const JobsPath = "/agent/v1/jobs"

// Bounds of what is told of jobs at a time.
const (
	MostEnded   = 5000 // more than end within a second
	MostCurrent = 500
)

// JobsTold are jobs of a head's scheduler. The zero value tells nothing, and asks what is known.
type JobsTold struct {
	Ended []EndedJob `json:"ended,omitempty" most:"5000"`
	// Until says how far these go: with those that were told before, they are all that ended earlier. Zero: that is not known.
	Until time.Time `json:"until,omitzero"`
	// Current are those that have not ended; nil: they are as they were told last.
	Current *CurrentJobs `json:"current,omitempty" bytes:"262144"`
}

// JobsKept says from when on the controller wants to hear of jobs that have ended.
type JobsKept struct {
	Since time.Time `json:"since"`
}

// Job is what is said of any job: a task of an array, or a component of a heterogeneous job, is one. Times are whole seconds.
type Job struct {
	Number int64  `json:"number"` // no other job of the cluster has it
	ID     string `json:"id"`     // as the scheduler's users write it: 12; 12_3 of an array
	User   string `json:"user"`   // the account
	Queue  string `json:"queue"`
	QOS    string `json:"qos,omitempty"`
	Name   string `json:"name"`            // whatever its user has called it
	Nodes  string `json:"nodes,omitempty"` // their names in short, as n[1-3]

	// What it has, or asks for, on all nodes together.
	NodeCount int   `json:"node_count"`
	CPUs      int   `json:"cpus"`
	GPUs      int   `json:"gpus,omitempty"`
	MemoryMiB int64 `json:"memory_mib,omitempty"` // 0: memory is not counted

	Submitted time.Time `json:"submitted"`
	Began     time.Time `json:"began,omitzero"` // zero: it does not run yet, or never ran
}

// CurrentJobs are the first that have not ended: those that are on nodes, and then in order of priority.
type CurrentJobs struct {
	Jobs []CurrentJob `json:"jobs,omitempty" most:"500"`
	// Of all there are.
	Running int `json:"running,omitempty"`
	Waiting int `json:"waiting,omitempty"`
}

// CurrentJob is a job that has not ended, or all tasks of an array that wait together.
type CurrentJob struct {
	Job
	Tasks  int    `json:"tasks"`            // of the array; 1
	Reason string `json:"reason,omitempty"` // why it waits, as the scheduler says
}

// EndedJob is a job that has ended. One that was queued again ends more than once.
type EndedJob struct {
	Job
	Ended   time.Time `json:"ended"`
	Outcome JobState  `json:"outcome"` // one of JobEnds
	Exit    int       `json:"exit,omitempty"`
	Signal  int       `json:"signal,omitempty"` // that ended it
	Used    *JobUse   `json:"used,omitempty"`   // nil: not known
}

// JobUse is what a job used, on all nodes together.
type JobUse struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	PeakMiB    int64   `json:"peak_mib"` // of its step that used the most memory; see MemoryMiB; 0: not measured
}

// JobState is what a job does, or how it has ended.
type JobState string

// The states.
const (
	JobPending JobState = "pending"
	JobRunning JobState = "running"

	JobCompleted   JobState = "completed" // exit status 0
	JobFailed      JobState = "failed"
	JobTimedOut    JobState = "timed-out"
	JobOutOfMemory JobState = "out-of-memory"
	JobCancelled   JobState = "cancelled"
	JobNodeFailed  JobState = "node-failed"
	JobPreempted   JobState = "preempted"
	JobRequeued    JobState = "requeued" // it waits again
)

// JobEnds lists the states of jobs that have ended.
func JobEnds() []JobState {
	return []JobState{JobCompleted, JobFailed, JobTimedOut, JobOutOfMemory, JobCancelled, JobNodeFailed, JobPreempted,
		JobRequeued}
}
