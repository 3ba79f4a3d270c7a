package vm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"muster/internal/kit/lists"
	"muster/internal/kit/osthread"
	"muster/internal/kit/wrap"
)

// Where libvirt and QEMU find what is theirs, in their mount namespace.
const (
	insideGuests = "/run/muster/guests"
	insideMemory = "/run/muster/memory"
	insideHuge   = "/run/muster/huge" // a mount of huge pages for each size
)

// enclosed runs do, which starts libvirt, on a thread of its own: in our network namespace, and in a mount namespace with a
// root of its own. The thread ends with what was done to it.
func (d *Driver) enclosed(do func() error) error {
	return osthread.Spend(func() error { return d.enclose(do) })
}

func (d *Driver) enclose(do func() error) error {
	namespace, err := os.Open(d.netns()) // while it can still be seen
	if err != nil {
		return err
	}
	defer namespace.Close()
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	// What the host unmounts goes here as well, and nothing that is mounted here is seen outside.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := d.layOut(d.folder("root")); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := turnTo(d.folder("root")); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	return do()
}

// turnTo makes a folder the root, and leaves nothing of the old one to be seen (pivot_root(2), "pivot_root(".", ".")").
func turnTo(root string) error {
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	return errors.Join(unix.Unmount(".", unix.MNT_DETACH), unix.Chdir("/"))
}

// layOut builds the root of libvirt and QEMU: the system's programs, which are read-only there, our folders where libvirt looks
// for its own, the fewest devices, and nothing else of the host. A file of the host's that everybody may read is not there to be
// read; and of all processes QEMU sees those of its user.
func (d *Driver) layOut(root string) error {
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=16m"); err != nil {
		return err
	}
	if err := laySystem(root); err != nil {
		return err
	}
	if err := d.layAccounts(filepath.Join(root, "etc")); err != nil {
		return fmt.Errorf("/etc: %w", err)
	}
	if err := d.layDevices(filepath.Join(root, "dev")); err != nil {
		return fmt.Errorf("/dev: %w", err)
	}
	folders := []struct{ from, at string }{
		{d.folder("etc"), "/etc/libvirt"}, {d.folder("lib"), "/var/lib/libvirt"}, {d.folder("cache"), "/var/cache/libvirt"},
		{d.folder("log"), "/var/log/libvirt"}, {d.folder("run"), "/run/libvirt"}, {d.guests(), insideGuests},
	}
	if d.config.Memory != "" {
		folders = append(folders, struct{ from, at string }{d.config.Memory, insideMemory})
	}
	for _, p := range folders {
		if err := mountAt(p.from, filepath.Join(root, p.at), "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	for _, size := range hugePageSizes() {
		if err := mountAt("hugetlbfs", filepath.Join(root, insideHuge, size), "hugetlbfs", 0,
			"mode=755,pagesize="+strings.TrimSuffix(size, "B")); err != nil {
			return err
		}
	}
	return unix.MountSetattr(unix.AT_FDCWD, root, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// mountAt is mount(2) at a folder that it makes.
func mountAt(what, at, kind string, flags uintptr, options string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	return wrap.Errorf(unix.Mount(what, at, kind, flags, options), "mount %s at %s", what, at)
}

// laySystem puts the system's programs, /proc and /sys below a root.
func laySystem(root string) error {
	system := []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}
	for _, name := range system {
		from, at := filepath.Join("/", name), filepath.Join(root, name)
		target, err := os.Readlink(from)
		if err == nil {
			err = os.Symlink(target, at)
		} else if _, missing := os.Stat(from); errors.Is(missing, fs.ErrNotExist) {
			err = nil
		} else if err = mountAt(from, at, "", unix.MS_BIND|unix.MS_REC, ""); err == nil {
			err = readOnly(at)
		}
		if err != nil {
			return err
		}
	}
	// Each mount of /proc has options of its own. libvirt, which is root, sees all processes.
	if err := mountAt("proc", filepath.Join(root, "proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		"hidepid=2"); err != nil {
		return err
	}
	if err := mountAt("/sys", filepath.Join(root, "sys"), "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return readOnly(filepath.Join(root, "sys"))
}

// readOnly is for all that is mounted at a folder and below.
func readOnly(at string) error {
	attributes := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	return wrap.Errorf(unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_RECURSIVE, attributes), "make %s read-only", at)
}

// layAccounts makes an /etc with root and QEMU's user, and where the linker finds libraries.
func (d *Driver) layAccounts(etc string) error {
	if err := os.Mkdir(etc, 0o755); err != nil {
		return err
	}
	files := map[string]string{"passwd": "root:x:0:0:root:/:/usr/sbin/nologin\n", "group": "root:x:0:\n"}
	for _, name := range usualUsers() { // libvirt looks for the one that it was built with, whatever it is told
		files["passwd"] += fmt.Sprintf("%s:x:%d:%d:QEMU:/:/usr/sbin/nologin\n", name, d.uid, d.gid)
		files["group"] += fmt.Sprintf("%s:x:%d:\n", name, d.gid)
	}
	if cache, err := os.ReadFile("/etc/ld.so.cache"); err == nil {
		files["ld.so.cache"] = string(cache)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// nodes are the device files of the host's that libvirt and QEMU need; QEMU gets fewer of them.
func nodes() []string {
	return []string{"null", "zero", "full", "random", "urandom", "tty", "ptmx", "net/tun", "vhost-net"}
}

const vfio = "/dev/vfio" // where the devices that guests are given appear

// layDevices makes a /dev with nothing but what is needed. KVM is in it where it works, and is not where it
// does not: libvirt, which is allowed more than QEMU, would find that it works and then that it may not be used, and ask
// QEMU again what it can do at every turn.
func (d *Driver) layDevices(dev string) error {
	if err := mountAt("tmpfs", dev, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=1m"); err != nil {
		return err
	}
	// libvirt takes it along.
	if err := mountAt("devpts", filepath.Join(dev, "pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC,
		"mode=620,ptmxmode=666"); err != nil {
		return err
	}
	for _, name := range append(nodes(), "kvm") {
		var node unix.Stat_t
		if err := unix.Stat(filepath.Join("/dev", name), &node); err != nil || name == "kvm" && !d.kvm() {
			continue
		}
		path := filepath.Join(dev, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		mode := os.FileMode(node.Mode & 0o777)
		if name == "kvm" {
			mode = 0o666 // for the user of each QEMU
		}
		if err := errors.Join(unix.Mknod(path, node.Mode, int(node.Rdev)), os.Chmod(path, mode),
			os.Chown(path, int(node.Uid), int(node.Gid))); err != nil {
			return err
		}
	}
	if _, err := os.Stat(vfio); err != nil {
		return nil // this host gives no devices
	}
	return mountAt(vfio, filepath.Join(dev, filepath.Base(vfio)), "", unix.MS_BIND, "")
}

// hugePageSizes are those that the host's kernel has, as it names them: 2048kB, 1048576kB.
func hugePageSizes() []string {
	found, _ := filepath.Glob("/sys/kernel/mm/hugepages/hugepages-*") // the pattern is sound
	return lists.Map(found, func(dir string) string { return strings.TrimPrefix(filepath.Base(dir), "hugepages-") })
}
