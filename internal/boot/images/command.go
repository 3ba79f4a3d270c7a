package images

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// command is an outside program that dies with this one, and leaves nothing behind when it does.
type command struct {
	args   []string
	env    []string // added to ours
	stdin  io.Reader
	stdout io.Writer      // nil: dropped
	lines  func(l string) // each line of stderr, if set
	// sealed gives it mount and pid namespaces of its own: the kernel then undoes all its mounts and ends all its
	// children at its end, whatever that was.
	sealed bool
}

// run blocks until the command ends; when ctx does so first, the command is killed. The error carries what it said last.
func (c command) run(ctx context.Context) error {
	args := c.args
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.sealed {
		args = append([]string{"sh", "-c", `mount -t proc proc /proc && exec "$@"`, "sh"}, args...)
		attr.Unshareflags = syscall.CLONE_NEWNS
		attr.Cloneflags = syscall.CLONE_NEWPID
	}
	said := &tail{lines: c.lines}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, c.stdout, said
	cmd.SysProcAttr = attr
	cmd.WaitDelay = 5 * time.Second

	// The kernel sends Pdeathsig when the thread that started the command ends, so that thread must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	name := filepath.Base(c.args[0])
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", name, context.Cause(ctx))
	case err != nil && said.text() != "":
		return fmt.Errorf("%s: %w: %s", name, err, said.text())
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// tail hands lines on and remembers the last few for the error message.
type tail struct {
	lines func(string)
	rest  []byte
	last  []string
}

func (t *tail) Write(p []byte) (int, error) {
	t.rest = append(t.rest, p...)
	for {
		line, rest, found := bytes.Cut(t.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		t.rest = rest
		t.keep(strings.TrimSpace(string(line)))
	}
}

func (t *tail) keep(line string) {
	if line == "" {
		return
	}
	if t.lines != nil {
		t.lines(line)
	}
	t.last = append(t.last, line)
	if len(t.last) > 8 {
		t.last = t.last[1:]
	}
}

func (t *tail) text() string {
	if rest := strings.TrimSpace(string(t.rest)); rest != "" {
		t.keep(rest)
		t.rest = nil
	}
	return strings.Join(t.last, "; ")
}
