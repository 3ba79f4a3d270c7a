package spool

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

// jobs are those that were submitted for users. They run on the head, and each holds the first node that may be used.
type jobs struct {
	free func() (node string) // "": none may be used

	mu      sync.Mutex
	all     []*job // by their numbers
	refused []int  // users whose new jobs are not taken
}

type job struct {
	work    scheduler.Work
	command *exec.Cmd
	node    string // "": it waits
	ended   chan struct{}
}

// Submit starts the work's script, if a node may be used.
func (j *jobs) Submit(_ context.Context, w scheduler.Work) (string, error) {
	argv, user := w.Start("sh", "-c", `exec "$0" >>"$1" 2>&1`, w.Script, w.Output)
	one := &job{work: w, command: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	who := &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}
	one.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: who}
	j.mu.Lock()
	if slices.Contains(j.refused, user) {
		j.mu.Unlock()
		return "", scheduler.ErrRefusedJob
	}
	j.all = append(j.all, one)
	number := strconv.Itoa(len(j.all) - 1)
	j.mu.Unlock()
	return number, j.start()
}

// Refuse takes no new jobs of these users.
func (j *jobs) Refuse(users []int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.refused = slices.Clone(users)
	return nil
}

// start starts those that wait, if a node may be used now.
func (j *jobs) start() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.all {
		if one.node != "" || one.over() {
			continue
		}
		if one.node = j.free(); one.node == "" {
			return nil
		}
		if err := one.command.Start(); err != nil {
			close(one.ended)
			return errors.Join(scheduler.ErrRefusedJob, err)
		}
		go func() {
			_ = one.command.Wait() // ProcessState says how it ended
			close(one.ended)
		}()
	}
	return nil
}

func (o *job) over() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}

// on are the jobs that hold a node; of "", those that wait.
func (j *jobs) on(node string) (all []scheduler.Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for number, one := range j.all {
		if one.node == node && !one.over() {
			all = append(all, scheduler.Job{ID: number})
		}
	}
	return all
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
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case one.over() && one.node == "":
		return scheduler.JobState{Stage: protocol.TaskEnded, Cancelled: true}, nil
	case one.node == "":
		return scheduler.JobState{Stage: protocol.TaskWaits}, nil
	case !one.over():
		return scheduler.JobState{Stage: protocol.TaskRuns, Nodes: []string{one.node}}, nil
	}
	s := scheduler.JobState{Stage: protocol.TaskEnded, Nodes: []string{one.node}, Exit: one.command.ProcessState.ExitCode()}
	if s.Exit < 0 {
		s.Exit = 128 + int(one.command.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	return s, nil
}

// Cancel ends a job with all that it has started.
func (j *jobs) Cancel(_ context.Context, number string) error {
	one := j.get(number)
	if one == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case one.over():
		return nil
	case one.node == "":
		close(one.ended)
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
