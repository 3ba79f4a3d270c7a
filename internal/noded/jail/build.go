package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readyVariable names the descriptor by which who builds a jail says that it is there, or why not.
const (
	readyVariable = "MUSTER_JAIL_READY"
	keepVariable  = "MUSTER_JAIL_KEEPS"
	built         = "built"
)

// inside says that this process builds or keeps a jail.
func inside() bool { return os.Getenv(readyVariable) != "" || os.Getenv(keepVariable) != "" }

// Main is the life of the process in the jail: it builds, and then, as the same process with few rights, keeps. It returns when
// the jail has ended.
func Main() error {
	switch {
	case os.Getenv(waitVariable) != "":
		return wait()
	case os.Getenv(keepVariable) != "":
		return keep()
	}
	number, err := strconv.Atoi(os.Getenv(readyVariable))
	if err != nil { // a machine's supervisor started it, and reads what it prints
		return build()
	}
	ready := os.NewFile(uintptr(number), "ready") // which keep writes to
	err = build()
	_, _ = ready.WriteString(err.Error()) // who waits is gone, or sees that it ends
	return err
}

// needed are the capabilities of an NFS server: to be each of its users in turn, to make files theirs, and to open
// files by handle.
var needed = [...]uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID,
	unix.CAP_SETUID, unix.CAP_SETGID}

// build makes the tree and goes on as keep. It returns only if it cannot.
func build() error {
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	if err := enclose(); err != nil {
		return err
	}
	runtime.LockOSThread()
	for c := range uintptr(64) {
		if !slices.Contains(needed[:], c) {
			if err := drop(c); err != nil {
				return err
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	environment := []string{"PATH=/usr/bin", "LANG=C.UTF-8", keepVariable + "=1", readyVariable + "=" + os.Getenv(readyVariable)}
	return execute(program, []string{"muster", "agent", Argument}, environment)
}

// execute is exec of an open program whose path is gone.
func execute(program *os.File, args, environment []string) error {
	empty, err := unix.BytePtrFromString("")
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return err
	}
	envv, err := syscall.SlicePtrFromStrings(environment)
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall6(unix.SYS_EXECVEAT, program.Fd(), uintptr(unsafe.Pointer(empty)),
		uintptr(unsafe.Pointer(&argv[0])),
		uintptr(unsafe.Pointer(&envv[0])), unix.AT_EMPTY_PATH, 0)
	return fmt.Errorf("begin again: %w", errno)
}

// staging is where the tree is put together: a directory that every system has, and that the server does not need.
const staging = "/dev"

// copied are small files of the image that its libraries read.
var copied = [...]string{"/etc/ld.so.cache", "/etc/netconfig"}

// enclose makes this mount namespace be a tree with the server, its libraries, read-only, an empty file system in memory, /home,
// and the processes of this PID namespace, and unmounts everything else: a file of another file system can then not be opened by
// whatever number, as no descriptor can be had of it.
func enclose() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts of its own: %w", err)
	}
	// Of processes, this and those that it starts, and nothing else of the kernel: version 6 reads an open file's ACL by its
	// name there.
	const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("proc", "/proc", "proc", quiet, "subset=pid"); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	home, err := openHome()
	if err != nil {
		return err
	}
	defer unix.Close(home)
	if err := unix.Mount("jail", staging, "tmpfs", quiet, "mode=755,size=16m"); err != nil {
		return fmt.Errorf("tree: %w", err)
	}
	for _, dir := range []string{"/home", "/proc", "/etc/ganesha", "/run/ganesha", "/tmp", "/usr/bin", StateDir, "/old"} {
		if err := os.MkdirAll(filepath.Join(staging, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", filepath.Join(staging, "/var/run")); err != nil {
		return err
	}
	for _, name := range []string{"/usr/lib", "/usr/lib64", "/usr/bin/ganesha.nfsd", "/lib", "/lib64"} {
		if err := show(name); err != nil {
			return fmt.Errorf("show %s: %w", name, err)
		}
	}
	for _, name := range copied {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(staging, name), text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	// One line tells the server what is mounted: this.
	for name, text := range map[string]string{"/etc/mtab": "home /home home rw 0 0\n", "/etc/hosts": "127.0.0.1 localhost\n",
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n"} {
		if err := os.WriteFile(filepath.Join(staging, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := unix.Mount("/proc", filepath.Join(staging, "proc"), "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	if err := unix.MoveMount(home, "", unix.AT_FDCWD, filepath.Join(staging, "home"), unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("/home: %w", err)
	}
	if err := unix.PivotRoot(staging, filepath.Join(staging, "old")); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Unmount("/old", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount everything else: %w", err)
	}
	return os.Remove("/old")
}

// show makes a directory, a file or a link of the image be in the tree, read-only. What the image has not is passed over.
func show(name string) error {
	at := filepath.Join(staging, name)
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&os.ModeSymlink != 0:
		to, err := os.Readlink(name)
		if err != nil {
			return err
		}
		return os.Symlink(to, at)
	case info.IsDir():
		err = os.MkdirAll(at, 0o755)
	default:
		err = os.WriteFile(at, nil, 0o755)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(name, at, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
}
