package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is a process's identity: a pid is used again, a pid with its start time is not.
type process struct {
	pid   int
	start uint64 // clock ticks since the host's boot
}

// first finds the boot's first process in what runc wrote down just before starting it; ok is false if it never got
// that far. It may have ended since.
func (d *Driver) first(b boot) (p process, ok bool) {
	text, err := os.ReadFile(filepath.Join(d.runcState(b), "state.json"))
	if err != nil {
		return process{}, false
	}
	var state struct {
		Pid   int    `json:"init_process_pid"`
		Start uint64 `json:"init_process_start"`
	}
	if json.Unmarshal(text, &state) != nil || state.Pid <= 1 {
		return process{}, false
	}
	return process{state.Pid, state.Start}, true
}

// state is the process's state as /proc shows it ('R', 'S', 'Z' …), or 0 if it is gone.
func (p process) state() byte {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may contain anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 || fields[19] != strconv.FormatUint(p.start, 10) {
		return 0
	}
	return fields[0][0]
}

// runs is false of a process that is gone and of one that is dead but not yet collected by its parent.
func (p process) runs() bool {
	state := p.state()
	return state != 0 && state != 'Z' && state != 'X'
}

// end makes the process end: by its own will within grace if it handles SIGTERM, else by SIGKILL. It returns when the
// process has ended and, being the first of its pid namespace, has taken all others there with it.
func (p process) end(ctx context.Context, grace time.Duration) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !p.runs() { // asked after the pidfd was taken, so both mean the same process
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
		err = fmt.Errorf("process %d does not end", p.pid)
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
func (p process) handlesTerm() bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	_, rest, _ := strings.Cut(string(text), "\nSigCgt:")
	mask, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 16, 64)
	return err == nil && mask&(1<<(unix.SIGTERM-1)) != 0
}

// endAll ends every process of a boot, however far its start got.
func (d *Driver) endAll(ctx context.Context, b boot) error {
	// A killed controller may have left a runc at work, which would go on making what we are about to remove.
	if _, err := os.Stat(b.path("pid")); err != nil {
		if err := endStarters(ctx, d.config.Dir, b.name); err != nil {
			return err
		}
	}
	if err := d.endFrozen(b); err != nil {
		return err
	}
	if p, ok := d.first(b); ok {
		if err := p.end(ctx, d.config.Grace); err != nil {
			return fmt.Errorf("end the first process: %w", err)
		}
		d.wards.collect()
	}
	return d.endInCgroup(ctx, b)
}

// endFrozen kills what somebody has frozen, before it is thawed, as frozen processes do not die: none of them gets to do
// anything more.
func (d *Driver) endFrozen(b boot) error {
	if !d.cgroups.frozen(b.name) {
		return nil
	}
	pids, err := d.cgroups.processes(b.name)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("end a frozen process: %w", err)
		}
	}
	return d.cgroups.thaw(b.name)
}

// endStarters kills every runc that was told to start the container. Its own children then end by themselves, having
// lost their parent, or are found by runc's state or in the control group.
func endStarters(ctx context.Context, dir, container string) error {
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, path := range commands {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // gone meanwhile
		}
		arguments := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
		if filepath.Base(arguments[0]) != "runc" || arguments[len(arguments)-1] != container ||
			!slices.Contains(arguments, filepath.Join(dir, "runc")) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err := killPid(ctx, pid); err != nil {
			return fmt.Errorf("end a start that nobody waits for: %w", err)
		}
	}
	return nil
}

// endInCgroup kills what is in the boot's control group beside the first process and its descendants: what an
// operator entered from outside, or a runc left half-way.
func (d *Driver) endInCgroup(ctx context.Context, b boot) error {
	return until(ctx, 10*time.Second, func() (bool, error) {
		pids, err := d.cgroups.processes(b.name)
		if err != nil || len(pids) == 0 {
			return err == nil, err
		}
		for _, pid := range pids {
			if err := killPid(ctx, pid); err != nil {
				return false, err
			}
		}
		return false, nil
	})
}

// killPid kills an orphan. If the controller is its subreaper by now, it is collected too: no exec.Cmd waits for it, as
// the one that started it would still hold the node's lock.
func killPid(ctx context.Context, pid int) error {
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
