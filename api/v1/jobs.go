package v1

import "time"

// Job is a job of a cluster's scheduler.
type Job struct {
	ID        string `json:"id" doc:"as the scheduler writes it; 12_3 is a task of an array"`
	Number    int64  `json:"number" doc:"no other job of the cluster has it"`
	Cluster   string `json:"cluster" doc:"name that its cluster has or had"`
	ClusterID string `json:"cluster_id"`
	Project   string `json:"project"`
	User      string `json:"user" doc:"account that it runs as"`
	Name      string `json:"name,omitempty" doc:"what its user has called it, at most 128 bytes"`
	Queue     string `json:"queue,omitempty"`
	QOS       string `json:"qos,omitempty"`

	State  JobState `json:"state" enum:"pending,running,completed,failed,timed-out,out-of-memory,cancelled,node-failed,preempted,requeued"`
	Reason string   `json:"reason,omitempty" doc:"why it is pending, as the scheduler says"`
	Tasks  int      `json:"tasks,omitempty" doc:"how many tasks of an array are pending together"`
	Exit   *int     `json:"exit,omitempty" doc:"exit status, once it has ended"`
	Signal int      `json:"signal,omitempty" doc:"the signal that ended it"`

	Submitted time.Time  `json:"submitted_at"`
	Began     *time.Time `json:"began_at,omitempty" doc:"absent: it does not run yet, or never ran"`
	Ended     *time.Time `json:"ended_at,omitempty"`
	Seconds   float64    `json:"seconds,omitempty" doc:"seconds from began_at to ended_at"`

	Nodes     string `json:"nodes,omitempty" doc:"names of its nodes, in short" example:"n[1-3]"`
	NodeCount int    `json:"node_count"`
	CPUs      int    `json:"cpus" doc:"CPUs that it has or asks for, on all nodes together"`
	GPUs      int    `json:"gpus,omitempty"`
	MemoryMiB int64  `json:"memory_mib,omitempty" doc:"memory that it had, on all nodes together; absent: memory is not counted"`

	CPUSeconds       float64  `json:"cpu_seconds,omitempty" doc:"CPU time that it used, once it has ended and where that is known"`
	PeakMiB          int64    `json:"peak_mib,omitempty" doc:"memory of its step that used the most, as the scheduler has measured it now and then"`
	Cost             string   `json:"cost,omitempty" doc:"of the larger of its shares of its nodes' CPUs and GPUs, once it has ended; absent where the site has no prices"`
	CPUEfficiency    *float64 `json:"cpu_efficiency,omitempty" doc:"cpu_seconds / (cpus × seconds)"`
	MemoryEfficiency *float64 `json:"memory_efficiency,omitempty" doc:"peak_mib / memory_mib"`
}

// ListJobsInput says which jobs.
type ListJobsInput struct {
	JobsOf
	JobsIn
	State JobState  `query:"state" enum:"completed,failed,timed-out,out-of-memory,cancelled,node-failed,preempted,requeued"`
	Since time.Time `query:"since" doc:"ended at this time or later, in RFC 3339"`
	Until time.Time `query:"until" doc:"ended earlier, in RFC 3339"`
	Page
}

// ListCurrentJobsInput says which jobs.
type ListCurrentJobsInput struct {
	JobsOf
	JobsIn
	State JobState `query:"state" enum:"pending,running"`
	Page
}

// JobsIn limits a list of jobs by cluster and by job.
type JobsIn struct {
	Cluster string `query:"cluster" doc:"only of clusters that have, or had, this name or ID" maxLength:"130"`
	Job     string `query:"job" doc:"only this job; of an array, all its tasks" maxLength:"60"`
}

// JobRef is a job in a path.
type JobRef struct {
	ClusterRef
	Job string `path:"job" doc:"as the scheduler writes it" maxLength:"60"`
}

// JobAct is something that is done with a job that goes on.
type JobAct string

// The acts.
const (
	HoldJob    JobAct = "hold"
	ReleaseJob JobAct = "release"
	RequeueJob JobAct = "requeue"
)

// ChangeJobInput says what to do with a job.
type ChangeJobInput struct {
	JobRef
	Body struct {
		Act JobAct `json:"act" enum:"hold,release,requeue" doc:"hold: it does not start; release: it may again; requeue: it ends, and starts again"`
	}
}

// JobsOf says whose jobs.
type JobsOf struct {
	Project string `query:"project" doc:"only of this project" maxLength:"63"`
	User    string `query:"user" doc:"only of this user" maxLength:"32"`
}

// Efficiency is what jobs had, and what they used of it.
type Efficiency struct {
	Project string `json:"project"`
	User    string `json:"user,omitempty" doc:"absent for all of the project"`
	Jobs    int64  `json:"jobs"`
	Failed  int64  `json:"failed" doc:"those that failed, ran out of time or memory, or lost a node"`

	Cost          string  `json:"cost,omitempty" doc:"of all jobs"`
	CPUHours      float64 `json:"cpu_hours" doc:"hours × CPUs that they had"`
	CPUHoursUsed  float64 `json:"cpu_hours_used"`
	GPUHours      float64 `json:"gpu_hours"`
	CPUEfficiency float64 `json:"cpu_efficiency" doc:"cpu_hours_used / cpu_hours, of jobs of which it is known what they used; 0 without any"`
	// MemoryEfficiency weighs each job by its memory and time.
	MemoryEfficiency float64 `json:"memory_efficiency" doc:"peak memory / memory, each job weighed by its memory × hours; 0 without any"`
}

// GetEfficiencyInput says whose jobs count, and of what time.
type GetEfficiencyInput struct {
	JobsOf
	Since time.Time `query:"since" doc:"ended at this time or later, in RFC 3339"`
	Until time.Time `query:"until" doc:"ended earlier, in RFC 3339"`
	By    string    `query:"by" default:"user" enum:"user,project" doc:"one line for each"`
}

// Efficiencies are those of users or projects.
type Efficiencies struct {
	Items []Efficiency `json:"items"`
}
