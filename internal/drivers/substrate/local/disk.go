package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"muster/internal/kit/clock"
	"muster/internal/kit/space"
)

// Volumes may promise more than the disk under them has. So that a tenant who takes what he was promised can fill neither
// the disk of the database nor what others have written already, each volume is told, several times a second, how much of
// the disk is left: XFS keeps so many of its own free blocks to itself that no more can be taken than that. Its users then
// see a full disk, before the host does. An owner who has taken more than an equal part sees it earlier than the others.

// Disk is the file system of the driver's directory, in bytes.
type Disk struct {
	space.Disk
	// Promised is, of Free, what is written to volumes and not on disk yet or asked for by programs in advance, and what copies
	// under way have still to write.
	Promised int64
}

// Left is what volumes may still take; below 0: it has been taken from the reserve.
func (d Disk) Left() int64 { return d.Disk.Left() - d.Promised }

// Short says that volumes may take no more.
func (d Disk) Short() bool { return d.Left() <= 0 }

const (
	setAside  = 56 << 10 // bytes of each allocation group that XFS counts as taken on an empty file system
	usualPool = 32 << 20 // bytes that XFS keeps to itself for deleting files on a full file system
	slack     = 16 << 20 // smaller changes of a pool are not worth the call

	looksNear = 20 * time.Millisecond
	looksFull = 200 * time.Millisecond // when nothing is left to be taken
	looksFar  = time.Second
	fastest   = 4 << 30 // bytes that one writes in a second, at most
	trimEvery = 10 * time.Minute
	crumb     = 64 << 10 // bytes: less than so much in one piece is not given back

	lastPart = 10 // one in so many bytes of the disk is left to owners who have no more than an equal part of it
)

// Disk looks how much of the disk is left.
func (d *Driver) Disk() (Disk, error) {
	disk, _, err := d.measure()
	return disk, err
}

// GuardDisk keeps volumes from the reserve until ctx ends, and gives room back that their users have freed. Meanwhile a new
// volume, or one that has grown, is kept from it before anything can be written to it.
func (d *Driver) GuardDisk(ctx context.Context) {
	guard := func(is bool) {
		d.reserve.Lock()
		defer d.reserve.Unlock()
		d.guarded = is
	}
	guard(true)
	defer guard(false)
	told, trimmed := false, time.Now()
	var trims errgroup.Group // of one at a time, which may take long where free room is in crumbs
	trims.SetLimit(1)
	defer func() { _ = trims.Wait() }() // none fails
	for ctx.Err() == nil {
		volumes, again, err := d.tell()
		if err != nil && !told {
			d.config.Log.Error("cannot keep the reserve of the disk free", "error", err)
		}
		told = err != nil
		if since := time.Since(trimmed); since > trimEvery || slices.ContainsFunc(volumes, roomOf.full) && since > trimEvery/20 {
			trims.TryGo(func() error {
				trim(ctx, volumes)
				return nil
			})
			trimmed = time.Now()
		}
		_ = clock.Sleep(ctx, again)
	}
}

// keepReserve is called when there is a new volume, or more of one. Where the disk is not guarded it does nothing: a volume would
// not be told later that it may take more again.
func (d *Driver) keepReserve() error {
	d.reserve.Lock()
	guarded := d.guarded
	d.reserve.Unlock()
	if !guarded {
		return nil
	}
	_, _, err := d.tell()
	return err
}

// tell has each volume that is mounted keep what it may not take now. The time is when to look again: before a fast writer has
// taken what he may.
func (d *Driver) tell() ([]roomOf, time.Duration, error) {
	d.reserve.Lock() // what is measured later is told later
	defer d.reserve.Unlock()
	disk, volumes, err := d.measure()
	if err != nil {
		return volumes, looksFull, err
	}
	again := disk.share(volumes)
	return volumes, again, hold(volumes)
}

// share sets what each volume may take until the next look, and says when that is.
func (d Disk) share(volumes []roomOf) time.Duration {
	greedy := d.greedy(volumes)
	usual, less := d.allow(len(volumes), 0), d.allow(len(volumes), d.last())
	again := look(usual)
	for i := range volumes {
		r := &volumes[i]
		if r.allowed = usual; greedy[r.owner] {
			r.allowed = less
			again = min(again, look(less))
		}
	}
	return again
}

// last is what is left to those who are not greedy.
func (d Disk) last() int64 { return max(0, d.Size-d.Reserve) / lastPart }

// greedy are the owners who have more than an equal part of the disk, were there one more.
func (d Disk) greedy(volumes []roomOf) map[string]bool {
	taken := map[string]int64{}
	for _, r := range volumes {
		if r.owner != "" {
			taken[r.owner] += r.onDisk + r.unwritten()
		}
	}
	greedy := map[string]bool{}
	for owner, bytes := range taken {
		greedy[owner] = bytes > (d.Size-d.Reserve)/int64(len(taken)+1)
	}
	return greedy
}

// allow is what each of n volumes may take until the next look: never more than is left beside what is kept from them, and all
// of them together no more than that and half of the reserve, however fast they write.
func (d Disk) allow(n int, kept int64) int64 {
	left := max(0, d.Left()-kept)
	return min(left, (left+d.Reserve/2)/int64(max(n, 1)))
}

// look is when to look again at volumes that may take so much.
func look(allowed int64) time.Duration {
	if allowed == 0 {
		return looksFull
	}
	return min(max(time.Duration(float64(allowed)/fastest*float64(time.Second)), looksNear), looksFar)
}

// room of one volume, in bytes.
type roomOf struct {
	volume
	size, free  int64 // free: what its users may take
	pool, asked int64 // what it keeps to itself, and was asked to
	onDisk      int64 // of the host's disk that its file takes
	fixed       int64 // taken when it is empty
	block       int64
	owner       string // "": not known
	allowed     int64  // to its users, until the next look
}

// unwritten is what has been written to it, or asked for in advance, and is not on disk yet.
func (r roomOf) unwritten() int64 { return max(0, r.size-r.free-r.pool-r.onDisk) }

// full says that its users may take nothing.
func (r roomOf) full() bool { return r.allowed == 0 }

// measure looks at the disk and at all volumes that are mounted.
func (d *Driver) measure() (Disk, []roomOf, error) {
	now, err := space.On(d.config.Dir, d.config.Reserve)
	disk := Disk{Disk: now, Promised: d.claimed.Load()}
	if err != nil {
		return disk, nil, err
	}
	clusters, err := os.ReadDir(filepath.Join(d.config.Dir, "clusters"))
	if err != nil {
		return disk, nil, err
	}
	var volumes []roomOf
	for _, entry := range clusters {
		c := shared{dir: filepath.Join(d.config.Dir, "clusters", entry.Name())}
		owner := c.owner()
		for _, v := range c.volumes() {
			r, err := v.look()
			// not mounted, or on its way out
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EIO) {
				continue
			}
			if err != nil {
				return disk, nil, err
			}
			r.owner = owner
			volumes = append(volumes, r)
			disk.Promised += r.unwritten()
		}
	}
	return disk, volumes, nil
}

// xfsPool is struct xfs_fsop_resblks, in blocks.
type xfsPool struct{ Asked, There uint64 }

const (
	xfsSetPool = 3<<30 | 16<<16 | 'X'<<8 | 114 // XFS_IOC_SET_RESBLKS
	xfsGetPool = 2<<30 | 16<<16 | 'X'<<8 | 115 // XFS_IOC_GET_RESBLKS
	trimFree   = 3<<30 | 24<<16 | 'X'<<8 | 121 // FITRIM
)

// look measures a volume; unix.ENOTTY: there is only the folder.
func (v volume) look() (roomOf, error) {
	r := roomOf{volume: v}
	var disk unix.Stat_t
	if err := unix.Stat(v.image, &disk); err != nil {
		return r, &os.PathError{Op: "stat", Path: v.image, Err: err}
	}
	root, err := os.Open(v.at)
	if err != nil {
		return r, err
	}
	defer root.Close()
	var here unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &here); err != nil {
		return r, &os.PathError{Op: "stat", Path: v.at, Err: err}
	}
	if here.Dev == disk.Dev { // the folder of the host's own file system, whose pool is not ours to change
		return r, fmt.Errorf("room of %s: %w", v.at, unix.ENOTTY)
	}
	var pool xfsPool
	if err := xfsRequest(root, xfsGetPool, unsafe.Pointer(&pool)); err != nil {
		return r, fmt.Errorf("room of %s: %w", v.at, err)
	}
	g, err := geometry(root)
	if err != nil {
		return r, err
	}
	var now unix.Statfs_t
	if err := unix.Fstatfs(int(root.Fd()), &now); err != nil {
		return r, &os.PathError{Op: "statfs", Path: v.at, Err: err}
	}
	r.fixed = int64(g.Groups) * setAside
	r.block = now.Bsize
	r.size, r.free = int64(now.Blocks)*now.Bsize, int64(now.Bfree)*now.Bsize
	r.pool, r.asked = int64(pool.There)*now.Bsize, int64(pool.Asked)*now.Bsize
	r.onDisk = disk.Blocks * 512
	return r, nil
}

// hold lets no volume take more than it is allowed.
func hold(volumes []roomOf) error {
	for _, r := range volumes {
		want := min(usualPool, r.size/20)
		if all := r.free + r.pool; all > r.allowed+want {
			want = all - r.allowed
		}
		if difference := want - r.asked; max(difference, -difference) < min(slack, r.allowed/8+1) &&
			(r.allowed > 0 || difference <= 0) {
			continue
		}
		root, err := os.Open(r.at)
		if err != nil {
			continue // removed meanwhile
		}
		pool := xfsPool{Asked: uint64(want / r.block)}
		err = xfsRequest(root, xfsSetPool, unsafe.Pointer(&pool))
		root.Close()
		if err != nil && !errors.Is(err, unix.EIO) && !errors.Is(err, unix.ENOTTY) {
			return fmt.Errorf("set room of %s aside: %w", r.at, err)
		}
	}
	return nil
}

// trim gives what the users of volumes have deleted back to the disk. A disk that cannot take it keeps it for them.
func trim(ctx context.Context, volumes []roomOf) {
	for _, r := range volumes {
		if ctx.Err() != nil {
			return
		}
		if _, err := r.look(); err != nil {
			continue // by now there may be the folder alone, of the host's own file system
		}
		root, err := os.Open(r.at)
		if err != nil {
			continue
		}
		all := struct{ start, length, least uint64 }{length: ^uint64(0), least: crumb}
		_ = xfsRequest(root, trimFree, unsafe.Pointer(&all))
		root.Close()
	}
}
