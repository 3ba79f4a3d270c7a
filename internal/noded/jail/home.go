package jail

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"muster/internal/kit/wrap"
)

// People's numbers are identical on /home as the server sees it, and so is root's, which no client gets. The others stand for no
// user there: a file that is theirs has no owner or group that a caller could be, and none of them can make one. See
// user_namespaces(7) and "ID-mapped mounts" in mount_setattr(2).
var people = []syscall.SysProcIDMap{
	{ContainerID: 0, HostID: 0, Size: 1},
	{ContainerID: firstPerson, HostID: firstPerson, Size: lastPerson - firstPerson + 1},
	{ContainerID: 1 << 16, HostID: 1 << 16, Size: 1<<31 - 1<<16},
	{ContainerID: squashed - 1, HostID: squashed - 1, Size: 2}, // whom root becomes
}

const (
	firstPerson = 1000
	lastPerson  = 59999 // 60000 to 65535 are Debian's, systemd's, and `nobody`
	squashed    = 1<<32 - 2
)

// openHome is /home as a mount that is nowhere yet, without what is mounted below it. Where kernel and file system can, its
// numbers are people's alone.
func openHome() (int, error) {
	home, err := unix.OpenTree(unix.AT_FDCWD, "/home", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("/home: %w", err)
	}
	attributes := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC}
	if err := unix.MountSetattr(home, "", unix.AT_EMPTY_PATH, &attributes); err != nil {
		unix.Close(home)
		return -1, fmt.Errorf("/home: %w", err)
	}
	if err := mapPeople(home); err != nil {
		fmt.Printf("/home shows all numbers of users and groups, the system's too: %v\n", err)
	}
	return home, nil
}

// mapPeople restricts the numbers of a mount to people's.
func mapPeople(mount int) error {
	numbers, err := numbersOfPeople()
	if err != nil {
		return err
	}
	defer numbers.Close()
	attributes := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(numbers.Fd())}
	return wrap.Errorf(unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attributes), "map the numbers of its mount")
}

// numbersOfPeople is a user namespace that no process is in, for its numbers.
func numbersOfPeople() (*os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close() // at its end the child ends too
	pid, err := syscall.ForkExec("/proc/self/exe", []string{os.Args[0], "agent", Argument}, &syscall.ProcAttr{
		Env: []string{waitVariable + "=1"}, Files: []uintptr{read.Fd(), 1, 2},
		Sys: &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWUSER},
	})
	read.Close()
	if err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	defer func() { _, _ = syscall.Wait4(pid, nil, 0, nil) }()
	defer write.Close()
	text := ""
	for _, m := range people {
		text += fmt.Sprintf("%d %d %d\n", m.ContainerID, m.HostID, m.Size)
	}
	for _, file := range []string{"uid_map", "gid_map"} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, file), []byte(text), 0); err != nil {
			return nil, fmt.Errorf("fill a user namespace: %w", err)
		}
	}
	return os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
}

// waitVariable asks the program to wait for the end of its input, and nothing else.
const waitVariable = "MUSTER_JAIL_WAITS"

func wait() error {
	_, err := os.Stdin.Read(make([]byte, 1))
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
