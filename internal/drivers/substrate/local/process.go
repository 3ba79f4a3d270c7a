package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate/onhost"
	"muster/internal/kit/wrap"
)

// first finds the boot's first process in what runc wrote down just before starting it; ok is false if it never got
// that far. It may have ended since.
func (d *Driver) first(b boot) (p onhost.Process, ok bool) {
	text, err := os.ReadFile(filepath.Join(d.runcState(b), "state.json"))
	if err != nil {
		return onhost.Process{}, false
	}
	var state struct {
		Pid   int    `json:"init_process_pid"`
		Start uint64 `json:"init_process_start"`
	}
	if json.Unmarshal(text, &state) != nil || state.Pid <= 1 {
		return onhost.Process{}, false
	}
	return onhost.Process{PID: state.Pid, Start: state.Start}, true
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
		if err := p.End(ctx, d.config.Grace); err != nil {
			return fmt.Errorf("end the first process: %w", err)
		}
		d.wards.collect()
	}
	return d.endInCgroup(ctx, b)
}

// endFrozen kills what somebody has frozen, before it is thawed, as frozen processes do not die: none of them gets to do
// anything more.
func (d *Driver) endFrozen(b boot) error {
	if !d.cgroups.Frozen(b.name) {
		return nil
	}
	pids, err := d.cgroups.Processes(b.name)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("end a frozen process: %w", err)
		}
	}
	return d.cgroups.Thaw(b.name)
}

// endStarters kills every runc that was told to start the container. Its own children then end by themselves, having
// lost their parent, or are found by runc's state or in the control group.
func endStarters(ctx context.Context, dir, container string) error {
	return onhost.CommandLines(func(pid int, text string) error {
		arguments := strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
		if filepath.Base(arguments[0]) != "runc" || arguments[len(arguments)-1] != container ||
			!slices.Contains(arguments, filepath.Join(dir, "runc")) {
			return nil
		}
		return wrap.Errorf(onhost.KillPid(ctx, pid), "end a start that nobody waits for")
	})
}

// endInCgroup kills what is in the boot's control group beside the first process and its descendants: what an
// operator entered from outside, or a runc left half-way.
func (d *Driver) endInCgroup(ctx context.Context, b boot) error {
	return onhost.Until(ctx, 10*time.Second, func() (bool, error) {
		pids, err := d.cgroups.Processes(b.name)
		if err != nil || len(pids) == 0 {
			return err == nil, err
		}
		for _, pid := range pids {
			if err := onhost.KillPid(ctx, pid); err != nil {
				return false, err
			}
		}
		return false, nil
	})
}
