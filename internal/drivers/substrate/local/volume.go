package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate/onhost"
	"muster/internal/kit/wrap"
)

// volume is a file system of its own, in a file that takes only as much of the disk as is written: XFS, which grows while
// it is used. Who fills it fills nothing else, and no handle of a file on it is one of a file elsewhere.
//
// It is made under another name, so an image that has its own name is whole. Its mount may be lost, with the host's memory
// or with the name space that it was made in; ensure mounts it again. As long as some mount of it is left, anywhere, its
// loop device is, and that one is mounted: two devices over one image would destroy it.
type volume struct {
	image, at string
	mode      fs.FileMode // of its root
	// fleeting says that nothing on it is of use once it is not mounted any more: after that it is made again.
	fleeting bool
}

const readAhead = 4 << 20 // bytes

const leastVolume = 300 << 20 // what mkfs.xfs asks for, in bytes

// ensure makes it, of so many bytes, and mounts it. What is there is kept as it is. One that has stopped, after an error of the
// disk or because it was about to be removed, is mounted again as soon as nothing holds it.
func (v volume) ensure(ctx context.Context, size int64) error {
	there, err := v.mounted()
	if err != nil || there && !v.dead() {
		return err
	}
	if !there {
		err = v.mount(ctx, size)
	}
	if err == nil && v.dead() {
		if err = unmountBelow(ctx, v.at); err == nil {
			err = v.released(ctx)
		}
		if err == nil {
			err = v.mount(ctx, size)
		}
	}
	if err != nil {
		return err
	}
	if v.dead() {
		return fmt.Errorf("%s has stopped after an error of the disk; it comes back when all nodes of the cluster have gone, "+
			"as in a pause", v.image)
	}
	return os.Chmod(v.at, v.mode)
}

func (v volume) mount(ctx context.Context, size int64) error {
	device, err := attached(v.image)
	if err != nil {
		return err
	}
	if device == nil {
		if device, err = v.attach(ctx, size); err != nil {
			return err
		}
	}
	defer device.Close()
	if err := makeDir(v.at, v.mode); err != nil {
		return err
	}
	return wrap.Errorf(unix.Mount(device.Name(), v.at, "xfs", unix.MS_NOSUID|unix.MS_NODEV, volumeOptions), "mount")
}

// released waits a little for the last holder of what has been unmounted, such as a controller that was killed.
func (v volume) released(ctx context.Context) error {
	free := func() (bool, error) {
		device, err := attached(v.image)
		if device != nil {
			device.Close()
		}
		return device == nil, err
	}
	if err := onhost.Until(ctx, 2*time.Second, free); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return ctx.Err()
}

// volumeOptions let a copy of an image be mounted beside it: two file systems of one UUID.
const volumeOptions = "nouuid,inode64"

func (v volume) attach(ctx context.Context, size int64) (*os.File, error) {
	if v.fleeting {
		if err := remove(v.image); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(v.image); errors.Is(err, fs.ErrNotExist) {
		if err := makeImage(ctx, v.image, size); err != nil {
			return nil, err
		}
	}
	// Without a second copy of everything in the host's memory, writes are as fast as on the host's own file system; the
	// loop device falls back by itself where the host cannot do that. Reads then want a longer look ahead.
	device, err := attachLoop(v.image, unix.LO_FLAGS_DIRECT_IO)
	if err != nil {
		return nil, fmt.Errorf("loop device: %w", err)
	}
	// It only makes reads faster.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, device.Fd(), unix.BLKRASET, readAhead>>9)
	return device, nil
}

// volumeFormat are the arguments of mkfs.xfs. There is nothing to discard in a new file; and without the two features,
// which set room aside, an empty file system of any size has the same little taken.
func volumeFormat() []string { return []string{"-q", "-K", "-m", "reflink=0,finobt=0"} }

// makeImage makes a file with an empty file system.
func makeImage(ctx context.Context, image string, size int64) error {
	part := image + ".part"
	if err := os.MkdirAll(filepath.Dir(image), 0o700); err != nil {
		return err
	}
	// Another file than before: mkfs.xfs of a controller that was killed may still be writing that one.
	if err := remove(part); err != nil {
		return err
	}
	file, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Truncate(max(size, leastVolume)); err != nil {
		return err
	}
	mkfs := exec.CommandContext(ctx, "mkfs.xfs", append(volumeFormat(), "/proc/self/fd/3")...)
	mkfs.ExtraFiles = []*os.File{file} // and no other, whatever has the name by then
	if output, err := mkfs.CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.xfs: %w: %s", err, output)
	}
	return os.Rename(part, image)
}

func (v volume) mounted() (bool, error) { return mounted(v.at) }

// dead says that the file system is mounted and answers nothing but errors.
func (v volume) dead() bool {
	root, err := os.Open(v.at)
	if err == nil {
		root.Close()
	}
	return errors.Is(err, unix.EIO)
}

// made says that there is an image, mounted or not.
func (v volume) made() bool {
	_, err := os.Lstat(v.image)
	return err == nil
}

// Requests to XFS: linux/fs/xfs/libxfs/xfs_fs.h.
const (
	xfsGeometryV1 = 2<<30 | 112<<16 | 'X'<<8 | 100 // XFS_IOC_FSGEOMETRY_V1
	xfsGrow       = 1<<30 | 16<<16 | 'X'<<8 | 110  // XFS_IOC_FSGROWFSDATA
	xfsShutdown   = 2<<30 | 4<<16 | 'X'<<8 | 125   // XFS_IOC_GOINGDOWN
)

// grow makes it at least so many bytes large, while it is used. It never shrinks.
func (v volume) grow(size int64) error {
	root, err := os.Open(v.at)
	if err != nil {
		return err
	}
	defer root.Close()
	device, err := attached(v.image)
	if err != nil {
		return err
	}
	if device == nil {
		return fmt.Errorf("%s is not mounted", v.image)
	}
	defer device.Close()
	info, err := os.Stat(v.image)
	if err != nil {
		return err
	}
	if info.Size() < size {
		if err := os.Truncate(v.image, size); err != nil {
			return err
		}
	}
	if err := unix.IoctlSetInt(int(device.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("enlarge %s: %w", device.Name(), err)
	}
	now, err := geometry(root)
	if err != nil {
		return err
	}
	request := struct {
		blocks    uint64
		inodes, _ uint32 // how many of a hundred blocks may be inodes
	}{uint64(size) / uint64(now.BlockSize), now.Inodes, 0}
	if request.blocks <= now.Blocks {
		return nil
	}
	return wrap.Errorf(xfsRequest(root, xfsGrow, unsafe.Pointer(&request)), "grow %s to %d bytes", v.at, size)
}

// holds says that it has been made of so many bytes, or grown to them. What is mounted there and not ours has the size it has.
func (v volume) holds(size int64) bool {
	if size == 0 || !v.made() {
		return true
	}
	root, err := os.Open(v.at)
	if err != nil {
		return false
	}
	defer root.Close()
	now, err := geometry(root)
	return err == nil && int64(now.Blocks)*int64(now.BlockSize) >= size/int64(now.BlockSize)*int64(now.BlockSize)
}

// xfsGeometry is struct xfs_fsop_geom_v1.
type xfsGeometry struct {
	BlockSize, _, _, Groups, _, _, _, Inodes uint32
	Blocks                                   uint64
	_                                        [9]uint64
}

func geometry(root *os.File) (g xfsGeometry, err error) {
	err = xfsRequest(root, xfsGeometryV1, unsafe.Pointer(&g))
	return g, wrap.Errorf(err, "size of the file system at %s", root.Name())
}

func xfsRequest(root *os.File, request uintptr, argument unsafe.Pointer) error {
	if _, _, failed := unix.Syscall(unix.SYS_IOCTL, root.Fd(), request, uintptr(argument)); failed != 0 {
		return failed
	}
	return nil
}

// abandon unmounts it without writing down what is not on disk yet: its image is about to be removed.
func (v volume) abandon(ctx context.Context) error {
	there, err := v.mounted()
	if err != nil || !there {
		return err
	}
	if v.made() { // else it is not one of ours
		root, err := os.Open(v.at)
		switch {
		case errors.Is(err, unix.EIO): // somebody came this far before
		case err != nil:
			return err
		default:
			const nothing = 2 // XFS_FSOP_GOING_FLAGS_NOLOGFLUSH
			// It only saves time; unmounting does the rest.
			_ = unix.IoctlSetPointerInt(int(root.Fd()), xfsShutdown, nothing)
			root.Close()
		}
	}
	return unmountBelow(ctx, v.at)
}

// Requests that keep a file system as it is, and end that: linux/fs.h.
const (
	freeze = 3<<30 | 4<<16 | 'X'<<8 | 119 // FIFREEZE
	thaw   = 3<<30 | 4<<16 | 'X'<<8 | 120 // FITHAW
)

// mostStill bounds still: the host's guard of disks waits, too.
const mostStill = 3 * time.Second

// still keeps it as it is while copy reads it, so that what a database writes to several files fits together: what writes waits
// meanwhile. A folder of the host's own file system is copied as it comes.
func (v volume) still(copy func() error) error {
	if there, err := v.alone(); err != nil || !there {
		return errors.Join(err, copy())
	}
	root, err := os.Open(v.at)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := xfsRequest(root, freeze, nil); err != nil {
		return fmt.Errorf("freeze %s: %w", v.at, err)
	}
	goOn := sync.OnceValue(func() error { return xfsRequest(root, thaw, nil) })
	timer := time.AfterFunc(mostStill, func() { _ = goOn() })
	defer timer.Stop()
	err = copy()
	return errors.Join(err, goOn())
}

// alone says that what is seen there is the volume, and not the host's own file system, which others may have frozen.
func (v volume) alone() (bool, error) {
	there, err := v.mounted()
	return there && v.made(), err
}

// goOn ends what a controller that was killed has left of still.
func (v volume) goOn() error {
	if there, err := v.alone(); err != nil || !there {
		return err
	}
	root, err := os.Open(v.at)
	if err != nil {
		return err
	}
	defer root.Close()
	return xfsRequest(root, thaw, nil)
}

// usage is how large it is and how much of that is taken by files, in bytes.
func (v volume) usage() (size, used int64, err error) {
	r, err := v.look()
	if err != nil {
		return 0, 0, err
	}
	return r.size, max(0, r.size-r.free-r.pool-r.fixed), nil
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
