package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/local/tree"
	"muster/internal/drivers/substrate/onhost"
)

// Earlier versions kept /home and state in folders of the host's own file system. What is in such a folder moves to a
// volume when no node of the cluster has it mounted. The names on disk say how far a move is, so it goes on wherever it was
// killed:
//
//	home, home.img.new mounted at home.new    the copy is being made; it is begun again
//	home, home.img.moved                      the copy is whole
//	home.old, home.img.moved                  from here on the copy counts
//	home.old, home.img                        what is left is to mount the copy and to remove home.old

func (v volume) old() string   { return v.at + ".old" }
func (v volume) moved() string { return v.image + ".moved" }

// partial is the file that says what could not be copied, if there was such. The folder is kept then, as left.
func (v volume) partial() string { return v.at + ".left-out" }
func (v volume) left() string    { return v.at + ".left" }

// draft is the volume that is being filled.
func (v volume) draft() volume {
	return volume{image: v.image + ".new", at: v.at + ".new", mode: v.mode}
}

// unmoved says that what is to be a volume is still a folder, or not wholly a volume yet.
func (v volume) unmoved() (bool, error) {
	for _, remains := range []string{v.old(), v.moved()} {
		if _, err := os.Lstat(remains); err == nil {
			return true, nil
		}
	}
	if _, err := os.Lstat(v.at); err != nil || v.made() {
		return false, nil
	}
	there, err := v.mounted() // by somebody else, who knows why
	return !there, err
}

// move makes a volume of a folder; it may be called again, and does nothing where nothing is left to do. Nobody may use the
// folder.
func (d *Driver) move(ctx context.Context, v volume, size int64) error {
	if unmoved, err := v.unmoved(); err != nil || !unmoved {
		return err
	}
	exists := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	if !v.made() && !exists(v.moved()) {
		if err := d.fill(ctx, v, size); err != nil {
			return err
		}
	}
	if exists(v.moved()) {
		if !exists(v.old()) && exists(v.at) {
			if err := os.Rename(v.at, v.old()); err != nil {
				return err
			}
		}
		if err := os.Rename(v.moved(), v.image); err != nil {
			return err
		}
	}
	if err := v.ensure(ctx, size); err != nil {
		return err
	}
	if exists(v.partial()) {
		return os.Rename(v.old(), v.left())
	}
	return tree.Remove(ctx, v.old())
}

// fill copies the folder to a new volume, until that is whole and on disk.
func (d *Driver) fill(ctx context.Context, v volume, size int64) error {
	draft := v.draft()
	if err := draft.abandon(ctx); err != nil {
		return err
	}
	if err := remove(draft.image); err != nil {
		return err
	}
	if err := remove(v.partial()); err != nil {
		return err
	}
	held, _, err := tree.Size(ctx, v.at)
	if err != nil {
		return err
	}
	claimed, err := d.claim(v.at, held)
	if err != nil {
		return err
	}
	defer claimed.release()
	if err := draft.ensure(ctx, max(size, ample(held))); err != nil {
		return err
	}
	copying := tree.Copy{Special: true, Progress: claimed.within(func(int64) error { return nil })}
	report, err := copying.Tree(ctx, v.at, draft.at)
	if err == nil && report.Count > 0 {
		err = os.WriteFile(v.partial(), []byte(report.String()), 0o600)
	}
	if err != nil {
		return errors.Join(err, draft.abandon(context.WithoutCancel(ctx)), remove(draft.image))
	}
	if err := unmountBelow(ctx, draft.at); err != nil { // which writes it down
		return err
	}
	if err := remove(draft.at); err != nil {
		return err
	}
	if err := onDisk(filepath.Dir(v.image)); err != nil {
		return err
	}
	return os.Rename(draft.image, v.moved())
}

// moves makes volumes of the cluster's folders unless a node has them mounted; it says whether one has. The caller holds
// the cluster's lock.
func (d *Driver) moves(ctx context.Context, c shared) (held bool, err error) {
	for _, each := range []struct {
		volume
		size int64
	}{{c.homeVolume(), d.homeSize()}, {c.stateVolume(), d.stateSize()}} {
		unmoved, err := each.unmoved()
		if err != nil || !unmoved {
			if err != nil {
				return false, err
			}
			continue
		}
		if !each.made() { // else it is in use already, and only the folder's remains are left
			if held, err := d.used(c.cluster); err != nil || held {
				return held, err
			}
		}
		if err := d.move(ctx, each.volume, each.size); err != nil {
			return false, fmt.Errorf("move %s to a file system of its own: %w", each.at, err)
		}
	}
	return false, nil
}

// used says whether a node of the cluster lives here, or what is left of one.
func (d *Driver) used(cluster string) (bool, error) {
	homes, err := filepath.Glob(filepath.Join(d.config.Dir, "nodes", cluster+".*"))
	if err != nil {
		return false, err
	}
	for _, dir := range homes {
		boots, err := home{filepath.Base(dir), dir}.boots()
		if err != nil {
			return false, err
		}
		for _, b := range boots {
			pids, err := d.cgroups.Processes(b.name)
			if err != nil {
				return false, err
			}
			if first, ok := d.first(b); len(pids) > 0 || ok && first.Runs() {
				return true, nil
			}
		}
	}
	return false, nil
}

// served says whether the cluster's /home may be served over a network: only from a file system of its own, since whoever
// asks an NFS server for a file by a handle of his own making gets any file of that file system.
func (d *Driver) served(c shared) (bool, error) {
	var root, own unix.Stat_t
	if err := unix.Stat(d.config.Dir, &root); err != nil {
		return false, &os.PathError{Op: "stat", Path: d.config.Dir, Err: err}
	}
	if err := unix.Stat(c.home(), &own); err != nil {
		return false, &os.PathError{Op: "stat", Path: c.home(), Err: err}
	}
	return root.Dev != own.Dev, nil
}

// MoveHomes makes volumes of folders that an earlier version has left, of all clusters that no node uses at the moment. It
// returns those clusters whose nodes hold the folder: it moves when they are gone, as after a pause.
func (d *Driver) MoveHomes(ctx context.Context) (left []string, err error) {
	clusters, err := d.ListShared(ctx)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, cluster := range clusters {
		held, err := d.moveHome(ctx, cluster)
		if err != nil {
			failed = append(failed, fmt.Errorf("cluster %s: %w", cluster, err))
		}
		if held {
			left = append(left, cluster)
		}
	}
	return left, errors.Join(failed...)
}

func (d *Driver) moveHome(ctx context.Context, cluster string) (bool, error) {
	c, err := d.shared(cluster)
	if err != nil {
		return false, err
	}
	if done, err := c.settled(); err != nil || done {
		return false, err
	}
	held, err := onhost.Exclusive(ctx, d.lockPath("cluster", cluster))
	if err != nil {
		return false, err
	}
	defer held.Release()
	if _, err := os.Lstat(c.dir); errors.Is(err, fs.ErrNotExist) { // removed meanwhile
		return false, nil
	}
	return d.moves(ctx, c)
}

// settled says that no folder is left to be moved.
func (c shared) settled() (bool, error) {
	for _, v := range []volume{c.homeVolume(), c.stateVolume()} {
		if unmoved, err := v.unmoved(); err != nil || unmoved {
			return false, err
		}
	}
	return true, nil
}

// EndServing ends the heads that an earlier version lets serve /home from the host's own file system: their clients could
// have any file of it. It names them; whoever wants them has to start them again.
func (d *Driver) EndServing(ctx context.Context) ([]substrate.Ref, error) {
	refs, err := d.List(ctx)
	if err != nil {
		return nil, err
	}
	var ended []substrate.Ref
	for _, r := range refs {
		h, err := d.home(r)
		if err != nil {
			return ended, err
		}
		c, err := d.shared(r.Cluster)
		if err != nil {
			return ended, err
		}
		b := h.boot(r.Boot)
		first, runs := d.first(b)
		if text, err := os.ReadFile(b.path("config.json")); err != nil || !strings.Contains(string(text), servingCapability) ||
			!runs {
			continue
		}
		if apart, err := d.served(c); err != nil || apart {
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return ended, err
			}
			continue
		}
		if err := first.End(ctx, 0); err != nil {
			return ended, fmt.Errorf("end node %s: %w", r.Node, err)
		}
		d.wards.collect()
		// For information only: Observe has it.
		_ = os.WriteFile(b.path("exit"), []byte("ended, as it served /home from the file system of the controller's host"), 0o600)
		ended = append(ended, r)
	}
	return slices.Clip(ended), nil
}
