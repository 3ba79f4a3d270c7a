package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// Ensure makes the node run this boot. If it fails or is killed on the way, what it made stays, visible to Observe and
// List, for the next Ensure or Remove to take away.
func (d *Driver) Ensure(ctx context.Context, n substrate.Node) error {
	if err := checkNode(n); err != nil {
		return err
	}
	h, err := d.home(n.Ref)
	if err != nil {
		return err
	}
	c, err := d.shared(n.Cluster)
	if err != nil {
		return err
	}
	unlockCluster, err := onhost.Shared(ctx, d.lockPath("cluster", n.Cluster))
	if err != nil {
		return err
	}
	defer unlockCluster()
	held, err := d.lockNode(ctx, h)
	if err != nil {
		return err
	}
	defer held.Release()
	return wrap.Errorf(d.ensure(ctx, held, h, c, n), "boot %d of node %s", n.Boot, n.Node)
}

func checkNode(n substrate.Node) error {
	switch {
	case n.Boot < 1:
		return fmt.Errorf("boot %d of node %s: boots count from 1", n.Boot, n.Node)
	case n.Name == "":
		return fmt.Errorf("node %s has no host name", n.Node)
	case !n.Address.IsValid() || len(n.MAC) != 6:
		return fmt.Errorf("node %s needs an address and a MAC", n.Node)
	}
	return nil
}

// ensure runs under the node's lock, and the cluster's shared one.
func (d *Driver) ensure(ctx context.Context, held *onhost.Hold, h home, c shared, n substrate.Node) error {
	d.wards.collect()
	highest, err := onhost.Highest(h.dir)
	if err != nil {
		return err
	}
	if n.Boot < highest {
		return fmt.Errorf("%w: boot %d was asked for already", substrate.ErrStale, highest)
	}
	b := h.boot(n.Boot)
	if n.Boot == highest && d.runs(b) {
		return nil
	}
	if err := held.Lost(); err != nil { // what is removed next could be another's work
		return err
	}
	if err := onhost.Raise(h.dir, n.Boot); err != nil {
		return err
	}
	if err := d.removeBoots(ctx, h, n.Cluster, n.Node, n.Boot); err != nil {
		return fmt.Errorf("remove what was left: %w", err)
	}
	if err := d.make(ctx, held, b, c, n); err != nil {
		return err
	}
	if p, ok := d.first(b); ok {
		d.wards.add(p, b)
	}
	if highest > 0 { // an earlier boot may have been the last user of another image
		return d.releaseImages(ctx)
	}
	return nil
}

// runs says whether the boot was made in full and its first process lives. runc writes the file pid as the last thing
// it does.
func (d *Driver) runs(b boot) bool {
	if _, err := os.Stat(b.path("pid")); err != nil {
		return false
	}
	p, ok := d.first(b)
	return ok && p.Runs()
}

// make makes a boot from nothing, its directory first. Between two steps it asks whether the lock is still its own.
func (d *Driver) make(ctx context.Context, held *onhost.Hold, b boot, c shared, n substrate.Node) error {
	if !c.ready() {
		return fmt.Errorf("the shared parts of cluster %s are not there", n.Cluster)
	}
	if there, err := d.hasVolumes(c, 0); err != nil || !there {
		return errors.Join(err, fmt.Errorf("the files of cluster %s are not mounted", n.Cluster))
	}
	var mounts []staged
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"directories", func() error { return d.makeDirs(b, c, n) }},
		{"network", func() error { return d.plug(ctx, c.netns(), b, n) }},
		{"root", func() error { return d.mountRoot(ctx, b, c, n) }},
		{"boot file", func() error { return d.mountRun(b, n) }},
		{"bundle", func() (err error) {
			mounts, err = d.writeBundle(ctx, b, n, c)
			return err
		}},
		{"console", func() error { return mountConsole(b) }},
		{"start", func() error { return d.start(ctx, held, b, n, mounts) }},
	} {
		if err := held.Lost(); err != nil {
			return err
		}
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

func (d *Driver) makeDirs(b boot, c shared, n substrate.Node) error {
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		return err
	}
	layer := c.layer(b)
	for _, dir := range []string{b.path("root"), b.path("run"), filepath.Dir(b.console()), filepath.Join(layer, "upper"),
		filepath.Join(layer, "work")} {
		if err := makeDir(dir, 0o755); err != nil {
			return err
		}
	}
	if d.mapsUsers(n) {
		return give(filepath.Join(layer, "upper"), numbersOf(n).root()) // which the root takes its owner from
	}
	return nil
}

// mountRun mounts what the node sees as /run and puts the boot file there: in memory, so its token never is on a disk.
func (d *Driver) mountRun(b boot, n substrate.Node) error {
	at := b.path("run")
	if err := unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=256m"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	for _, dir := range []string{filepath.Dir(protocol.BootFilePath), protocol.SocketDir} {
		if err := makeDir(underRun(at, dir), 0o755); err != nil {
			return err
		}
	}
	file, err := json.Marshal(n.File)
	if err != nil {
		return err
	}
	if err := os.WriteFile(underRun(at, protocol.BootFilePath), file, 0o600); err != nil {
		return err
	}
	if d.mapsUsers(n) {
		return give(at, numbersOf(n).root())
	}
	return nil
}

// mountConsole gives what the node says a place of its own, which is the node's memory: root in the node can take the file from
// its first process, and make it as large as its file system lets it.
func mountConsole(b boot) error {
	if err := unix.Mount("tmpfs", filepath.Dir(b.console()), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		"mode=700,size=32m,nr_inodes=16"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// underRun translates a path that the node sees below /run.
func underRun(at, path string) string {
	below, err := filepath.Rel("/run", path)
	if err != nil {
		return at
	}
	return filepath.Join(at, below)
}

// start runs the first process, with these mounts where its users are mapped, and returns when it has been started; it lives on
// without us. Its output, and runc's complaints, go to the console file.
func (d *Driver) start(ctx context.Context, held *onhost.Hold, b boot, n substrate.Node, mounts []staged) error {
	select {
	case d.starts <- struct{}{}:
		defer func() { <-d.starts }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := held.Lost(); err != nil { // it may have been a long wait
		return err
	}
	console, err := os.OpenFile(b.console(), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer console.Close()
	arguments := []string{"--root", filepath.Join(d.config.Dir, "runc")}
	if d.cgroups.Version == 0 {
		arguments = append(arguments, "--rootless=true") // which means: go on without control groups
	}
	// The container's name comes last: endStarters looks for it there.
	arguments = append(arguments, "run", "--detach", "--bundle", b.dir, "--pid-file", b.path("pid"), b.name)
	runc := exec.CommandContext(ctx, d.runc, arguments...)
	runc.Stdout, runc.Stderr = console, console
	runc.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C at the controller is not meant for it
	run := runc.Run
	if d.mapsUsers(n) {
		run = func() error { return d.inStage(b, mounts, runc.Run) }
	}
	if err := run(); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(ctx.Err(), err)
		}
		return fmt.Errorf("runc: %w: %s", err, onhost.LastLine(b.console()))
	}
	return nil
}
