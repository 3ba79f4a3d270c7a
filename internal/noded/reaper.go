package noded

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Reaper owns all the children of this process, those it started and the orphans that a first process inherits. It
// alone waits for any child; nothing else in the process may use os/exec or wait for a process while it runs.
//
// Children are started and collected under one lock: a status can't arrive before its child is known, and a signal
// can't reach a process that took over the number of one that has ended.
type Reaper struct {
	mu       sync.Mutex
	children map[int]*child
}

// NewReaper returns a Reaper; statuses arrive while Collect runs.
func NewReaper() *Reaper { return &Reaper{children: map[int]*child{}} }

// collectEvery is how long a child may be dead unnoticed. The kernel gives SIGCHLD to the thread that started the child,
// and to no other while that one waits in the kernel, as for a file server that is gone: complete_signal in kernel/signal.c.
const collectEvery = 500 * time.Millisecond

// Collect collects children until ctx ends.
func (r *Reaper) Collect(ctx context.Context) {
	died := make(chan os.Signal, 1) // signals merge; collect takes all there are
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	unheard := time.NewTicker(collectEvery)
	defer unheard.Stop()
	for {
		r.collect()
		select {
		case <-died:
		case <-unheard.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Reaper) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if pid <= 0 {
			return
		}
		if c := r.children[pid]; c != nil {
			delete(r.children, pid)
			c.status = status
			close(c.done)
		}
	}
}

// child is one started process.
type child struct {
	reaper *Reaper
	pid    int
	done   chan struct{}
	status syscall.WaitStatus // valid once done is closed
}

func (c *child) Done() <-chan struct{} { return c.done }

func (c *child) Err() error {
	switch {
	case c.status.Exited() && c.status.ExitStatus() == 0:
		return nil
	case c.status.Exited():
		return exited(c.status.ExitStatus())
	default:
		return killed(c.status.Signal())
	}
}

// exited is the exit status of a process that failed.
type exited int

func (e exited) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// killed is the signal that ended a process.
type killed syscall.Signal

func (k killed) Error() string { return "killed by " + syscall.Signal(k).String() }

func (c *child) Signal(sig syscall.Signal) {
	c.reaper.mu.Lock()
	defer c.reaper.mu.Unlock()
	if c.reaper.children[c.pid] == c {
		_ = syscall.Kill(c.pid, sig) // the only error left is one that the process's end will tell as well
	}
}

func (c *child) Kill() {
	c.reaper.mu.Lock()
	defer c.reaper.mu.Unlock()
	if c.reaper.children[c.pid] == c {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
}

// Start starts a program whose output goes to c.Output line by line, until the last process that holds it has ended.
func (r *Reaper) Start(c Command) (Process, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	defer write.Close()
	p, err := r.start(c, write, write)
	if err != nil {
		read.Close()
		return nil, err
	}
	go func() {
		defer read.Close()
		forEachLine(read, c.Output)
	}()
	return p, nil
}

// Adopt takes a child over that this process had before it began again; its output is read from there. It is to be called once.
func (r *Reaper) Adopt(pid int, from *os.File, output func(line string)) Process {
	p := &child{reaper: r, pid: pid, done: make(chan struct{})}
	r.mu.Lock()
	if syscall.Kill(pid, 0) == nil {
		r.children[pid] = p
	} else { // it has ended, and was collected
		p.status = 1 << 8
		close(p.done)
	}
	r.mu.Unlock()
	go func() {
		defer from.Close()
		forEachLine(from, output)
	}()
	return p
}

// Run runs a program to its end and returns its standard output, also of one that failed; standard error becomes the error's
// text. Words before the program that have a "=" are added to its environment, as a shell does. When ctx ends, the program and
// what it has started are killed, and whatever else holds its output is not waited for.
func (r *Reaper) Run(ctx context.Context, argv ...string) ([]byte, error) {
	var environment []string
	for len(argv) > 1 && strings.Contains(argv[0], "=") {
		environment, argv = append(environment, argv[0]), argv[1:]
	}
	return r.run(ctx, Command{Argv: argv, Env: environment})
}

// RunAs is Run with another account.
func (r *Reaper) RunAs(ctx context.Context, who Account, argv ...string) ([]byte, error) {
	return r.run(ctx, Command{Argv: argv, Account: &who})
}

func (r *Reaper) run(ctx context.Context, command Command) ([]byte, error) {
	argv := command.Argv
	var pipes [2]struct{ read, write *os.File }
	var text [2]bytes.Buffer
	for i := range pipes {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", argv[0], err)
		}
		defer read.Close()
		defer write.Close()
		pipes[i].read, pipes[i].write = read, write
	}
	p, err := r.start(command, pipes[0].write, pipes[1].write)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() {
		p.Kill()
		for _, pipe := range pipes {
			_ = pipe.read.SetReadDeadline(time.Now()) // fails only if it is closed, when it is not read any more
		}
	})()
	var readers sync.WaitGroup
	for i := range pipes {
		pipes[i].write.Close()
		readers.Go(func() { _, _ = text[i].ReadFrom(pipes[i].read) })
	}
	<-p.Done()
	readers.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case p.Err() != nil:
		return text[0].Bytes(), fmt.Errorf("%s: %w: %s", argv[0], p.Err(), strings.TrimSpace(text[1].String()))
	}
	return text[0].Bytes(), nil
}

func (r *Reaper) start(c Command, stdout, stderr *os.File) (*child, error) {
	path, err := exec.LookPath(c.Argv[0])
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	defer null.Close()
	attributes := &syscall.ProcAttr{
		Dir:   "/",
		Env:   slices.Concat(c.Env, os.Environ()), // the first of a name counts
		Files: []uintptr{null.Fd(), stdout.Fd(), stderr.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if c.Input != nil {
		attributes.Files[0] = c.Input.Fd()
	}
	if c.Alone {
		attributes.Sys.Unshareflags, attributes.Sys.Cloneflags = syscall.CLONE_NEWNS, syscall.CLONE_NEWPID
	}
	if c.Account != nil {
		attributes.Sys.Credential = &syscall.Credential{Uid: uint32(c.Account.UID), Gid: uint32(c.Account.GID)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(path, c.Argv, attributes)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	p := &child{reaper: r, pid: pid, done: make(chan struct{})}
	r.children[pid] = p
	return p, nil
}

func forEachLine(r io.Reader, do func(line string)) {
	lines := bufio.NewReaderSize(r, 4096)
	for {
		line, _, err := lines.ReadLine() // a longer line comes in pieces
		if err != nil {
			return
		}
		do(string(line))
	}
}
