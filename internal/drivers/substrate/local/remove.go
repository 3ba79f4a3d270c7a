package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/local/tree"
	"muster/internal/kit/netns"
	"muster/internal/kit/wrap"
)

// Remove ends the node and takes away all that it had. It is the hard end: whatever deserves care was drained before.
// With Boot 0 the memory of the highest boot goes too, so it is the last call for a node; after a Remove of a given
// boot, an Ensure of an older one is still refused.
func (d *Driver) Remove(ctx context.Context, r substrate.Ref) error {
	h, err := d.home(r)
	if err != nil {
		return err
	}
	held, err := d.lockNode(ctx, h)
	if err != nil {
		return err
	}
	defer held.Release()
	if err := d.removeBoots(ctx, h, r.Cluster, r.Node, r.Boot); err != nil {
		return fmt.Errorf("remove node %s: %w", r.Node, err)
	}
	if r.Boot == 0 {
		if err := tree.Remove(ctx, h.dir); err != nil {
			return fmt.Errorf("remove node %s: %w", r.Node, err)
		}
	}
	return wrap.Errorf(d.releaseImages(ctx), "remove node %s", r.Node)
}

// removeBoots removes the boots up to the given one, all with 0. It runs under the node's lock.
func (d *Driver) removeBoots(ctx context.Context, h home, cluster, node string, upTo int64) error {
	c, err := d.shared(cluster)
	if err != nil {
		return err
	}
	boots, err := h.boots()
	if err != nil {
		return err
	}
	for _, b := range boots {
		if upTo > 0 && b.number > upTo {
			continue
		}
		if err := d.removeBoot(ctx, b, c, node); err != nil {
			return err
		}
	}
	return nil
}

// removeBoot removes a boot in any state, half-made or half-removed. The order is that of dependence: processes hold
// everything, the directory is how we find the rest. Each step looks for what is there instead of trusting records.
func (d *Driver) removeBoot(ctx context.Context, b boot, c shared, node string) error {
	if err := d.endAll(ctx, b); err != nil {
		return err
	}
	// The kernel would remove the port too when the node's namespace ends, but some time later, and a new port of the same
	// name would then fail.
	if err := netns.Drop(c.netns(), substrate.PortName(node)); err != nil {
		return fmt.Errorf("network port: %w", err)
	}
	if err := d.cgroups.Remove(ctx, b.name); err != nil {
		return err
	}
	if err := dropConsole(b); err != nil {
		return err
	}
	if err := unmountBelow(ctx, b.dir); err != nil {
		return err
	}
	if err := tree.Remove(ctx, d.runcState(b)); err != nil {
		return err
	}
	if err := d.left(b); err != nil {
		return err
	}
	if err := tree.Remove(ctx, c.layer(b)); err != nil {
		return err
	}
	return tree.Remove(ctx, b.dir) // nothing is mounted there any more: it is ours alone
}

// dropConsole takes the place of a boot's console away, also from under who holds its file open: that may be a process of another
// node which was handed it. What was in it takes no memory any more.
func dropConsole(b boot) error {
	if err := os.Truncate(b.console(), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := unix.Unmount(filepath.Dir(b.console()), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EINVAL) { // it was not made, or not mounted
		return fmt.Errorf("unmount %s: %w", filepath.Dir(b.console()), err)
	}
	return nil
}

// left looks once more for what would be lost from sight with the directory.
func (d *Driver) left(b boot) error {
	var left []error
	pids, err := d.cgroups.Processes(b.name)
	if err != nil {
		left = append(left, err)
	}
	if len(pids) > 0 {
		left = append(left, fmt.Errorf("processes are left: %v", pids))
	}
	for _, dir := range d.cgroups.Dirs(b.name) {
		if _, err := os.Stat(dir); err == nil {
			left = append(left, fmt.Errorf("control group is left: %s", dir))
		}
	}
	mounts, err := mountsBelow(b.dir)
	if err != nil {
		left = append(left, err)
	}
	if len(mounts) > 0 {
		left = append(left, fmt.Errorf("mounts are left: %v", mounts))
	}
	return errors.Join(left...)
}
