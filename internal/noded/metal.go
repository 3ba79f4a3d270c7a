package noded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/drivers/scheduler"
	"muster/internal/kit/clock"
	"muster/internal/kit/wrap"
	"muster/internal/noded/accelerators"
	"muster/internal/protocol"
)

// ownMachine is a machine that is the node's alone. The agent is then the first process of a kernel, started by the first
// stage, which has mounted /proc, /sys, /dev and /run, and no other program does what an init does.
type ownMachine interface {
	// wake makes the machine what programs expect. What fails is said, and gone without.
	wake(ctx context.Context, name string, say func(format string, args ...any))
	// drivers loads what the machine's devices need. It takes a while.
	drivers(ctx context.Context, say func(format string, args ...any))
	// attach lays the cluster's network over the machine's.
	attach(a protocol.Attachment) error
	// bridge makes the NIC that the machine booted by a port of a bridge.
	bridge() error
	// keepLease keeps the machine's own address until ctx ends.
	keepLease(ctx context.Context, say func(format string, args ...any))
	// catchUp sets the clock by the machine's own if it is behind that by more than slack, and says by how much it was.
	catchUp(slack time.Duration) (behind time.Duration, err error)
	// mountCPUSets mounts what a scheduler confines jobs by, where the kernel has it.
	mountCPUSets() error
	// mountHome mounts /home: from the head if there is a source, else from the machine's own memory or disk.
	mountHome(source string) error
}

// kernelMachine is the real one.
type kernelMachine struct{ processes processes }

var _ ownMachine = kernelMachine{}

// wake mounts, names, limits and sets up the loopback.
func (kernelMachine) wake(_ context.Context, name string, say func(format string, args ...any)) {
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"mount", mountSystem},
		{"host name", func() error { return nameHost(name) }},
		{"loopback", loopbackUp},
		{"settings", func() error { return writeSettings("/proc/sys") }},
		{"limits", raiseLimits},
		// Ctrl-Alt-Del comes as SIGINT, so that services end before the machine does: reboot(2).
		{"Ctrl-Alt-Del", func() error { return unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF) }},
	} {
		if err := step.do(); err != nil {
			say("%s: %v", step.what, err)
		}
	}
}

// mountSystem mounts what programs look for beyond what the first stage has mounted.
func mountSystem() error {
	var failed error
	for _, m := range []struct {
		at, kind string
		flags    uintptr
		options  string
	}{
		{"/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=0620,gid=5,ptmxmode=0666"},
		{"/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"}, // half of the memory, for MPI's ranks of one node
		{"/dev/mqueue", "mqueue", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
		{"/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "nsdelegate"},
	} {
		err := os.MkdirAll(m.at, 0o755)
		if err == nil {
			err = unix.Mount(m.kind, m.at, m.kind, m.flags, m.options)
		}
		if err != nil && !errors.Is(err, unix.EBUSY) { // mounted there already
			failed = errors.Join(failed, fmt.Errorf("%s: %w", m.at, err))
		}
	}
	// devtmpfs makes devices and no links.
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(target, filepath.Join("/dev", name)); err != nil && !errors.Is(err, fs.ErrExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// mountCPUSets mounts the CPU sets of cgroup v1, which all versions of schedulers can confine jobs by. Kernels as Debian 13's
// have them in v2 alone, which is mounted already. Both versions can be there, each with controllers of its own.
func (kernelMachine) mountCPUSets() error {
	if err := os.MkdirAll(scheduler.CPUSets, 0o755); err != nil {
		return err
	}
	err := unix.Mount("cpuset", scheduler.CPUSets, "cgroup", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "cpuset")
	if err == nil {
		return nil
	}
	text, _ := os.ReadFile(scheduler.ControlGroups + "/cgroup.controllers")
	if slices.Contains(strings.Fields(string(text)), "cpuset") {
		return nil
	}
	return fmt.Errorf("mount %s: %w", scheduler.CPUSets, err)
}

func nameHost(name string) error {
	return errors.Join(unix.Sethostname([]byte(name)), os.WriteFile("/etc/hostname", []byte(name+"\n"), 0o644))
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// settings are the kernel's, below /proc/sys. One that a kernel does not have is left out.
var settings = []struct{ name, value string }{
	{"kernel/panic", "10"}, // s; then the machine reboots, by the network
	// The machine has two addresses on one NIC. Who asks for one there must not be told of the other, nor reach it.
	{"net/ipv4/conf/all/arp_ignore", "1"},
	{"net/ipv4/conf/all/arp_announce", "2"},
	{"net/ipv4/conf/all/rp_filter", "1"},
	{"net/ipv4/ping_group_range", "0 2147483647"}, // everybody may ask for echoes, so that ping needs no rights
	// Windows for 10 Gbit/s and more within one building: 16 MiB in flight.
	{"net/core/rmem_max", "16777216"},
	{"net/core/wmem_max", "16777216"},
	{"net/ipv4/tcp_rmem", "4096 131072 16777216"},
	{"net/ipv4/tcp_wmem", "4096 65536 16777216"},
	{"net/core/somaxconn", "4096"},
	// No user leads another, or root, by a link, pipe or file of their own in a folder like /tmp. Debian's systemd sets these
	// (/usr/lib/sysctl.d/50-default.conf), and its kernel has the first two from the start; others have not.
	{"fs/protected_symlinks", "1"},
	{"fs/protected_hardlinks", "1"},
	{"fs/protected_fifos", "2"},
	{"fs/protected_regular", "2"},
	{"fs/suid_dumpable", "0"}, // no memory of root's programs in users' files
	// What only root needs: addresses in the kernel, its messages, and programs in it. Once it is 2, root may allow the last
	// again.
	{"kernel/kptr_restrict", "1"},
	{"kernel/dmesg_restrict", "1"},
	{"kernel/unprivileged_bpf_disabled", "2"},
	// MPI's ranks of one user read each other's memory (CMA, xpmem's stand-in) instead of copying twice. 1 would allow that to
	// parents only, and ranks are siblings. Other users' processes are closed with 0, too.
	{"kernel/yama/ptrace_scope", "0"},
}

func writeSettings(below string) error {
	var failed error
	for _, s := range settings {
		err := os.WriteFile(filepath.Join(below, s.name), []byte(s.value), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// openFiles is how many files programs of a node may open, unless they ask for more.
const openFiles = 1 << 16

// raiseLimits sets what services, and so jobs, inherit: memory that InfiniBand pins, and files.
func raiseLimits() error {
	const most = 1 << 20
	return errors.Join(
		unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}),
		unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: openFiles, Max: most}))
}

// raiseFiles sets it where the node has its host's limits, as far as these go. It is called in the first process of a node.
func raiseFiles() error {
	var host unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &host); err != nil {
		return err
	}
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(openFiles, host.Max), Max: host.Max})
}

const (
	driverRounds = 4                      // a driver brings devices that want drivers themselves
	driverPause  = 200 * time.Millisecond // for those to appear
)

// drivers asks modprobe for every device by its alias. Displays keep the console that they have.
func (m kernelMachine) drivers(ctx context.Context, say func(format string, args ...any)) {
	known := map[string]bool{}
	for range driverRounds {
		var fresh []string
		for _, alias := range deviceAliases("/sys/devices") {
			if !known[alias] {
				known[alias] = true
				fresh = append(fresh, alias)
			}
		}
		if len(fresh) == 0 {
			break
		}
		// That no module answers to an alias is usual: its driver is in the kernel, or it needs none.
		_, _ = m.processes.Run(ctx, append([]string{"modprobe", "-a", "-b", "-q"}, fresh...)...)
		if clock.Sleep(ctx, driverPause) != nil {
			return
		}
	}
	accelerators.Drive(ctx, m.processes, "/", say)
}

// deviceAliases are what devices call themselves to modules.
func deviceAliases(below string) []string {
	var all []string
	_ = filepath.WalkDir(below, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "modalias" {
			return nil // a device that has just gone
		}
		text, _ := os.ReadFile(path)
		alias := strings.TrimSpace(string(text))
		display := strings.HasPrefix(alias, "pci:") && strings.Contains(alias, "bc03sc")
		if alias != "" && !display {
			all = append(all, alias)
		}
		return nil
	})
	slices.Sort(all)
	return slices.Compact(all)
}

func (kernelMachine) attach(a protocol.Attachment) error {
	if a.NIC == "" {
		booted, err := bootNetwork(protocol.NetworkFile)
		if err != nil {
			return err
		}
		a.NIC = booted.MAC
	}
	return attach(a)
}

func (kernelMachine) keepLease(ctx context.Context, say func(format string, args ...any)) {
	booted, err := bootNetwork(protocol.NetworkFile)
	switch {
	case err != nil:
		say("%v", err)
	case booted.By == "dhcp":
		keepLease(ctx, booted, say)
	}
}

func bootNetwork(file string) (protocol.BootNetwork, error) {
	var b protocol.BootNetwork
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	return b, wrap.Errorf(err, "network of the first stage")
}

// mountHome of a head makes one in memory if the root is in memory itself; one on a disk stays.
func (kernelMachine) mountHome(source string) error {
	if source != "" {
		return mountNFS(source, "/home")
	}
	var root unix.Statfs_t
	if err := unix.Statfs("/", &root); err != nil {
		return fmt.Errorf("mount /home: %w", err)
	}
	if root.Type != unix.OVERLAYFS_SUPER_MAGIC && root.Type != unix.TMPFS_MAGIC {
		// A mount of its own all the same, as every node's: what is not mounted is not there.
		return unix.Mount("/home", "/home", "", unix.MS_BIND, "")
	}
	return unix.Mount("home", "/home", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755")
}

// openConsole is where a machine's own words go.
func openConsole() (io.Writer, error) {
	return os.OpenFile("/dev/console", os.O_WRONLY|unix.O_NOCTTY, 0)
}

const syncLimit = 10 * time.Second // a disk, or a head, that is away must not keep the machine on

// powerOff ends the machine, after all other processes. It returns only if it cannot.
func powerOff() error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// fails where it is the root's own; may wait for a head that is gone
		_ = unix.Unmount("/home", unix.MNT_FORCE|unix.MNT_DETACH)
		unix.Sync()
	}()
	select {
	case <-done:
	case <-time.After(syncLimit):
	}
	return cutPower()
}

// cutPower ends the machine as it is. It returns only if it cannot.
func cutPower() error {
	if os.Getpid() != 1 {
		return errors.New("only a machine's first process may switch it off")
	}
	return fmt.Errorf("switch off: %w", unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
}
