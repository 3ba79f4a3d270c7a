package vm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate/onhost"
	"muster/internal/kit/lists"
)

const (
	socketFile = "libvirt-sock"
	pidFile    = "libvirtd.pid"
	// startWithin is how long libvirt may take until it answers. At its first start it asks QEMU for all that it can do.
	startWithin = time.Minute
	endWithin   = 10 * time.Second
)

// folder is one of libvirt's own.
func (d *Driver) folder(name string) string { return filepath.Join(d.config.Dir, "libvirt", name) }

// qemuLog is the file of what a domain's QEMU says, and libvirt of it.
func (d *Driver) qemuLog(domain string) string {
	return filepath.Join(d.folder("log"), "qemu", domain+".log")
}

// connect speaks to libvirt, which is started if it does not run. The caller has a shared lock of it.
func (d *Driver) connect(ctx context.Context) (*virt, error) {
	if _, runs := d.libvirt(); runs {
		if v, err := dial(ctx, d.folder("run"), answerWithin); err == nil {
			return v, nil
		}
	}
	held, err := onhost.Exclusive(ctx, d.lockPath("libvirt-start"))
	if err != nil {
		return nil, err
	}
	defer held.Release()
	var ended <-chan struct{} // nil: another process has started it
	if _, runs := d.libvirt(); !runs {
		if ended, err = d.startLibvirt(); err != nil {
			return nil, fmt.Errorf("start libvirt: %w", err)
		}
	}
	var v *virt
	var failed error // to dial
	err = onhost.Until(ctx, startWithin, func() (bool, error) {
		v, failed = dial(ctx, d.folder("run"), answerWithin)
		select {
		case <-ended:
			return failed == nil, errors.New("it has ended")
		default:
			return failed == nil, nil
		}
	})
	if err != nil {
		return nil, fmt.Errorf("start libvirt: %w; its log ends with: %s", errors.Join(failed, err),
			onhost.LastLine(filepath.Join(d.folder("log"), "libvirtd.log")))
	}
	return v, nil
}

// libvirt is our libvirtd, if it runs. Whatever has its pid is not it unless it is in our network namespace.
func (d *Driver) libvirt() (onhost.Process, bool) {
	text, err := os.ReadFile(filepath.Join(d.folder("run"), pidFile))
	if err != nil {
		return onhost.Process{}, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || !d.owns(pid) {
		return onhost.Process{}, false
	}
	return onhost.Find(pid)
}

// owns says whether a process is in our network namespace.
func (d *Driver) owns(pid int) bool {
	ours, err1 := os.Stat(d.netns())
	its, err2 := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
	return err1 == nil && err2 == nil && os.SameFile(ours, its)
}

// startLibvirt runs libvirtd in namespaces of its own. It lives on without us; ended is closed when it does not.
func (d *Driver) startLibvirt() (ended <-chan struct{}, err error) {
	for _, name := range []string{"etc", "lib", "cache", "log", "run", "root"} {
		if err := os.MkdirAll(d.folder(name), 0o755); err != nil { // QEMU's user passes through some of them
			return nil, err
		}
	}
	for name, text := range map[string]string{"libvirtd.conf": libvirtdConf(), "qemu.conf": d.qemuConf()} {
		if err := os.WriteFile(filepath.Join(d.folder("etc"), name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	d.kvm() // which takes a moment, here and not in the namespaces
	// The kernel puts the groups of devices here when their driver comes, which may be later.
	if groups, _ := filepath.Glob("/sys/kernel/iommu_groups/*"); len(groups) > 0 {
		if err := os.MkdirAll(vfio, 0o755); err != nil {
			return nil, err
		}
	}
	if err := ensureNamespace(d.netns()); err != nil {
		return nil, err
	}
	// What it says before it has read where to log.
	said, err := os.OpenFile(filepath.Join(d.folder("log"), "libvirtd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer said.Close()
	c := exec.Command(d.libvirtd, "--config", "/etc/libvirt/libvirtd.conf", "--pid-file", "/run/libvirt/"+pidFile)
	c.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	c.Stdout, c.Stderr, c.Dir = said, said, "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C at the controller is not meant for it
	if err := d.enclosed(c.Start); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		_ = c.Wait() // that it has ended is all there is to know
		close(done)
	}()
	go collectUntil(done)
	return done, nil
}

// libvirtdConf says who may speak to libvirt, and by which number other libvirts know it: a random one, since hosts that
// booted the same image, or are one, would have the same, and no guest moves from a host to itself.
func libvirtdConf() string {
	var number [16]byte
	_, _ = rand.Read(number[:]) // it never fails
	return fmt.Sprintf(`auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_ro_perms = "0700"
unix_sock_rw_perms = "0700"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
host_uuid = "%x-%x-%x-%x-%x"
`, number[:4], number[4:6], number[6:8], number[8:10], number[10:16])
}

// qemuConf says how guests are held. Files' owners are our business: libvirt would give shared ones to the guest that starts.
// Only a limit of 1 keeps cores also from a program of the host's that handles them: core(5).
func (d *Driver) qemuConf() string {
	mounts := lists.Map(hugePageSizes(), func(size string) string { return strconv.Quote(filepath.Join(insideHuge, size)) })
	return fmt.Sprintf(`user = "+%d"
group = "+%d"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
seccomp_sandbox = 1
namespaces = [ "mount" ]
cgroup_controllers = [ ]
stdio_handler = "file"
hugetlbfs_mount = [ %s ]
max_core = 1
`, d.uid, d.gid, strings.Join(mounts, ", "))
}

// stopLibvirt ends libvirtd, whose guests are gone, and removes all it had but what it has found out about QEMU.
func (d *Driver) stopLibvirt(ctx context.Context) error {
	if p, runs := d.libvirt(); runs {
		if err := p.End(ctx, endWithin); err != nil {
			return err
		}
		_, _ = unix.Wait4(p.PID, nil, unix.WNOHANG, nil) // an orphan that is ours by now, of a controller that has died
	}
	if err := unix.Unmount(d.netns(), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) &&
		!errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unmount the network namespace: %w", err)
	}
	if err := missing(os.Remove(d.netns())); err != nil {
		return err
	}
	for _, name := range []string{"etc", "lib", "log", "run", "root"} {
		if err := os.RemoveAll(d.folder(name)); err != nil {
			return err
		}
	}
	return nil
}
