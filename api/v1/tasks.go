package v1

import "time"

// TaskOutcome is how a task has ended.
type TaskOutcome string

// The outcomes.
const (
	TaskOK        TaskOutcome = "ok"        // exit status 0
	TaskFailed    TaskOutcome = "failed"    // another status, or it could not be started
	TaskTimedOut  TaskOutcome = "timed-out" // it had not ended at its limit
	TaskCancelled TaskOutcome = "cancelled"
	TaskLost      TaskOutcome = "lost" // it is not known: it may have run, in part or to its end
)

// Task is a program that was run on a cluster from outside.
type Task struct {
	ID        string      `json:"id" doc:"never changes"`
	Cluster   string      `json:"cluster" doc:"name of its cluster"`
	ClusterID string      `json:"cluster_id"`
	Origin    string      `json:"origin,omitempty" enum:"pause" doc:"set if not a user has started it: by a pause of the cluster"`
	Account   string      `json:"account" doc:"whom it runs as; it is the user who asked for it"`
	Phase     Phase       `json:"phase" words:"task phases"`
	Reason    string      `json:"reason,omitempty" doc:"why it is in this phase, or what it waits for"`
	Outcome   TaskOutcome `json:"outcome,omitempty" enum:"ok,failed,timed-out,cancelled,lost" doc:"set once it has ended"`
	Exit      *int        `json:"exit,omitempty" doc:"exit status; 128 + N if signal N ended it; absent: it has none"`
	Work      *TaskBody   `json:"work,omitempty" doc:"what it runs; shown only to its user, or, for a task of a pause, to the project's owners"`
	Job       string      `json:"job,omitempty" doc:"its number in the scheduler"`
	Nodes     []string    `json:"nodes,omitempty" doc:"that it runs or ran on"`
	CreatedAt time.Time   `json:"created_at"`
	Began     *time.Time  `json:"began_at,omitempty" doc:"when its head first saw it run"`
	Ended     *time.Time  `json:"ended_at,omitempty" doc:"when its head first saw it ended"`
	Cancel    bool        `json:"cancel,omitempty" doc:"somebody has asked to cancel it"`
	Bytes     int64       `json:"bytes" doc:"bytes that it wrote"`
	Kept      int64       `json:"kept" doc:"bytes of its output that can be read: the first 8 MiB at most, of recent tasks"`
	Samples   []Sample    `json:"samples,omitempty" doc:"measurements that it reported, at most 200, once it has ended; shown to the same people as work"`
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
	Command []string `json:"command,omitempty" doc:"a program with its arguments, started once per rank; either this or script" maxItems:"4096"`
	Script  string   `json:"script,omitempty" doc:"a script, started once, on the first of the nodes; either this or command" maxLength:"65536"`
	Queue   string   `json:"queue,omitempty" doc:"the queue of its nodes; default: the first, or that of the nodes in on" maxLength:"63"`
	Nodes   int      `json:"nodes,omitempty" doc:"number of nodes; default: as many as its ranks need" minimum:"0" maximum:"4096"`
	On      []string `json:"on,omitempty" doc:"names of nodes, instead of a number" maxItems:"4096"`
	Ranks   int      `json:"ranks,omitempty" doc:"number of ranks; default: one per node" minimum:"0" maximum:"65536"`
	Whole   bool     `json:"whole,omitempty" doc:"do not share its nodes with other jobs"`
	Limit   string   `json:"limit,omitempty" doc:"how long it may run, such as 10m, without waiting; default 1h, at most 7d" maxLength:"20"`
}

// ListTasksInput is what ListTasks takes.
type ListTasksInput struct {
	ClusterRef
	Page
}

// GetTaskOutputInput is what GetTaskOutput takes.
type GetTaskOutputInput struct {
	TaskRef
	From int64 `query:"from" doc:"number of bytes to skip: next of the previous answer" minimum:"0"`
}

// TaskOutput is a piece of what a task has written.
type TaskOutput struct {
	Bytes []byte `json:"bytes" doc:"in base64; empty: no more output yet, or the task has ended"`
	Next  int64  `json:"next" doc:"number of bytes read so far: from of the next request"`
	Ended bool   `json:"task_ended" doc:"the task has ended; when an answer has no bytes, the output is complete"`
}
