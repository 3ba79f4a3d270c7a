package apiv1

import "time"

// TaskOutcome is how a task has ended.
type TaskOutcome string

// The outcomes.
const (
	TaskOK        TaskOutcome = "ok"        // exit status 0
	TaskFailed    TaskOutcome = "failed"    // another status, or it could not be started
	TaskTimedOut  TaskOutcome = "timed-out" // it had not ended at its limit
	TaskCancelled TaskOutcome = "cancelled"
	TaskLost      TaskOutcome = "lost" // nobody knows: it may have run, in part or to its end
)

// Task is a program that was run on a cluster from outside.
type Task struct {
	ID        string      `json:"id" doc:"for life"`
	Cluster   string      `json:"cluster" doc:"name of its cluster"`
	ClusterID string      `json:"cluster_id"`
	Origin    string      `json:"origin,omitempty" enum:"pause" doc:"what has asked for it, if that was no user: a pause of the cluster"`
	Account   string      `json:"account" doc:"whom it runs as; it is the user who asked for it"`
	Phase     Phase       `json:"phase" words:"task phases"`
	Reason    string      `json:"reason,omitempty" doc:"why it is in this phase, or what it waits for"`
	Outcome   TaskOutcome `json:"outcome,omitempty" enum:"ok,failed,timed-out,cancelled,lost" doc:"once it has ended"`
	Exit      *int        `json:"exit,omitempty" doc:"exit status; 128 + N of signal N; absent: it had none"`
	Work      *TaskBody   `json:"work,omitempty" doc:"what it runs; only to whom it runs as; a pause's to the project's owners"`
	Job       string      `json:"job,omitempty" doc:"its number in the scheduler"`
	Nodes     []string    `json:"nodes,omitempty" doc:"that it runs or ran on"`
	CreatedAt time.Time   `json:"created_at"`
	Began     *time.Time  `json:"began,omitempty" doc:"when its head saw it run"`
	Ended     *time.Time  `json:"ended,omitempty" doc:"when its head saw it end"`
	Cancel    bool        `json:"cancel,omitempty" doc:"somebody asked for its end"`
	Bytes     int64       `json:"bytes" doc:"that it wrote"`
	Kept      int64       `json:"kept" doc:"bytes of it that can be read: the first 8 MiB at most, of tasks that have ended lately"`
	Samples   []Sample    `json:"samples,omitempty" doc:"once it has ended, at most 200; shown as work is"`
}

// Sample is a number that a program has told.
type Sample struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
}

// TaskRef is a task in a path.
type TaskRef struct {
	Task string `path:"task" doc:"its ID" maxLength:"60"`
}

// RunTaskInput is what RunTask takes.
type RunTaskInput struct {
	ClusterRef
	Body TaskBody
}

// TaskBody says what to run, where, and for how long.
type TaskBody struct {
	Command []string `json:"command,omitempty" doc:"a program with its arguments, started once a rank; or script" maxItems:"4096"`
	Script  string   `json:"script,omitempty" doc:"instead: a script, started once, on the first of the nodes" maxLength:"65536"`
	Queue   string   `json:"queue,omitempty" doc:"the queue of its nodes; left out: the first, or that of the nodes named" maxLength:"63"`
	Nodes   int      `json:"nodes,omitempty" doc:"how many nodes; left out: as many as its ranks take" minimum:"0" maximum:"4096"`
	On      []string `json:"on,omitempty" doc:"instead: these nodes" maxItems:"4096"`
	Ranks   int      `json:"ranks,omitempty" doc:"how many ranks; left out: one a node" minimum:"0" maximum:"65536"`
	Whole   bool     `json:"whole,omitempty" doc:"it shares its nodes with no other job"`
	Limit   string   `json:"limit,omitempty" doc:"how long it may run, such as 10m; waiting does not count; left out: 1h" maxLength:"20"`
}

// ListTasksInput is what ListTasks takes.
type ListTasksInput struct {
	ClusterRef
	Page
}

// GetTaskOutputInput is what GetTaskOutput takes.
type GetTaskOutputInput struct {
	TaskRef
	From int64 `query:"from" doc:"bytes to leave out: the next of the answer before" minimum:"0"`
}

// TaskOutput is a piece of what a task has written.
type TaskOutput struct {
	Bytes []byte `json:"bytes" doc:"in base64; none: there is no more yet, or it has ended"`
	Next  int64  `json:"next" doc:"where the next piece begins"`
	Ended bool   `json:"ended" doc:"the task has ended: once there are no bytes, there will be no more"`
}
