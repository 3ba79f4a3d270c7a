package protocol

import "time"

// Bounds of tasks. Who asks for more is refused; of what a node says beyond them, nothing is kept.
const (
	MostTasks       = 16       // that a head is told of at a time
	MostScript      = 64 << 10 // bytes of a script, and of a command
	MostTaskSamples = 200      // of a task
	MostTaskOutput  = 8 << 20  // bytes of a task's output that are kept: the first
	MostTaskPiece   = 256 << 10
)

// TaskPath is where a head delivers a task's output, by TaskOutput → TaskKept.
const TaskPath = "/agent/v1/task"

// Task is a program that the head is to have run once, as a user of the cluster: by the cluster's scheduler, or, where there is
// none, on the head itself. The system's runs there always, at once, as root. It stands in the head's Config until its end was
// heard.
type Task struct {
	ID      string   `json:"id"`
	Account string   `json:"account"`           // one of Config.Users, or, of the system's, root
	System  bool     `json:"system,omitempty"`  // Command is a program of the image; where it has none, all is well
	Command []string `json:"command,omitempty"` // started once a rank; or
	// started once, on the first of its nodes, by bash or what its first line names
	Script string   `json:"script,omitempty"`
	Queue  string   `json:"queue,omitempty"` // "": the default
	Nodes  int      `json:"nodes,omitempty"` // 0: as many as its ranks take
	On     []string `json:"on,omitempty"`    // these nodes; the head alone: there, at once, and by no scheduler
	Ranks  int      `json:"ranks,omitempty"` // 0: one a node
	Whole  bool     `json:"whole,omitempty"` // shares its nodes with no other job
	// Reservation is what somebody has set nodes of the cluster aside by; "": it takes what anybody may.
	Reservation string        `json:"reservation,omitempty"`
	Limit       time.Duration `json:"limit"` // of its run, without its wait
	Cancel      bool          `json:"cancel,omitempty"`
	// Boot is the head's that was told of it first. A later one that finds nothing of it does not begin it: it may have run.
	Boot int64 `json:"boot"`
}

// TaskStage is how far a task is.
type TaskStage string

// The stages.
const (
	TaskWaits TaskStage = "waits" // in the scheduler's queue
	TaskRuns  TaskStage = "runs"
	TaskEnded TaskStage = "ended" // and its output was delivered
)

// TaskOutcome is how a task ended.
type TaskOutcome string

// The outcomes.
const (
	TaskOK        TaskOutcome = "ok"        // exit status 0
	TaskFailed    TaskOutcome = "failed"    // another status, or it could not be started
	TaskTimedOut  TaskOutcome = "timed-out" // it had not ended at its limit
	TaskCancelled TaskOutcome = "cancelled" // somebody asked for that
	TaskLost      TaskOutcome = "lost"      // it is not known: it may have run, in part or to its end
)

// TaskState is what a head knows of a task.
type TaskState struct {
	ID      string       `json:"id"`
	Stage   TaskStage    `json:"stage"`
	Outcome TaskOutcome  `json:"outcome,omitempty"`                         // once ended
	Exit    *int         `json:"exit,omitempty"`                            // status, 128 + N for signal N; nil: it had none
	Text    string       `json:"text,omitempty"`                            // why, in words
	Job     string       `json:"job,omitempty"`                             // the scheduler's number
	Nodes   []string     `json:"nodes,omitempty" most:"4096" bytes:"65536"` // that it runs or ran on
	Began   time.Time    `json:"began,omitzero"`                            // by the head's clock, as Ended
	Ended   time.Time    `json:"ended,omitzero"`
	Bytes   int64        `json:"bytes,omitempty"`                            // that it wrote, kept or not
	Samples []TaskSample `json:"samples,omitempty" most:"200" bytes:"16384"` // once ended
}

// TaskSample is a number that a task's program has told.
type TaskSample struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
}

// TaskOutput is the next piece of a task's output.
type TaskOutput struct {
	ID    string `json:"id"`
	Start int64  `json:"start"` // bytes before it
	Bytes []byte `json:"bytes"`
}

// TaskKept answers it: how many bytes are kept from the beginning. The next piece starts there. NoTask: it is not wanted.
type TaskKept struct {
	Bytes int64 `json:"bytes"`
}

// NoTask is TaskKept.Bytes of a task that is not known.
const NoTask = -1
