package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/kit/wrap"
)

// mountRoot mounts the node's root: the image below, a fresh upper layer of this boot above.
func (d *Driver) mountRoot(ctx context.Context, b boot, c shared, n substrate.Node) error {
	digest := n.Image
	squashfs, err := d.config.Images(digest)
	if err != nil {
		return fmt.Errorf("image %s: %w", digest, err)
	}
	name := imageName(digest)
	if err := checkImageName(name); err != nil {
		return err
	}
	// Held until the overlay uses the image: from then on the kernel's table of mounts says that it is in use.
	held, err := onhost.Exclusive(ctx, d.lockPath("image", name))
	if err != nil {
		return err
	}
	defer held.Release()
	lower := d.imageAt(digest)
	if err := mountOnce(lower, func() error { return mountImage(squashfs, lower) }); err != nil {
		return fmt.Errorf("image %s: %w", digest, err)
	}
	if d.mapsUsers(n) {
		if lower, err = mountNumbered(lower, b, n); err != nil {
			return fmt.Errorf("image %s: %w", digest, err)
		}
	}
	return mountOverlay(lower, c.layer(b), b.path("root"))
}

func imageName(digest string) string { return strings.ReplaceAll(digest, ":", "-") }

// imageAt is where an image is mounted once for all nodes.
func (d *Driver) imageAt(digest string) string {
	return filepath.Join(d.config.Dir, "images", imageName(digest))
}

// mountNumbered mounts an image that is mounted once more, with the numbers of a node's cluster, and says where.
func mountNumbered(image string, b boot, n substrate.Node) (at string, err error) {
	users, err := os.Open(b.path("userns"))
	if err != nil {
		return "", err
	}
	defer users.Close()
	at = fmt.Sprintf("%s.%d", image, numbersOf(n).root())
	return at, mountOnce(at, func() error { return translate(users, image, at) })
}

// mountOnce mounts something at a path, unless something is mounted there. The caller holds the image's lock.
func mountOnce(at string, mount func() error) error {
	if there, err := mounted(at); err != nil || there {
		return err
	}
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	return mount()
}

func checkImageName(name string) error {
	if name == "" || name != filepath.Base(name) || strings.ContainsAny(name, ".,:\\ \t\n") {
		return fmt.Errorf("%q is no digest of an image", name)
	}
	return nil
}

// mountOverlay is volatile: nothing of an upper layer is ever used again after its boot, so it is never synced. Without
// that, every unmount would wait for the disk to write what is about to be deleted.
func mountOverlay(lower, layer, at string) error {
	options := "lowerdir=" + lower + ",upperdir=" + filepath.Join(layer, "upper") + ",workdir=" + filepath.Join(layer, "work")
	err := unix.Mount("overlay", at, "overlay", unix.MS_NODEV, options+",volatile")
	if errors.Is(err, unix.EINVAL) { // before Linux 5.10
		err = unix.Mount("overlay", at, "overlay", unix.MS_NODEV, options)
	}
	return wrap.Errorf(err, "mount root")
}

// mountImage mounts a squashfs read-only. The caller holds the image's lock.
func mountImage(squashfs, at string) error {
	device, err := attachLoop(squashfs, unix.LO_FLAGS_READ_ONLY)
	if err != nil {
		return fmt.Errorf("loop device: %w", err)
	}
	defer device.Close()
	return wrap.Errorf(unix.Mount(device.Name(), at, "squashfs", unix.MS_RDONLY|unix.MS_NODEV, ""), "mount")
}

// releaseImages unmounts the images that no node uses any more. It may be called at any time.
func (d *Driver) releaseImages(ctx context.Context) error {
	dir := filepath.Join(d.config.Dir, "images")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range slices.Backward(entries) { // those with numbers of clusters come before the image itself
		image := filepath.Join(dir, entry.Name())
		// Asked twice: most of the time the answer is yes, and then the lock is not worth waiting for.
		if used, err := isUsed(image); err != nil || used {
			if err != nil {
				return err
			}
			continue
		}
		if err := d.releaseImage(ctx, image); err != nil {
			return fmt.Errorf("release image %s: %w", entry.Name(), err)
		}
	}
	return nil
}

func (d *Driver) releaseImage(ctx context.Context, image string) error {
	name, _, _ := strings.Cut(filepath.Base(image), ".")
	held, err := onhost.Exclusive(ctx, d.lockPath("image", name))
	if err != nil {
		return err
	}
	defer held.Release()
	if used, err := isUsed(image); err != nil || used {
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

// isUsed says whether an overlay stands on an image's mount, or it is there with the numbers of a cluster too.
func isUsed(dir string) (bool, error) {
	others, err := filepath.Glob(dir + ".*")
	if err != nil || len(others) > 0 {
		return err == nil, err
	}
	used := false
	err = eachMount(func(at, options string) {
		used = used || strings.Contains(options, "lowerdir="+dir+",")
	})
	return used, err
}

// mounted says whether something is mounted at a path. The kernel answers it by the path alone (statx(2), since Linux 5.8): its
// table of mounts has several lines for each node.
func mounted(path string) (bool, error) {
	var status unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, 0, &status)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err == nil && status.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0:
		return status.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	mounts, err := mountsBelow(path) // an older kernel, or a file system that has died
	return slices.Contains(mounts, path), err
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
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) >= 7 {
			do(fields[4], fields[len(fields)-1])
		}
	}
	return nil
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
