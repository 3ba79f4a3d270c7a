package onhost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process's identity: a pid is used again, a pid with its start time is not.
type Process struct {
	PID   int
	Start uint64 // clock ticks since the host's boot
}

// Find tells a process that runs by its pid; ok is false if there is none.
func Find(pid int) (p Process, ok bool) {
	fields := stat(pid)
	if fields == nil {
		return Process{}, false
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	p = Process{pid, start}
	return p, err == nil && p.Runs()
}

// stat is what proc_pid_stat(5) says after the process's name, which is in parentheses and may contain anything; nil if
// there is no such process.
func stat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return nil
	}
	return fields
}

// State is the process's state as /proc shows it ('R', 'S', 'Z' …), or 0 if it is gone.
func (p Process) State() byte {
	fields := stat(p.PID)
	if fields == nil || fields[19] != strconv.FormatUint(p.Start, 10) {
		return 0
	}
	return fields[0][0]
}

// Runs is false of a process that is gone and of one that is dead but not yet collected by its parent.
func (p Process) Runs() bool {
	state := p.State()
	return state != 0 && state != 'Z' && state != 'X'
}

// End makes the process end: by its own will within grace if it handles SIGTERM, else by SIGKILL. It returns when the
// process has ended and, being the first of its pid namespace, has taken all others there with it.
func (p Process) End(ctx context.Context, grace time.Duration) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !p.Runs() { // asked after the pidfd was taken, so both mean the same process
		return nil
	}
	if grace > 0 && p.handlesTerm() {
		if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		if ended, err := waitPidfd(ctx, fd, grace); err != nil || ended {
			return err
		}
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	ended, err := waitPidfd(ctx, fd, time.Minute)
	if err == nil && !ended {
		err = fmt.Errorf("process %d does not end", p.PID)
	}
	return err
}

func waitPidfd(ctx context.Context, fd int, within time.Duration) (ended bool, err error) {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		slice := min(50*time.Millisecond, time.Until(deadline))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(slice.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, err
		}
		if n > 0 {
			return true, nil
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	return false, nil
}

// handlesTerm keeps Remove from waiting for a process that would never hear: the first process of a pid namespace
// ignores signals it has no handler for.
func (p Process) handlesTerm() bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	_, rest, _ := strings.Cut(string(text), "\nSigCgt:")
	mask, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 16, 64)
	return err == nil && mask&(1<<(unix.SIGTERM-1)) != 0
}

// KillPid kills an orphan. If the controller is its subreaper by now, it is collected too: no exec.Cmd waits for it, as
// the one that started it would still hold the node's lock.
func KillPid(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		return err
	}
	if _, err = waitPidfd(ctx, fd, 5*time.Second); err == nil {
		unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, nil)
	}
	return err
}
