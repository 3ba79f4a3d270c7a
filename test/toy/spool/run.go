package spool

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	"muster/internal/drivers/scheduler"
	"muster/internal/noded/protocol"
)

// jobs are those that were submitted for users. They start at once, on the head.
type jobs struct {
	mu  sync.Mutex
	all []*job // by their numbers
}

type job struct {
	work    scheduler.Work
	command *exec.Cmd
	ended   chan struct{}
}

// Submit starts the work's script.
func (j *jobs) Submit(_ context.Context, w scheduler.Work) (string, error) {
	argv, user := w.Start("sh", "-c", `exec "$0" >>"$1" 2>&1`, w.Script, w.Output)
	one := &job{w, exec.Command(argv[0], argv[1:]...), make(chan struct{})}
	who := &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}
	one.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: who}
	if err := one.command.Start(); err != nil {
		return "", errors.Join(scheduler.ErrRefusedJob, err)
	}
	go func() {
		_ = one.command.Wait() // ProcessState says how it ended
		close(one.ended)
	}()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, one)
	return strconv.Itoa(len(j.all) - 1), nil
}

// Find knows the jobs of this boot of the head.
func (j *jobs) Find(_ context.Context, w scheduler.Work) (string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for number, one := range j.all {
		if one.work.Account == w.Account && one.work.Name == w.Name {
			return strconv.Itoa(number), nil
		}
	}
	return "", nil
}

// Launch starts a command once.
func (*jobs) Launch() string { return "" }

// Follow says how far a job is.
func (j *jobs) Follow(_ context.Context, number string) (scheduler.JobState, error) {
	one := j.get(number)
	if one == nil {
		return scheduler.JobState{Forgotten: true}, nil
	}
	s := scheduler.JobState{Stage: protocol.TaskRuns, Nodes: []string{"head"}}
	select {
	case <-one.ended:
		s.Stage = protocol.TaskEnded
		if s.Exit = one.command.ProcessState.ExitCode(); s.Exit < 0 {
			s.Exit = 128 + int(one.command.ProcessState.Sys().(syscall.WaitStatus).Signal())
		}
	default:
	}
	return s, nil
}

// Cancel ends a job with all that it has started.
func (j *jobs) Cancel(_ context.Context, number string) error {
	one := j.get(number)
	if one == nil {
		return nil
	}
	err := syscall.Kill(-one.command.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) { // it has ended
		return nil
	}
	return err
}

func (j *jobs) get(number string) *job {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n, err := strconv.Atoi(number); err == nil && n >= 0 && n < len(j.all) {
		return j.all[n]
	}
	return nil
}
