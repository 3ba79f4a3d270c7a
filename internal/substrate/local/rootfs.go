package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/substrate/onhost"
)

// mountRoot mounts the node's root: the image below, a fresh upper layer of this boot above.
func (d *Driver) mountRoot(ctx context.Context, b boot, digest string) error {
	squashfs, err := d.config.Images(digest)
	if err != nil {
		return fmt.Errorf("image %s: %w", digest, err)
	}
	name := strings.ReplaceAll(digest, ":", "-")
	if err := checkImageName(name); err != nil {
		return err
	}
	// Held until the overlay uses the image: from then on the kernel's table of mounts says that it is in use.
	held, err := onhost.Exclusive(ctx, d.lockPath("image", name))
	if err != nil {
		return err
	}
	defer held.Release()
	lower := filepath.Join(d.config.Dir, "images", name)
	if err := mountImage(squashfs, lower); err != nil {
		return fmt.Errorf("image %s: %w", digest, err)
	}
	return mountOverlay(lower, b)
}

func checkImageName(name string) error {
	if name == "" || name != filepath.Base(name) || strings.ContainsAny(name, ".,:\\ \t\n") {
		return fmt.Errorf("%q is no digest of an image", name)
	}
	return nil
}

// mountOverlay is volatile: nothing of an upper layer is ever used again after its boot, so it is never synced. Without
// that, every unmount would wait for the disk to write what is about to be deleted.
func mountOverlay(lower string, b boot) error {
	options := "lowerdir=" + lower + ",upperdir=" + b.path("upper") + ",workdir=" + b.path("work")
	err := unix.Mount("overlay", b.path("root"), "overlay", unix.MS_NODEV, options+",volatile")
	if errors.Is(err, unix.EINVAL) { // before Linux 5.10
		err = unix.Mount("overlay", b.path("root"), "overlay", unix.MS_NODEV, options)
	}
	if err != nil {
		return fmt.Errorf("mount root: %w", err)
	}
	return nil
}

// mountImage mounts a squashfs read-only, once. The caller holds the image's lock.
func mountImage(squashfs, at string) error {
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	if mounts, err := mountsBelow(at); err != nil || len(mounts) > 0 {
		return err
	}
	device, err := attachLoop(squashfs)
	if err != nil {
		return fmt.Errorf("loop device: %w", err)
	}
	defer device.Close()
	if err := unix.Mount(device.Name(), at, "squashfs", unix.MS_RDONLY|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// attachLoop puts a file behind a free loop device, which the kernel frees when the last user is gone: the returned
// file, and then the mount. A crash in between leaves nothing.
func attachLoop(path string) (*os.File, error) {
	backing, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer backing.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	config := unix.LoopConfig{Fd: uint32(backing.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_READ_ONLY | unix.LO_FLAGS_AUTOCLEAR}}
	// Between asking for a free device and taking it, another process may take it.
	for range 100 {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, err
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		if err = unix.IoctlLoopConfigure(int(device.Fd()), &config); err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, err
		}
	}
	return nil, unix.EBUSY
}

// releaseImages unmounts the images that no node uses any more. It may be called at any time.
func (d *Driver) releaseImages(ctx context.Context) error {
	dir := filepath.Join(d.config.Dir, "images")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		image := filepath.Join(dir, entry.Name())
		// Asked twice: most of the time the answer is yes, and then the lock is not worth waiting for.
		if used, err := isLower(image); err != nil || used {
			if err != nil {
				return err
			}
			continue
		}
		if err := d.releaseImage(ctx, entry.Name(), image); err != nil {
			return fmt.Errorf("release image %s: %w", entry.Name(), err)
		}
	}
	return nil
}

func (d *Driver) releaseImage(ctx context.Context, name, image string) error {
	held, err := onhost.Exclusive(ctx, d.lockPath("image", name))
	if err != nil {
		return err
	}
	defer held.Release()
	if used, err := isLower(image); err != nil || used {
		return err
	}
	if err := unmountBelow(ctx, image); err != nil {
		return err
	}
	if err := os.Remove(image); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// isLower says whether an overlay stands on dir.
func isLower(dir string) (bool, error) {
	used := false
	err := eachMount(func(at, options string) {
		used = used || strings.Contains(options, "lowerdir="+dir+",")
	})
	return used, err
}

// mountsBelow lists the mount points at path and below it, in the order of mounting.
func mountsBelow(path string) ([]string, error) {
	var found []string
	err := eachMount(func(at, _ string) {
		if at == path || strings.HasPrefix(at, path+"/") {
			found = append(found, at)
		}
	})
	return found, err
}

// eachMount reads the kernel's table: where each mount is, and its file system's options. Characters that the table
// escapes are refused in Dir, so paths below it compare as they are.
func eachMount(do func(at, options string)) error {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 7 {
			continue
		}
		do(fields[4], fields[len(fields)-1])
	}
	return lines.Err()
}

// unmountBelow unmounts all that is at path or below it. It waits a little for mounts that are still busy with a process
// that has just ended, and never detaches a busy one: what is reported gone is gone.
func unmountBelow(ctx context.Context, path string) error {
	mounts, err := mountsBelow(path)
	if err != nil {
		return err
	}
	for i := len(mounts) - 1; i >= 0; i-- {
		err := onhost.Until(ctx, 2*time.Second, func() (bool, error) {
			err := unix.Unmount(mounts[i], unix.UMOUNT_NOFOLLOW)
			return err == nil || errors.Is(err, unix.EINVAL), err
		})
		if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: no longer a mount point
			return fmt.Errorf("unmount %s: %w", mounts[i], err)
		}
	}
	if mounts, err = mountsBelow(path); err == nil && len(mounts) > 0 {
		err = fmt.Errorf("still mounted: %v", mounts)
	}
	return err
}
