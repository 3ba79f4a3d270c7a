package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/local/tree"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
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

// Save copies /home and the head's state. It takes no lock of the cluster, whose nodes come and go meanwhile; a caller that
// deletes the cluster in the middle has to disregard the snapshot.
func (d *Driver) Save(ctx context.Context, cluster, id string, progress func(int64) error) (substrate.Saved, error) {
	c, err := d.shared(cluster)
	if err != nil {
		return substrate.Saved{}, err
	}
	s, err := d.snapshot(id)
	if err != nil {
		return substrate.Saved{}, err
	}
	held, err := onhost.Exclusive(ctx, d.lockPath("snapshot", id))
	if err != nil {
		return substrate.Saved{}, err
	}
	defer held.Release()
	if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
		if err := d.save(ctx, c, s, progress); err != nil {
			return substrate.Saved{}, fmt.Errorf("save cluster %s: %w", cluster, err)
		}
	}
	bytes, err := d.treeSize(ctx, s.dir)
	if err != nil {
		return substrate.Saved{}, err
	}
	left, err := os.ReadFile(filepath.Join(s.dir, leftOut))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return substrate.Saved{}, err
	}
	return substrate.Saved{Bytes: bytes, LeftOut: string(left)}, nil
}

// leftOut is the file of a snapshot that says what could not be copied, if there is such.
const leftOut = "left-out"

// goOn lets heads write again whose state an earlier process was copying when it was killed.
func (d *Driver) goOn(ctx context.Context) error {
	clusters, err := d.ListShared(ctx)
	for _, cluster := range clusters {
		if c, err := d.shared(cluster); err == nil {
			_ = c.stateVolume().goOn() // an error says that nothing kept them from it
		}
	}
	return err
}

func (d *Driver) save(ctx context.Context, c shared, s snapshot, progress func(int64) error) error {
	if err := clear(ctx, s.part()); err != nil {
		return err
	}
	need, err := d.Size(ctx, c.cluster) // which sees to it that it is mounted
	if err != nil {
		return err
	}
	claimed, err := d.claim(need)
	if err != nil {
		return err
	}
	defer claimed.release()
	return complete(ctx, s.part(), s.dir, func(p *tree.Copy) error {
		home, err := p.Tree(ctx, c.home(), filepath.Join(s.part(), "home"))
		if err != nil {
			return err
		}
		p.Without = []string{filepath.Base(protocol.StateOwn)}
		var state tree.Report
		err = c.stateVolume().still(func() (err error) {
			state, err = p.Tree(ctx, c.state(), filepath.Join(s.part(), "state"))
			return err
		})
		if report := home.And(state); err == nil && report.Count > 0 {
			err = os.WriteFile(filepath.Join(s.part(), leftOut), []byte(report.String()), 0o600)
		}
		return err
	}, claimed.within(progress))
}

// within ends a copy that has come to take much more than there was when it began, or more than the disk has: a process that
// writes faster than it is copied must not fill the controller's disk.
func (c *claim) within(progress func(int64) error) func(int64) error {
	most, began := 2*c.need+spare, time.Now()
	return func(copied int64) error {
		if copied > most {
			return fmt.Errorf("%w: %d MiB were there, %d MiB are copied, and there is ever more: pause the cluster first",
				substrate.ErrNoRoom, c.need>>20, copied>>20)
		}
		if err := c.copied(copied); err != nil {
			return err
		}
		if copied == 0 && time.Since(began) < time.Second { // folders and links alone
			return nil
		}
		return progress(copied)
	}
}

// Restore gives a new cluster what is in a snapshot.
func (d *Driver) Restore(ctx context.Context, id, cluster string, home int64, progress func(int64) error) error {
	c, err := d.shared(cluster)
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
	return wrap.Errorf(d.restore(ctx, s, c, cmp.Or(home, d.homeSize()), progress), "restore cluster %s", cluster)
}

func (d *Driver) restore(ctx context.Context, s snapshot, c shared, home int64, progress func(int64) error) error {
	if _, err := os.Lstat(s.dir); err != nil {
		return err
	}
	need, err := d.treeSize(ctx, s.dir)
	if err != nil {
		return err
	}
	// Beside the snapshots: a cluster is whatever is in the folder of clusters.
	part := c
	part.dir = snapshot{filepath.Join(filepath.Dir(s.dir), c.cluster)}.part()
	if err := clear(ctx, part.dir); err != nil {
		return err
	}
	claimed, err := d.claim(need)
	if err != nil {
		return err
	}
	defer claimed.release()
	err = complete(ctx, part.dir, c.dir, func(p *tree.Copy) error {
		for _, each := range []struct {
			volume
			least int64
		}{{part.homeVolume(), home}, {part.stateVolume(), d.stateSize()}} {
			from := filepath.Join(s.dir, filepath.Base(each.at))
			if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			held, err := d.treeSize(ctx, from)
			if err != nil {
				return err
			}
			if err := each.ensure(ctx, max(each.least, ample(held))); err != nil {
				return err
			}
			report, err := p.Tree(ctx, from, each.at)
			if err != nil {
				return err
			}
			if report.Count > 0 {
				d.config.Log.Warn("not all of a snapshot could be restored", "cluster", c.cluster, "left", report)
			}
		}
		return nil
	}, claimed.within(progress))
	if err != nil {
		return err
	}
	return c.mount(ctx)
}

// ample is the size of a file system that so many bytes of files fit on, whatever their number.
func ample(bytes int64) int64 { return bytes + bytes/4 + leastVolume }

// clear unmounts what is mounted below a folder and removes it.
func clear(ctx context.Context, dir string) error {
	if err := unmountBelow(ctx, dir); err != nil {
		return err
	}
	return tree.Remove(ctx, dir)
}

// complete fills a folder and gives it its name when it is whole and on disk. Nothing of it is left if it does not come
// to that, but after a crash.
func complete(ctx context.Context, part, name string, fill func(*tree.Copy) error, progress func(int64) error) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, clear(context.WithoutCancel(ctx), part))
		}
	}()
	if err := os.Mkdir(part, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := fill(&tree.Copy{Progress: progress}); err != nil {
		return err
	}
	if err := unmountBelow(ctx, part); err != nil { // which writes down what is mounted there
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

// spare is how much a copy may grow beyond twice of what it was to be.
const spare = 512 << 20

// claim is room on the disk for a copy under way: copies that begin at the same moment would each find the disk as empty as the
// others do.
type claim struct {
	d      *Driver
	need   int64 // bytes
	left   int64 // of need, what is not copied yet
	looked time.Time
}

// claim takes room for a copy, or says with numbers why there is none.
func (d *Driver) claim(need int64) (*claim, error) {
	d.claiming.Lock()
	defer d.claiming.Unlock()
	disk, err := d.Disk()
	if err != nil {
		return nil, err
	}
	if disk.FewFiles() {
		return nil, fmt.Errorf("%w: of the %d files that the controller's disk can have, %d are left, and a twentieth stays free",
			substrate.ErrNoRoom, disk.Files, disk.FreeFiles)
	}
	if left := disk.Left(); left < need {
		return nil, fmt.Errorf("%w: the copy takes %d MiB, and %d MiB are free on the controller's disk, of which %d stay free",
			substrate.ErrNoRoom, need>>20, disk.Free>>20, (disk.Free-left)>>20)
	}
	d.claimed.Add(need)
	return &claim{d: d, need: need, left: need}, nil
}

// looksEvery is how often a copy looks at the disk: files, folders and attributes take room beside the bytes that are copied.
const looksEvery = 100 * time.Millisecond

// copied tells how much is on the disk by now. An error says that there is no room for what has grown since the claim.
func (c *claim) copied(bytes int64) error {
	left := max(0, c.need-bytes)
	c.d.claimed.Add(left - c.left)
	if c.left = left; bytes <= c.need && time.Since(c.looked) < looksEvery {
		return nil
	}
	c.looked = time.Now()
	disk, err := c.d.recently()
	if err == nil && (disk.Left() < 0 || disk.FewFiles()) {
		err = fmt.Errorf("%w: %d MiB were there, %d MiB are copied, and the controller's disk takes no more", substrate.ErrNoRoom,
			c.need>>20, bytes>>20)
	}
	return err
}

// recently is Disk as it was a moment ago: however many copies are under way, they have all volumes looked at ten times a second.
func (d *Driver) recently() (Disk, error) {
	d.recent.Lock()
	defer d.recent.Unlock()
	if time.Since(d.recent.at) < looksEvery {
		return d.recent.disk, nil
	}
	disk, err := d.Disk()
	if err == nil {
		d.recent.disk, d.recent.at = disk, time.Now()
	}
	return disk, err
}

// release gives back what was not used.
func (c *claim) release() {
	c.d.claimed.Add(-c.left)
	c.left = 0
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
	if err := tree.Remove(ctx, s.gone()); err != nil {
		return err
	}
	if err := os.Rename(s.dir, s.gone()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(tree.Remove(ctx, s.gone()), clear(ctx, s.part()))
}

// Snapshots names all that have anything on disk; a cluster that is being restored is among them.
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
