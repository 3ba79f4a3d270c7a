package hostd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"muster/internal/inspection"
	"muster/internal/inventory"
)

// A machine that holds guests has its root in memory, and what guests have in theirs cannot sleep there. It goes to a disk of
// the machine that no guest is ever given, which is made ready when the machine has booted: nothing on it outlives a boot, and
// all disks are erased before the machine is anything else.

// noDisk is why guests cannot sleep on a machine without such a disk.
const noDisk = "it has none of its own that can be written to and is no NVMe disk; guests are given those"

// mountMemoryDisk mounts the machine's disk for the memory of guests that sleep at a folder, unless that is mounted already:
// an earlier agent may have guests that sleep there. It says why it cannot; "" if it is there.
func mountMemoryDisk(ctx context.Context, tools inspection.Tools, console io.Writer, at string) (diskless string) {
	there, err := mounted(at)
	if err != nil {
		return err.Error()
	}
	if there {
		return ""
	}
	disk, found := spare(inspection.SpareDisks(ctx, console, inspection.Options{Root: "/", Tools: tools}))
	if !found {
		return noDisk
	}
	if err := layDisk(ctx, tools, filepath.Join("/dev", disk.Name), at); err != nil {
		return fmt.Sprintf("disk %s cannot be made ready for it: %v", disk.Name, err)
	}
	fmt.Fprintf(console, "guests are suspended to disk %s of %d GB\n", disk.Name, disk.SizeGB)
	return ""
}

// mounted says whether something is mounted at a folder. One that is not there is made.
func mounted(at string) (bool, error) {
	var own, above unix.Stat_t
	err := os.MkdirAll(at, 0o711)
	if err == nil {
		err = errors.Join(unix.Stat(at, &own), unix.Stat(filepath.Dir(at), &above))
	}
	return own.Dev != above.Dev, err
}

// spare is the disk that memory goes to: a fast one, and of those the largest; of several the first.
func spare(disks []inventory.Disk) (d inventory.Disk, found bool) {
	if len(disks) == 0 {
		return d, false
	}
	slow := func(d inventory.Disk) int {
		if d.Kind == "hdd" {
			return 1
		}
		return 0
	}
	return slices.MinFunc(disks, func(a, b inventory.Disk) int {
		return cmp.Or(cmp.Compare(slow(a), slow(b)), cmp.Compare(b.SizeGB, a.SizeGB))
	}), true
}

// layDisk makes an empty file system of a disk and mounts it.
func layDisk(ctx context.Context, tools inspection.Tools, device, at string) error {
	if _, err := tools.Run(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-L", "muster-sleep", device); err != nil {
		return err
	}
	_, _ = tools.Run(ctx, "modprobe", "-b", "-q", "ext4") // it may be built in: the mount tells
	if err := unix.Mount(device, at, "ext4", unix.MS_NOATIME|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", device, err)
	}
	return os.Chmod(at, 0o711) // QEMU's user passes through
}
