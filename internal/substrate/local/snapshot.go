package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"muster/internal/agent/protocol"
	"muster/internal/substrate"
	"muster/internal/substrate/onhost"
)

// snapshot is a snapshot's place on disk. What is under another name than its own is being made, or being removed.
type snapshot struct{ dir string }

func (s snapshot) part() string { return s.dir + ".part" }
func (s snapshot) gone() string { return s.dir + ".gone" }

func (d *Driver) snapshot(id string) (snapshot, error) {
	if err := onhost.CheckID(id); err != nil {
		return snapshot{}, err
	}
	return snapshot{filepath.Join(d.config.Dir, "snapshots", id)}, nil
}

// Save copies /home and the head's state. It takes no lock of the cluster, whose nodes come and go meanwhile; whoever
// deletes the cluster in the middle has to disregard the snapshot.
func (d *Driver) Save(ctx context.Context, cluster, id string, progress func(int64) error) (int64, error) {
	c, err := d.commons(cluster)
	if err != nil {
		return 0, err
	}
	s, err := d.snapshot(id)
	if err != nil {
		return 0, err
	}
	held, err := onhost.Exclusive(ctx, d.lockPath("snapshot", id))
	if err != nil {
		return 0, err
	}
	defer held.Release()
	if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
		if err := d.save(ctx, c, s, progress); err != nil {
			return 0, fmt.Errorf("save cluster %s: %w", cluster, err)
		}
	}
	return sizeOf(ctx, s.dir)
}

func (d *Driver) save(ctx context.Context, c commons, s snapshot, progress func(int64) error) error {
	if err := os.RemoveAll(s.part()); err != nil {
		return err
	}
	need, err := d.Size(ctx, c.cluster)
	if err != nil {
		return err
	}
	if err := room(s.dir, need); err != nil {
		return err
	}
	return complete(ctx, s.part(), s.dir, func(p *copying) error {
		if err := p.tree(c.home(), filepath.Join(s.part(), "home")); err != nil {
			return err
		}
		return p.tree(c.state(), filepath.Join(s.part(), "state"), filepath.Base(protocol.StateOwn))
	}, progress)
}

// Restore gives a new cluster what is in a snapshot.
func (d *Driver) Restore(ctx context.Context, id, cluster string, progress func(int64) error) error {
	c, err := d.commons(cluster)
	if err != nil {
		return err
	}
	s, err := d.snapshot(id)
	if err != nil {
		return err
	}
	unlock, err := onhost.Shared(ctx, d.lockPath("snapshot", id))
	if err != nil {
		return err
	}
	defer unlock()
	held, err := onhost.Exclusive(ctx, d.lockPath("cluster", cluster))
	if err != nil {
		return err
	}
	defer held.Release()
	if _, err := os.Stat(c.dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := restore(ctx, s, c, progress); err != nil {
		return fmt.Errorf("restore cluster %s: %w", cluster, err)
	}
	return nil
}

func restore(ctx context.Context, s snapshot, c commons, progress func(int64) error) error {
	need, err := sizeOf(ctx, s.dir)
	if err != nil {
		return err
	}
	// Beside the snapshots: a cluster is whatever is in the folder of clusters.
	part := snapshot{filepath.Join(filepath.Dir(s.dir), c.cluster)}.part()
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := room(s.dir, need); err != nil {
		return err
	}
	return complete(ctx, part, c.dir, func(p *copying) error { return p.tree(s.dir, part) }, progress)
}

// complete fills a folder and gives it its name when it is whole and on disk. Nothing of it is left if it does not come
// to that, but after a crash.
func complete(ctx context.Context, part, name string, fill func(*copying) error, progress func(int64) error) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	if err := os.Mkdir(part, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := fill(newCopying(ctx, progress)); err != nil {
		return err
	}
	if err := onDisk(part); err != nil {
		return err
	}
	return os.Rename(part, name)
}

func onDisk(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return unix.Syncfs(int(dir.Fd()))
}

// spare is what a copy leaves free, for the nodes that run.
const spare = 512 << 20

// room says whether so many bytes fit beside path. A file system that shares blocks between copies takes any.
func room(path string, need int64) error {
	dir := filepath.Dir(path)
	if shares(dir) {
		return nil
	}
	var free unix.Statfs_t
	if err := unix.Statfs(dir, &free); err != nil {
		return err
	}
	if available := int64(free.Bavail) * free.Bsize; available < need+spare {
		return fmt.Errorf("%w: the copy takes %d MiB, and %d MiB are free on the controller's disk, of which %d stay free", substrate.ErrNoRoom, need>>20, available>>20, spare>>20)
	}
	return nil
}

// shares tries whether files below dir can be copied without copying their blocks.
func shares(dir string) bool {
	a, err := os.CreateTemp(dir, "probe-*.part")
	if err != nil {
		return false
	}
	defer os.Remove(a.Name())
	defer a.Close()
	b, err := os.CreateTemp(dir, "probe-*.part")
	if err != nil {
		return false
	}
	defer os.Remove(b.Name())
	defer b.Close()
	if _, err := a.Write(make([]byte, 4096)); err != nil {
		return false
	}
	return unix.IoctlFileClone(int(b.Fd()), int(a.Fd())) == nil
}

// Drop takes the snapshot's name away before its content, so that no half of it can be restored.
func (d *Driver) Drop(ctx context.Context, id string) error {
	s, err := d.snapshot(id)
	if err != nil {
		return err
	}
	held, err := onhost.Exclusive(ctx, d.lockPath("snapshot", id))
	if err != nil {
		return err
	}
	defer held.Release()
	if err := os.RemoveAll(s.gone()); err != nil {
		return err
	}
	if err := os.Rename(s.dir, s.gone()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(os.RemoveAll(s.gone()), os.RemoveAll(s.part()))
}

// Snapshots names all of which anything is there; a cluster that is being restored is among them.
func (d *Driver) Snapshots(context.Context) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.config.Dir, "snapshots"))
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var ids []string
	for _, entry := range entries { // sorted by name
		id, _, _ := strings.Cut(entry.Name(), ".")
		if entry.IsDir() && (len(ids) == 0 || ids[len(ids)-1] != id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
