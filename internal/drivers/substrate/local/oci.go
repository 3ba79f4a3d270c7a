package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/protocol"
)

// served says whether the cluster's /home may be served over a network: only from a file system of its own, since a client that
// asks an NFS server for a file by a handle of its own making gets any file of that file system.
func (d *Driver) served(c shared) (bool, error) {
	var root, own unix.Stat_t
	if err := unix.Stat(d.config.Dir, &root); err != nil {
		return false, &os.PathError{Op: "stat", Path: d.config.Dir, Err: err}
	}
	if err := unix.Stat(c.home(), &own); err != nil {
		return false, &os.PathError{Op: "stat", Path: c.home(), Err: err}
	}
	return root.Dev != own.Dev, nil
}

// writeBundle writes the container's config.json, and returns what is to be staged for it. It holds no secret: the boot file is
// the only place for one.
func (d *Driver) writeBundle(ctx context.Context, b boot, n substrate.Node, c shared) ([]staged, error) {
	serves := false
	var err error
	if n.ServesHome {
		if serves, err = d.served(c); err != nil {
			return nil, err
		}
		if !serves {
			d.config.Log.Warn("a head may not serve /home, which is not on a file system of its own", "cluster", n.Cluster,
				"node", n.Name)
		}
	}
	spec, mounts := d.bundle(b, n, c, serves)
	if spec.Process.NoNewPrivileges, err = d.noNewPrivileges(ctx, n); err != nil {
		return nil, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	return mounts, os.WriteFile(b.path("config.json"), text, 0o600)
}

// bundle describes the container, and what is to be staged for it. One that serves /home has the rights for it.
func (d *Driver) bundle(b boot, n substrate.Node, c shared, serves bool) (specs.Spec, []staged) {
	spec := d.spec(b, n, c, serves)
	if !d.mapsUsers(n) {
		return spec, nil
	}
	spec.Linux.Namespaces = append(spec.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace, Path: b.path("userns")})
	spec.Linux.UIDMappings = numbersOf(n)
	spec.Linux.GIDMappings = spec.Linux.UIDMappings
	return spec, d.toStage(&spec)
}

func (d *Driver) spec(b boot, n substrate.Node, c shared, serves bool) specs.Spec {
	capabilities := nodeCapabilities(serves, d.mapsUsers(n) && !n.KeepsState)
	pattern, _ := os.ReadFile("/proc/sys/kernel/core_pattern") // a kernel without it dumps no core
	spec := specs.Spec{
		Version:  "1.0.2",
		Hostname: n.Name,
		Root:     &specs.Root{Path: b.path("root")},
		Process: &specs.Process{
			Args: []string{"/usr/sbin/muster", "agent"},
			Env:  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"},
			Cwd:  "/",
			User: specs.User{Umask: new(uint32(0o022))},
			// Other resource limits are left as the caller's own: raising them would need CAP_SYS_RESOURCE.
			Rlimits:      coreLimit(pattern),
			Capabilities: &specs.LinuxCapabilities{Bounding: capabilities, Effective: capabilities, Permitted: capabilities},
			OOMScoreAdj:  new(100), // if the host itself runs out of memory, nodes go before the controller
		},
		Mounts: d.mounts(b, c, n),
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{{Type: "pid"}, {Type: "mount"}, {Type: "uts"}, {Type: "ipc"}, {Type: "cgroup"},
				{Type: "network", Path: b.path("netns")}},
			Resources: resources(d.cgroups, n.CPUs, n.MemoryMiB, runtime.NumCPU()),
			// What tells of the host's memory and devices: some of it to any user, the rest to uid 0, which is a node's root.
			MaskedPaths: []string{"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
				"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/proc/sysrq-trigger",
				"/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/vmallocinfo", "/proc/slabinfo",
				"/proc/allocinfo", "/proc/locks",
				"/proc/kmsg", "/proc/vmcore",
				"/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/devices/virtual/powercap"},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"},
			Seccomp:       seccomp(serves, d.config.Opened),
		},
	}
	if d.cgroups.Version != 0 {
		spec.Linux.CgroupsPath = d.cgroups.Path(b.name)
	}
	return spec
}

// coreLimit keeps programs of nodes that crash from a program of the host's, which would handle them as root and keep their cores
// on the host's disk: core(5), where a limit of 1 is what says so. Where cores are files, they are files of the node's.
func coreLimit(pattern []byte) []specs.POSIXRlimit {
	if !bytes.HasPrefix(pattern, []byte("|")) {
		return nil
	}
	return []specs.POSIXRlimit{{Type: "RLIMIT_CORE", Hard: 1, Soft: 1}}
}

// servingCapability opens files by handle.
const servingCapability = "CAP_DAC_READ_SEARCH"

// nodeCapabilities are what a node's root may do. Where the node's uid 0 is the host's, each missing one matters:
// SYS_ADMIN, SYS_PTRACE, SYS_MODULE, MKNOD and DAC_READ_SEARCH (which opens any file of a file system by its handle) are
// what a node would need to reach the host. A head that serves /home has two of them for the first moment of its agent, which
// makes a jail for the NFS server, leaves it DAC_READ_SEARCH, and gives up both: package internal/noded/jail. A compute node with
// users of its own has SYS_PTRACE, which reaches its own processes alone: what a job's programs use is for its scheduler to read.
func nodeCapabilities(servesHome, readsJobs bool) []string {
	capabilities := []string{
		"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_SETFCAP", // packages, home directories
		// daemons of schedulers, sshd and su become users and end their processes
		"CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL",
		"CAP_SYS_CHROOT", "CAP_AUDIT_WRITE", // sshd
		"CAP_NET_ADMIN",                       // the agent sets permanent neighbours
		"CAP_NET_RAW", "CAP_NET_BIND_SERVICE", // ping; ports below 1024
	}
	if servesHome {
		capabilities = append(capabilities, servingCapability, "CAP_SYS_ADMIN")
	}
	if readsJobs {
		capabilities = append(capabilities, "CAP_SYS_PTRACE")
	}
	return capabilities
}

func mount(at, kind, from string, options ...string) specs.Mount {
	return specs.Mount{Destination: at, Type: kind, Source: from, Options: options}
}

func (d *Driver) mounts(b boot, c shared, n substrate.Node) []specs.Mount {
	mounts := []specs.Mount{
		// Users outside group 0 see their own processes alone. Root needs the group, having no CAP_SYS_PTRACE.
		mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev", "hidepid=2", "gid=0"),
		mount("/sys", "sysfs", "sysfs", "nosuid", "noexec", "nodev", "ro"),
		mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=64k"),
		mount("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5",
			fmt.Sprintf("max=%d", mostTerminals)),
		mount("/dev/mqueue", "mqueue", "mqueue", "nosuid", "noexec", "nodev"),
		// MPI ranks of one node talk through files here: the usual half of the memory, not a container's usual 64 MiB.
		mount("/dev/shm", "tmpfs", "shm", "nosuid", "nodev", "mode=1777", shmSize(n.MemoryMiB)),
		mount("/run", "bind", b.path("run"), "bind", "nosuid", "nodev"),
		mount(protocol.SocketDir, "bind", d.config.Sockets, "bind", "ro", "nosuid", "nodev", "noexec"),
		mount("/usr/sbin/muster", "bind", d.config.Binary, "bind", "ro", "nosuid", "nodev"),
		mount("/home", "bind", c.home(), "bind", "nosuid", "nodev"),
	}
	if n.KeepsState {
		mounts = append(mounts, mount(protocol.StateDir, "bind", c.state(), "bind", "nosuid", "nodev", "noexec"))
	}
	if d.cgroups.Version != 0 {
		mounts = append(mounts, mount("/sys/fs/cgroup", "cgroup", "cgroup", "nosuid", "noexec", "nodev", "relatime", "ro"))
	}
	return mounts
}

func shmSize(memoryMiB int) string {
	if memoryMiB == 0 {
		return "size=50%"
	}
	return fmt.Sprintf("size=%dm", max(memoryMiB/2, 1))
}

// makeDir makes a directory with exactly this mode, whatever the process's umask.
func makeDir(path string, mode os.FileMode) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// resources are the limits to be asked of runc for a node: those the host can set and the node does not exceed anyway.
func resources(c onhost.Cgroups, cpus, memoryMiB, hostCPUs int) *specs.LinuxResources {
	asked := &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}}
	if c.Memory && memoryMiB > 0 {
		limit := int64(memoryMiB) << 20
		asked.Memory = &specs.LinuxMemory{Limit: &limit}
		if c.Swap {
			asked.Memory.Swap = &limit // memory and swap together: no swap
		}
	}
	if c.CPU && cpus > 0 && cpus < hostCPUs {
		const period = 100_000 // µs
		asked.CPU = &specs.LinuxCPU{Quota: new(int64(cpus) * period), Period: new(uint64(period))}
	}
	if c.Pids {
		asked.Pids = &specs.LinuxPids{Limit: new(min(allTasks()/4, tasksAtStart))}
	}
	return asked
}
