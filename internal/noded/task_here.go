package noded

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

// starter is the scheduler.Runner of clusters whose scheduler is none: programs start at once, on the head. They end with it.
type starter struct {
	processes processes
	self      string // the head's name

	mu      sync.Mutex
	last    int
	started map[string]started // by number
}

type started struct {
	account, name string
	process       Process
}

func newStarter(p processes, self string) *starter {
	return &starter{processes: p, self: self, started: map[string]started{}}
}

// Submit starts the work's script with its output in the file.
func (s *starter) Submit(_ context.Context, w scheduler.Work) (string, error) {
	const redirected = `umask 077; exec "$1" >>"$2" 2>&1 </dev/null`
	argv, who := w.Start("/bin/sh", "-c", redirected, "sh", w.Script, w.Output)
	p, err := s.processes.Start(Command{Argv: argv, Account: &Account{UID: who, GID: who}, Output: func(string) {}})
	if err != nil {
		return "", errors.Join(scheduler.ErrRefusedJob, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	number := strconv.Itoa(s.last)
	s.started[number] = started{w.Account, w.Name, p}
	return number, nil
}

// Find knows those that this boot of the head has started.
func (s *starter) Find(_ context.Context, w scheduler.Work) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for number, one := range s.started {
		if one.account == w.Account && one.name == w.Name {
			return number, nil
		}
	}
	return "", nil
}

// Launch: a command starts once.
func (s *starter) Launch() string { return "" }

func (s *starter) Follow(_ context.Context, job string) (scheduler.JobState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, known := s.started[job]
	if !known {
		return scheduler.JobState{Forgotten: true}, nil
	}
	state := scheduler.JobState{Stage: protocol.TaskRuns, Nodes: []string{s.self}}
	select {
	case <-one.process.Done():
		state.Stage = protocol.TaskEnded
		var code exited
		var signal killed
		switch err := one.process.Err(); {
		case errors.As(err, &code):
			state.Exit = int(code)
		case errors.As(err, &signal):
			state.Exit, state.Text = 128+int(signal), signal.Error()
		}
	default:
	}
	return state, nil
}

func (s *starter) Cancel(_ context.Context, job string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one, known := s.started[job]; known {
		one.process.Kill()
	}
	return nil
}
