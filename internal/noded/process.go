package noded

import (
	"context"
	"os"
	"syscall"
)

// Command is a program to start.
type Command struct {
	Argv    []string // the program is looked up in PATH
	Env     []string // NAME=VALUE, beside the agent's own
	Account *Account // nil: the agent's own
	Output  func(line string)
	Input   *os.File // nil: nothing
	Alone   bool     // it begins with mounts of its own, a copy of ours, and as the first process of a PID namespace
}

// Account is who a program runs as, or a file belongs to.
type Account struct{ UID, GID int }

// Process is a started program.
type Process interface {
	// Done is closed when the process has ended.
	Done() <-chan struct{}
	// Err says how it ended, nil for exit status 0. Only after Done.
	Err() error
	// Signal does nothing once the process has ended.
	Signal(syscall.Signal)
	// Kill ends the process and those that it has started, less those that have left its group, at once.
	Kill()
}

// processes starts programs: the Reaper, or a fake.
type processes interface {
	// Start starts a program that goes on, and returns at once.
	Start(Command) (Process, error)
	// Run returns when the program has ended, with its standard output; an error's text is its standard error.
	Run(ctx context.Context, argv ...string) ([]byte, error)
	// RunAs is Run as somebody else.
	RunAs(ctx context.Context, who Account, argv ...string) ([]byte, error)
}
