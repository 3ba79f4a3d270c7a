package local

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/osthread"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// A node may have a user namespace of its own: its users' numbers, root's 0 first, are others on the host, to whom nothing
// belongs there. Files keep the numbers that they have on disk: mounts translate them. Some things, such as files that are under
// way in sockets and the memory of pipes, the kernel counts by users' numbers, so each cluster has other ones.
const (
	firstID   = 0x70000000 // above containers of systemd
	ownIDs    = 1 << 16    // that a cluster has for itself: accounts of images, and people
	ownRanges = 0xe00      // clusters that do: of more than these, two may have the same
	commonID  = firstID + ownRanges*ownIDs
	commonIDs = protocol.Users - ownIDs // of all clusters; they end below users of guests (drivers/substrate/vm)
)

// numbers are what users of a cluster's nodes are on the host, by ranges; the first begins with root.
type numbers []specs.LinuxIDMapping

func numbersOf(n substrate.Node) numbers {
	own := uint32(substrate.Segment(n.MAC) % ownRanges)
	return numbers{{HostID: firstID + own*ownIDs, Size: ownIDs}, {ContainerID: ownIDs, HostID: commonID, Size: commonIDs}}
}

func (n numbers) root() uint32 { return n[0].HostID }

// inUserNamespace starts a program that waits, in new namespaces of these kinds beside that of users, and hands its process
// number to do. It has ended when inUserNamespace returns. The program makes its namespaces itself: to be born in them it would
// have to be a copy of this process, with all its memory.
func inUserNamespace(n numbers, kinds []string, do func(pid int) error) error {
	wait := exec.Command("unshare", append(append([]string{"--user"}, kinds...), "cat")...)
	hold, err := wait.StdinPipe()
	if err != nil {
		return err
	}
	answer, err := wait.StdoutPipe()
	if err != nil {
		return err
	}
	var said bytes.Buffer
	wait.Stderr = &said
	wait.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// The signal comes when the thread ends that started the program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := wait.Start(); err != nil {
		return fmt.Errorf("user namespace: %w", err)
	}
	// What comes back from cat says that the namespaces are there.
	if _, err = hold.Write([]byte{0}); err == nil {
		_, err = io.ReadFull(answer, make([]byte, 1))
	}
	if err == nil {
		err = n.mapUsersOf(wait.Process.Pid)
	}
	if err == nil {
		err = do(wait.Process.Pid)
	}
	_ = hold.Close()
	if ended := wait.Wait(); ended != nil {
		err = fmt.Errorf("user namespace: %w: %s", errors.Join(err, ended), strings.TrimSpace(said.String()))
	}
	return err
}

// mapUsersOf gives the user namespace of a process these numbers.
func (n numbers) mapUsersOf(pid int) error {
	var lines []byte
	for _, r := range n {
		lines = fmt.Appendf(lines, "%d %d %d\n", r.ContainerID, r.HostID, r.Size)
	}
	for _, file := range []string{"uid_map", "gid_map"} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, file), lines, 0); err != nil {
			return fmt.Errorf("users' numbers: %w", err)
		}
	}
	return nil
}

// translate makes a mount of what lies at from, with the numbers of a user namespace, at the path at, which must exist.
func translate(users *os.File, from, at string) error {
	fd, err := numbered(users, from)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return wrap.Errorf(unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH), "mount at %s", at)
}

// numbered is a mount, not attached anywhere, of what lies at a path, with the numbers of a user namespace.
func numbered(users *os.File, path string) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("mount of %s: %w", path, err)
	}
	if err := number(users, fd); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mount of %s: %w", path, err)
	}
	return fd, nil
}

// number gives a mount that is not attached anywhere the numbers of a user namespace.
func number(users *os.File, fd int) error {
	attributes := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd())}
	return wrap.Errorf(unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, attributes), "translate users' numbers")
}

//go:embed empty.sqfs
var emptyImage []byte

// tryToMap tries out whether this host can: a user namespace, and mounts with other numbers on the file system of dir and on an
// image's.
func tryToMap(dir string) error {
	var users *os.File
	err := inUserNamespace(numbersOf(substrate.Node{MAC: substrate.MAC(0, 0)}), nil, func(pid int) (err error) {
		users, err = os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
		return err
	})
	if err != nil {
		return err
	}
	defer users.Close()
	fd, err := numbered(users, dir)
	if err != nil {
		return err
	}
	unix.Close(fd)
	// Nothing here has a name, so that nothing is left of it, wherever this process is killed.
	empty, err := unix.MemfdCreate("empty image", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	image := os.NewFile(uintptr(empty), "empty image")
	defer image.Close()
	if _, err := image.Write(emptyImage); err != nil {
		return err
	}
	fd, err = squash(fmt.Sprintf("/proc/self/fd/%d", empty))
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	defer unix.Close(fd)
	return wrap.Errorf(number(users, fd), "image")
}

// squash mounts a squashfs that has no path until it is moved to one: it ends with its descriptor if it is not.
func squash(squashfs string) (mount int, err error) {
	device, err := attachLoop(squashfs, unix.LO_FLAGS_READ_ONLY)
	if err != nil {
		return -1, fmt.Errorf("loop device: %w", err)
	}
	defer device.Close()
	system, err := unix.Fsopen("squashfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(system)
	err = errors.Join(unix.FsconfigSetString(system, "source", device.Name()), unix.FsconfigSetFlag(system, "ro"))
	if err == nil {
		err = unix.FsconfigCreate(system)
	}
	if err != nil {
		return -1, err
	}
	return unix.Fsmount(system, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NODEV)
}

// give makes all that lies below a directory a user's.
func give(dir string, to uint32) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(to), int(to))
	})
}

// namespaces makes a network namespace and the user namespace that it belongs to, and keeps both by mounts on files.
func (n numbers) namespaces(network, users string) error {
	for _, path := range []string{network, users} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
	}
	return inUserNamespace(n, []string{"--net"}, func(pid int) error {
		own := func(kind string) string { return fmt.Sprintf("/proc/%d/ns/%s", pid, kind) }
		return errors.Join(unix.Mount(own("user"), users, "", unix.MS_BIND, ""),
			unix.Mount(own("net"), network, "", unix.MS_BIND, ""))
	})
}

// inStage runs do, which starts runc, on a thread of its own in a mount namespace of its own. There, what the node is to see
// lies where its root can go: the data directory is for the host's root alone, and runc mounts as the node's.
func (d *Driver) inStage(b boot, mounts []staged, do func() error) error {
	return osthread.Spend(func() error { return d.stage(b, mounts, do) })
}

func (d *Driver) stage(b boot, mounts []staged, do func() error) error {
	users, err := os.Open(b.path("userns"))
	if err != nil {
		return err
	}
	defer users.Close()
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Mount("tmpfs", d.stageDir, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID|unix.MS_NOEXEC,
		"mode=755,size=64k"); err != nil {
		return fmt.Errorf("mount %s: %w", d.stageDir, err)
	}
	for _, m := range mounts {
		if err := stageOne(users, m); err != nil {
			return fmt.Errorf("stage %s: %w", m.from, err)
		}
	}
	return do()
}

func stageOne(users *os.File, m staged) error {
	info, err := os.Stat(m.from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.Mkdir(m.at, 0o755)
	} else {
		err = os.WriteFile(m.at, nil, 0o600)
	}
	if err != nil {
		return err
	}
	if m.mapped {
		return translate(users, m.from, m.at)
	}
	return unix.Mount(m.from, m.at, "", unix.MS_BIND, "")
}

// staged is something of the host's that a node is to see, and where it lies while runc starts the node.
type staged struct {
	from, at string
	mapped   bool // its numbers are translated
}

// toStage tells what of a bundle is to be staged, and has the bundle look for it there.
func (d *Driver) toStage(s *specs.Spec) []staged {
	all := []staged{{s.Root.Path, filepath.Join(d.stageDir, "root"), false}}
	for i, m := range s.Mounts {
		if m.Type != "bind" {
			continue
		}
		// The image and /run have their numbers already; who owns the binary does not matter.
		mapped := m.Destination == "/home" || m.Destination == protocol.SocketDir || m.Destination == protocol.StateDir
		all = append(all, staged{m.Source, filepath.Join(d.stageDir, strconv.Itoa(i)), mapped})
		s.Mounts[i].Source = all[len(all)-1].at
	}
	s.Root.Path = all[0].at
	return all
}

// mapsUsers says whether a node has a user namespace of its own. Heads that serve /home have none: only the host's root may
// open files by handle.
func (d *Driver) mapsUsers(n substrate.Node) bool { return d.noMapping == "" && !n.ServesHome }

// freeDir finds a directory that everybody can reach and that hides nothing that runc needs when something is mounted on it.
func freeDir(needed ...string) (string, error) {
	for _, dir := range []string{"/mnt", "/media", "/srv", "/opt", "/home", "/tmp"} {
		hides := func(path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
		if resolved, err := filepath.EvalSymlinks(dir); err != nil || resolved != dir {
			continue
		}
		if !slices.ContainsFunc(needed, hides) {
			return dir, nil
		}
	}
	return "", errors.New("no directory of the host is free to mount on, of /mnt, /media, /srv, /opt, /home and /tmp")
}

// mapUsers sees to it that nodes have user namespaces of their own, where this host can and the site does not forbid it.
func (d *Driver) mapUsers() {
	if own := d.config.Opened.OwnUsers; own != nil && !*own {
		d.noMapping = "the site file says so"
		return
	}
	free, err := freeDir(d.config.Dir, d.config.Binary, d.config.Sockets)
	if err == nil {
		err = tryToMap(d.config.Dir)
	}
	if err != nil {
		d.noMapping = err.Error()
		d.config.Log.Info("root of nodes on this host is the host's", "because", err)
		return
	}
	d.stageDir = free
}

// OwnUsers says whether nodes have user namespaces of their own; if not, why.
func (d *Driver) OwnUsers(context.Context) (own bool, why string, err error) {
	return d.noMapping == "", d.noMapping, nil
}
