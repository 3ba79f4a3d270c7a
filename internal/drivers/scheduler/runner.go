package scheduler

import (
	"context"
	"time"

	"muster/internal/protocol"
)

// Runner is a Control that starts programs as jobs of users, as if these had submitted them. All methods but Submit may be called
// again.
type Runner interface {
	// Submit hands a program to the queue, and returns the job's number. An error of ErrRefusedJob says that there is no such
	// job; after any other there may be.
	Submit(context.Context, Work) (job string, err error)
	// Find is the job of a work that was submitted, perhaps; "": there is none that the scheduler still knows of.
	Find(context.Context, Work) (job string, err error)
	// Follow says how far a job is.
	Follow(ctx context.Context, job string) (JobState, error)
	// Cancel ends a job, wherever it is. Of one that has ended it is a success.
	Cancel(ctx context.Context, job string) error
	// Launch starts a command once a rank, put before it in a shell's line inside of a job.
	Launch() string
}

// Work is what a Runner starts.
type Work struct {
	protocol.Task
	Name   string // of the job: no other work of the cluster has it
	Script string // path of what is started, on the first of its nodes; the job's user reads it, and wrote it perhaps
	Output string // path of the file that its output goes to, on the shared /home
	// As runs a program as the job's user, in that user's home directory, with nothing of the agent's environment.
	As func(ctx context.Context, argv ...string) ([]byte, error)
	// Start is what As would run, for who runs it otherwise, and the number of the user.
	Start func(argv ...string) (full []string, uid int)
}

// JobState is how far a job is.
type JobState struct {
	Stage protocol.TaskStage
	Nodes []string // that it runs or ran on
	// Of one that has ended. TimedOut, Lost and Cancelled say that the scheduler, a node's end, or somebody ended it.
	Exit                      int
	TimedOut, Lost, Cancelled bool
	Text                      string // why it waits, or has ended, in words; may be empty
	// Forgotten says that the scheduler does not know it, or no longer.
	Forgotten bool
}

// Slack is how much longer than its work's limit a job may be: the agent ends it in time, unless there is none.
const Slack = 2 * time.Minute
