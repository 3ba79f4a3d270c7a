package images

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Verdict is the outcome of one check.
type Verdict struct {
	Check Check
	Took  time.Duration
	Err   error // nil: passed. Says what was expected and what came instead.
}

func (v Verdict) String() string {
	if v.Err != nil {
		return fmt.Sprintf("FAIL %6.2fs  %s: %v", v.Took.Seconds(), v.Check.Name, v.Err)
	}
	return fmt.Sprintf("ok   %6.2fs  %s", v.Took.Seconds(), v.Check.Name)
}

// ErrFailed says that at least one check of an image failed.
var ErrFailed = errors.New("the image fails its checks")

// Accept runs the manifest's checks on the squashfs, each in a fresh container without a network, and calls report after
// each. It runs them all, whatever fails, and returns ErrFailed at the end if any did; another error says that they
// could not be run. Nothing of it stays on the host, also when ctx ends or the process dies. Needs root.
func Accept(ctx context.Context, squashfs string, m Manifest, report func(Verdict)) error {
	if os.Geteuid() != 0 {
		return errors.New("accept image: needs root, for mounts and namespaces")
	}
	squashfs, err := filepath.Abs(squashfs)
	if err != nil {
		return fmt.Errorf("accept image: %w", err)
	}
	work, err := os.MkdirTemp("", "muster-accept-*")
	if err != nil {
		return fmt.Errorf("accept image: %w", err)
	}
	defer os.RemoveAll(work)

	checks := m.Checks
	if len(m.Programs) > 0 {
		checks = append([]Check{promised(m.Programs)}, checks...)
	}
	if len(m.Carries) > 0 {
		checks = append([]Check{driven(m.Carries)}, checks...)
	}
	failed := 0
	for _, c := range checks {
		start := time.Now()
		err := accept(ctx, squashfs, work, c)
		if ctx.Err() != nil {
			return fmt.Errorf("accept image: %w", context.Cause(ctx))
		}
		if err != nil {
			failed++
		}
		report(Verdict{Check: c, Took: time.Since(start), Err: err})
	}
	if failed > 0 {
		return fmt.Errorf("accept image: %w: %d of %d", ErrFailed, failed, len(checks))
	}
	return nil
}

// promised checks that every program is found, and names all that aren't.
func promised(programs []string) Check {
	return Check{
		Name: "every promised program is there",
		Run: `bad=; for p in ` + strings.Join(programs, " ") +
			`; do command -v $p >/dev/null || bad="$bad $p"; done; test -z "$bad" || { echo "missing:$bad" >&2; exit 1; }`,
	}
}

func accept(ctx context.Context, squashfs, work string, c Check) error {
	limit, err := c.limit()
	if err != nil {
		return err
	}
	pattern, err := c.pattern()
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %s", limit))
	defer cancel()

	id := "muster-accept-" + strings.ToLower(rand.Text())
	config, err := json.Marshal(bundle(id, c.Run))
	if err != nil {
		return err
	}
	var out bytes.Buffer
	err = command{
		args:   []string{"sh", "-euc", container, "sh", squashfs, work, id},
		stdin:  bytes.NewReader(config),
		stdout: &out,
		sealed: true,
	}.run(within)
	removeCgroups(id)
	if err != nil {
		return err
	}
	if !pattern.Match(out.Bytes()) {
		return fmt.Errorf("expected output like %s, got %q", c.Expect, shorten(out.String()))
	}
	return nil
}

// container runs in mount and pid namespaces of its own, which take every mount and process of it along when they end.
// Its standard input is the container's configuration; the check itself has none.
//
//go:embed container.sh
var container string

// removeCgroups deletes the control groups that runc could not when it was killed. There are none otherwise.
func removeCgroups(id string) {
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		left, _ := filepath.Glob(pattern + id)
		for _, dir := range left {
			os.Remove(dir)
		}
	}
}

func shorten(s string) string {
	if len(s) > 400 {
		return s[:400] + "…"
	}
	return s
}

// bundle is the OCI configuration of a check's container: as a node has it, but with no network.
func bundle(id, run string) any {
	type object = map[string]any
	capabilities := strings.Fields("CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_FSETID CAP_KILL CAP_SETGID CAP_SETUID " +
		"CAP_SETPCAP CAP_NET_BIND_SERVICE CAP_SYS_CHROOT")
	mount := func(destination, kind string, options ...string) object {
		return object{"destination": destination, "type": kind, "source": kind, "options": options}
	}
	namespaces := []object{{"type": "pid"}, {"type": "mount"}, {"type": "uts"}, {"type": "ipc"}, {"type": "network"}}
	return object{
		"ociVersion": "1.0.2",
		"hostname":   "accept",
		"root":       object{"path": "root"},
		"process": object{
			"user": object{"uid": 0, "gid": 0},
			"cwd":  "/root",
			"args": []string{"/bin/sh", "-euc", run},
			"env": []string{
				"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8",
			},
			"capabilities": object{"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
		},
		"mounts": []object{
			mount("/proc", "proc"),
			mount("/sys", "sysfs", "ro", "nosuid", "noexec", "nodev"),
			mount("/dev", "tmpfs", "mode=755", "size=64k"),
			mount("/dev/pts", "devpts", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
			mount("/dev/shm", "tmpfs", "mode=1777"),
			mount("/run", "tmpfs", "mode=755"),
			mount("/tmp", "tmpfs", "mode=1777"),
		},
		"linux": object{"cgroupsPath": "/" + id, "namespaces": namespaces},
	}
}
