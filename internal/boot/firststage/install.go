package firststage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"muster/internal/protocol"
)

// rootOnDisk mounts the image and what the node wrote from the machine's disk, after writing what is not there yet. It may be
// cut off at any time: without its label, which comes last, a disk is written again.
func rootOnDisk(ctx context.Context, s *server, h *hardware, plan protocol.Plan) error {
	want := label{Keep: plan.Keep, Digest: plan.Root.Digest, Size: plan.Root.Size}
	d, ours, err := h.awaitDisk(ctx, want)
	if err != nil {
		return err
	}
	if !ours {
		s.console.say("writing the root of %s to %s, %s", want.Keep, d.name, size(d.bytes))
		if err := install(ctx, s, d, plan.Root, want); err != nil {
			return fmt.Errorf("write the root to %s: %w", d.name, err)
		}
	} else if err := mend(ctx, s, d, plan.Root); err != nil {
		return fmt.Errorf("root on %s: %w", d.name, err)
	}
	return mountDisk(d, s.console)
}

// install makes the disk hold the image, an empty filesystem and the label.
func install(ctx context.Context, s *server, d disk, image protocol.Blob, l label) error {
	f, err := os.OpenFile(d.device(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	block, err := l.encode()
	if err != nil {
		return err
	}
	// An old label must not vouch for what is written now.
	if _, err := f.WriteAt(make([]byte, labelBlock), labelStart); err != nil {
		return err
	}
	for _, p := range table(d, l) {
		if _, err := f.WriteAt(p.bytes, p.at); err != nil {
			return err
		}
	}
	if err := writeImage(ctx, s, f, image); err != nil {
		return err
	}
	if err := unix.IoctlSetInt(int(f.Fd()), unix.BLKRRPART, 0); err != nil {
		return fmt.Errorf("read the partitions: %w", err)
	}
	if err := makeFilesystem(ctx, d, s.console); err != nil {
		return err
	}
	if _, err := f.WriteAt(block, labelStart); err != nil {
		return err
	}
	return f.Sync()
}

// writeImage writes the image to its partition and reads it back from the disk.
func writeImage(ctx context.Context, s *server, f *os.File, image protocol.Blob) error {
	if err := s.fetch(ctx, "root image", image, io.NewOffsetWriter(f, rootStart)); err != nil {
		return err
	}
	return errors.Join(f.Sync(), dropCache(f),
		verify("root image on the disk", image, io.NewSectionReader(f, rootStart, image.Size)))
}

// dropCache makes the next read one from the disk.
func dropCache(f *os.File) error { return unix.IoctlSetInt(int(f.Fd()), unix.BLKFLSBUF, 0) }

// mend reads the image on the disk, and writes it again where it is not what it was. What the node wrote stays.
func mend(ctx context.Context, s *server, d disk, image protocol.Blob) error {
	f, err := os.OpenFile(d.device(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	err = verify("root image on the disk", image, io.NewSectionReader(f, rootStart, image.Size))
	if err == nil {
		s.console.say("%s holds this node's root, as its digest says", d.name)
		return nil
	}
	s.console.say("%s: %v; writing it again", d.name, err)
	return writeImage(ctx, s, f, image)
}

// makeFilesystem makes the empty filesystem, with the image's own mkfs.ext4.
func makeFilesystem(ctx context.Context, d disk, c console) error {
	if err := mountRootPartition(d); err != nil {
		return err
	}
	loadFromRoot(c, "ext4")
	dev := filepath.Join(lowerDir, "dev")
	if err := unix.Mount("/dev", dev, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind /dev: %w", err)
	}
	make := exec.CommandContext(ctx, "/sbin/mkfs.ext4", "-q", "-F", "-L", "muster-state", d.partition(statePart))
	make.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	make.SysProcAttr = &syscall.SysProcAttr{Chroot: lowerDir}
	make.Dir = "/"
	said, err := make.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("mkfs.ext4, which the image must have for this: %w: %.200s", err, said)
	}
	return errors.Join(err, unix.Unmount(dev, 0), unix.Unmount(lowerDir, 0))
}

func mountRootPartition(d disk) error {
	root, err := openWhenThere(d.partition(rootPart), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer root.Close()
	return mount(d.partition(rootPart), lowerDir, "squashfs", unix.MS_RDONLY, "")
}

// loadFromRoot loads modules of the root, which need not be in the drivers' archive.
func loadFromRoot(c console, names ...string) {
	h, err := openHardware(lowerDir, c)
	if err != nil {
		c.say("modules of the root: %v", err)
		return
	}
	h.load(names...)
}

// mountDisk mounts the image and the node's own filesystem, whose journal mends what a cut of power left.
func mountDisk(d disk, c console) error {
	if err := mountRootPartition(d); err != nil {
		return err
	}
	loadFromRoot(c, "ext4")
	state, err := openWhenThere(d.partition(statePart), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer state.Close()
	return mount(d.partition(statePart), upperDir, "ext4", unix.MS_NOATIME, "")
}
