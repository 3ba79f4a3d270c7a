package firststage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// Where this stage puts things; none of it is seen from the new root.
const (
	imageDir = "/image" // holds the root squashfs, in memory
	lowerDir = "/lower" // the squashfs, mounted
	upperDir = "/upper" // what the node writes: in memory, or on its disk
	newRoot  = "/newroot"
	written  = upperDir + "/data" // the overlay's upper layer
)

// kernelFilesystems mounts what every program expects. mount may find them there.
func kernelFilesystems() error {
	for _, m := range []struct {
		kind, at, options string
		flags             uintptr
	}{
		{"proc", "/proc", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"sysfs", "/sys", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"devtmpfs", "/dev", "mode=0755", unix.MS_NOSUID},
		{"tmpfs", "/run", "mode=0755", unix.MS_NOSUID | unix.MS_NODEV},
	} {
		if err := mount(m.kind, m.at, m.kind, m.flags, m.options); err != nil && !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return nil
}

// mount makes the folder it mounts on.
func mount(source, at, kind string, flags uintptr, options string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	return wrap.Errorf(unix.Mount(source, at, kind, flags, options), "mount %s on %s", kind, at)
}

// spare is the memory, in bytes, that a node needs beside its root and its agent to come up at all.
const spare = 96 << 20

// rootInMemory fetches the image into memory, and the agent into an upper layer in memory; both at once, since a machine
// with slow CPUs takes longest to check their digests.
func rootInMemory(ctx context.Context, s *server, plan protocol.Plan) error {
	available, err := availableMemory()
	if err != nil {
		return err
	}
	if need := plan.Root.Size + plan.Agent.Size + spare; available < need {
		return fmt.Errorf("this machine has too little memory: %s are free, and the image needs %s; use a smaller image, more "+
			"memory, or boot: disk", size(available), size(need))
	}
	// In whole pages, and not more than asked for.
	if err := mount("tmpfs", imageDir, "tmpfs", 0, "size="+strconv.FormatInt(plan.Root.Size+1<<20, 10)); err != nil {
		return err
	}
	if err := mount("tmpfs", upperDir, "tmpfs", 0, "mode=0755"); err != nil {
		return err
	}
	path := filepath.Join(imageDir, "root.squashfs")
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(s.fetch(ctx, "root image", plan.Root, f), f.Close())
	})
	both.Go(func() error { return fetchAgent(ctx, s, plan.Agent) })
	if err := both.Wait(); err != nil {
		return err
	}
	return wrap.Errorf(mountFile(path, lowerDir, "squashfs"), "root image")
}

// availableMemory is MemAvailable of /proc/meminfo, in bytes.
func availableMemory() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		var kib int64
		if n, _ := fmt.Sscanf(string(line), "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, errors.New("/proc/meminfo has no MemAvailable")
}

// mountFile mounts what a file holds, read-only, by a loop device that goes when the mount does.
func mountFile(path, at, kind string) error {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("loop device: %w", err)
	}
	defer control.Close()
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return fmt.Errorf("loop device: %w", err)
	}
	device := fmt.Sprintf("/dev/loop%d", number)
	loop, err := openWhenThere(device, os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("loop device: %w", err)
	}
	defer loop.Close()
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.IoctlLoopConfigure(int(loop.Fd()), &unix.LoopConfig{
		Fd: uint32(f.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_READ_ONLY | unix.LO_FLAGS_AUTOCLEAR},
	})
	if err != nil {
		return fmt.Errorf("loop device: %w", err)
	}
	return mount(device, at, kind, unix.MS_RDONLY, "")
}

// openWhenThere gives the kernel a moment to make a device's file.
func openWhenThere(path string, how int) (*os.File, error) {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		f, err := os.OpenFile(path, how, 0)
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			return f, err
		}
	}
}

// overlay lays the upper layer over the image.
func overlay() error {
	work := filepath.Join(upperDir, "work")
	for _, dir := range []string{written, work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return mount("overlay", newRoot, "overlay", 0, "lowerdir="+lowerDir+",upperdir="+written+",workdir="+work)
}

// furnish leaves the agent its boot file in the new /run.
func furnish(plan protocol.Plan, network protocol.BootNetwork) error {
	return errors.Join(writeJSON(protocol.BootFilePath, plan.Boot), writeJSON(protocol.NetworkFile, network))
}

// fetchAgent puts the agent into the upper layer, before the overlay is there. It keeps what is there if it is the right one,
// as in a root on disk.
func fetchAgent(ctx context.Context, s *server, b protocol.Blob) error {
	path := filepath.Join(written, protocol.AgentPath)
	if old, err := os.Open(path); err == nil {
		info, err1 := old.Stat()
		err2 := verify("agent", b, old)
		old.Close()
		if err1 == nil && err2 == nil && info.Size() == b.Size {
			return os.Chmod(path, 0o755)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o700)
	if err != nil {
		return err
	}
	if err := errors.Join(s.fetch(ctx, "agent", b, f), f.Chmod(0o755), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

// switchRoot makes the new root the root, and frees the memory of this one's files.
func switchRoot() error {
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run"} {
		target := filepath.Join(newRoot, dir)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(dir, target, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", dir, err)
		}
	}
	// The overlay holds what it is made of; the names are of no more use.
	for _, dir := range []string{lowerDir, upperDir, imageDir} {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("detach %s: %w", dir, err)
		}
	}
	old, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, e := range old {
		if path := "/" + e.Name(); path != newRoot {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the new root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return os.Chdir("/")
}
