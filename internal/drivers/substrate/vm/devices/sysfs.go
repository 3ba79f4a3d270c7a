package devices

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"muster/internal/kit/lists"
)

// HostKernel is the kernel of this host. The process is root and sees all processes.
type HostKernel struct{}

const sysfs = "/sys"

// Read reads a file or a link of sysfs.
func (HostKernel) Read(name string) (string, error) {
	where := path.Join(sysfs, name)
	target, err := os.Readlink(where)
	if err == nil {
		return path.Base(target), nil
	}
	if !errors.Is(err, unix.EINVAL) { // it is no link
		return "", err
	}
	f, err := os.Open(where)
	if err != nil {
		return "", err
	}
	defer f.Close()
	const most = 4096 // a page: no attribute of sysfs is longer; a configuration space is not either
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return "", err
	}
	if path.Base(name) == "config" {
		return string(text), nil
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}

// List lists a folder of sysfs.
func (HostKernel) List(name string) ([]string, error) {
	entries, err := os.ReadDir(path.Join(sysfs, name))
	if err != nil {
		return nil, err
	}
	return lists.Map(entries, os.DirEntry.Name), nil
}

// Write writes to a file of sysfs, in one call as the kernel wants it. A driver that hangs in it cannot be interrupted:
// when ctx ends it is left behind.
func (HostKernel) Write(ctx context.Context, name, text string) error {
	done := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(path.Join(sysfs, name), os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(text)
			err = errors.Join(err, f.Close())
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Holders looks through the open files of all processes for the group's device, and for the devices of its members that
// newer kernels have (Documentation/driver-api/vfio.rst, "VFIO Device cdev"). Opening them instead would tell, but would
// get in the way of a guest that starts at the same moment.
func (k HostKernel) Holders(group string) ([]int, error) {
	wanted := []string{"/vfio/" + group}
	members, err := k.List("kernel/iommu_groups/" + group + "/devices")
	if err != nil && !missing(err) {
		return nil, err
	}
	for _, address := range members {
		names, err := k.List(device(address, "vfio-dev"))
		if err != nil && !missing(err) {
			return nil, err
		}
		for _, n := range names {
			wanted = append(wanted, "/vfio/devices/"+n)
		}
	}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("open files of processes: %w", err)
	}
	var pids []int
	for _, process := range processes {
		pid, err := strconv.Atoi(process.Name())
		if err != nil {
			continue // no process
		}
		holds, err := holdsAny("/proc/"+process.Name()+"/fd", wanted)
		if err != nil && !missing(err) && !errors.Is(err, unix.ESRCH) { // else it has ended meanwhile
			return nil, fmt.Errorf("open files of processes: %w", err)
		}
		if holds {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// holdsAny says whether an open file of a process, whose folder of open files is fd, is one of the wanted devices. A tenant's
// processes may have very many open: their names are read in parts.
func holdsAny(fd string, wanted []string) (bool, error) {
	folder, err := os.Open(fd)
	if err != nil {
		return false, err
	}
	defer folder.Close()
	const part = 256
	for {
		names, err := folder.Readdirnames(part)
		for _, name := range names {
			link := fd + "/" + name
			target, err := os.Readlink(link)
			if err != nil && !missing(err) && !errors.Is(err, unix.ESRCH) { // else it was closed meanwhile
				return false, err
			}
			if slices.ContainsFunc(wanted, func(w string) bool { return strings.HasSuffix(target, w) }) && isDevice(link) {
				return true, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// isDevice says whether what a process has open is a character device. A file of the same name is anybody's to make, who could
// keep a device from ever coming back by it. The file system that it is in, which may be a tenant's, is not asked.
func isDevice(link string) bool {
	var file unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &file)
	return err == nil && file.Mode&unix.S_IFMT == unix.S_IFCHR
}
