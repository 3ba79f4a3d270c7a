package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/substrate"
)

// cgroups is what this host's control groups can do for us: version 1 (hybrid hosts too, whose version 2 tree has no
// controllers), version 2, or nothing.
type cgroups struct {
	version     int      // 1, 2, or 0: none
	roots       []string // directories below which a group's directories are made, one a hierarchy
	prefix      string   // of our groups' names
	memory, cpu bool     // limits were set and read back
	swap        bool     // memory with swap can be limited too
	pids        bool     // the number of processes can be limited
}

const cgroupMount = "/sys/fs/cgroup"

// detectCgroups tries, once, to make a group and to set limits in it. The caller sees to it that only one does at a time.
func detectCgroups(prefix string) (cgroups, error) {
	c := cgroups{prefix: prefix}
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		c.version, c.roots = 2, []string{cgroupMount}
	} else if controllers, _ := filepath.Glob(filepath.Join(cgroupMount, "*", "cgroup.procs")); len(controllers) > 0 {
		c.version = 1
		for _, file := range controllers {
			c.roots = append(c.roots, filepath.Dir(file))
		}
	} else {
		return c, fmt.Errorf("runc needs control groups mounted below %s, read-only at least", cgroupMount)
	}
	c.try("probe")
	if !c.memory && !c.cpu {
		return cgroups{prefix: prefix}, nil
	}
	return c, nil
}

// try finds which limits can be set. The files are those of version 1 and 2; a group has one or the other.
func (c *cgroups) try(name string) {
	defer c.remove(context.Background(), name)
	for _, dir := range c.dirs(name) {
		if c.version == 2 {
			enable := filepath.Join(filepath.Dir(dir), "cgroup.subtree_control")
			os.WriteFile(enable, []byte("+memory"), 0)
			os.WriteFile(enable, []byte("+cpu"), 0)
			os.WriteFile(enable, []byte("+pids"), 0)
		}
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			continue
		}
		for _, file := range []string{"memory.limit_in_bytes", "memory.max"} {
			c.memory = c.memory || os.WriteFile(filepath.Join(dir, file), []byte("16777216"), 0) == nil
		}
		c.cpu = c.cpu || os.WriteFile(filepath.Join(dir, "cpu.cfs_quota_us"), []byte("100000"), 0) == nil ||
			os.WriteFile(filepath.Join(dir, "cpu.max"), []byte("100000 100000"), 0) == nil
		for _, file := range []string{"memory.memsw.limit_in_bytes", "memory.swap.max"} {
			_, err := os.Stat(filepath.Join(dir, file))
			c.swap = c.swap || err == nil
		}
		_, err := os.Stat(filepath.Join(dir, "pids.max"))
		c.pids = c.pids || err == nil
	}
}

func (c cgroups) String() string {
	if c.version == 0 {
		return "none"
	}
	return fmt.Sprintf("version %d, memory %t, cpu %t", c.version, c.memory, c.cpu)
}

// path is the group's absolute path within every hierarchy. There is no parent group of all of ours: two nodes could
// not be made and removed at the same time without a lock between them.
func (c cgroups) path(name string) string { return "/" + c.prefix + "." + name }

func (c cgroups) dirs(name string) []string {
	var dirs []string
	for _, root := range c.roots {
		dirs = append(dirs, filepath.Join(root, c.path(name)))
	}
	return dirs
}

// resources are the limits to be asked of runc for a node: those the host can set and the node does not exceed anyway.
func (c cgroups) resources(cpus, memoryMiB, hostCPUs int) ociResources {
	resources := ociResources{Devices: []ociDevice{{Allow: false, Access: "rwm"}}}
	if c.memory && memoryMiB > 0 {
		limit := int64(memoryMiB) << 20
		resources.Memory = &ociMemory{Limit: limit}
		if c.swap {
			resources.Memory.Swap = limit // memory and swap together: no swap
		}
	}
	if c.cpu && cpus > 0 && cpus < hostCPUs {
		const period = 100_000 // µs
		resources.CPU = &ociCPU{Quota: int64(cpus) * period, Period: period}
	}
	if c.pids {
		resources.Pids = &ociPids{Limit: mostPids()}
	}
	return resources
}

// mostPids keeps a node that does nothing but fork from taking every process number the host has.
func mostPids() int64 {
	all, err := strconv.ParseInt(readLine("/proc/sys/kernel/pid_max"), 10, 64)
	if err != nil {
		all = 32768
	}
	return all / 4
}

// limits reads back those in force.
func (c cgroups) limits(name string) substrate.Limits {
	limits := substrate.Limits{CPU: "unlimited", Memory: "unlimited"}
	// Version 1 says "no limit" with a number near the largest there is.
	if n, err := strconv.ParseInt(c.read(name, "memory.limit_in_bytes", "memory.max"), 10, 64); err == nil && n < 1<<60 {
		limits.Memory = fmt.Sprintf("%d MiB", n>>20)
	}
	quota := c.read(name, "cpu.cfs_quota_us") + " " + c.read(name, "cpu.cfs_period_us")
	if c.version == 2 {
		quota = c.read(name, "cpu.max")
	}
	var allowed, period float64
	if n, _ := fmt.Sscan(quota, &allowed, &period); n == 2 && allowed > 0 && period > 0 {
		limits.CPU = strconv.FormatFloat(allowed/period, 'g', 3, 64) + " cpus"
	}
	return limits
}

// outOfMemory counts the processes that the kernel killed at the node's memory limit.
func (c cgroups) outOfMemory(name string) int {
	fields := strings.Fields(c.read(name, "memory.oom_control", "memory.events"))
	if i := slices.Index(fields, "oom_kill"); i >= 0 && i+1 < len(fields) {
		n, _ := strconv.Atoi(fields[i+1])
		return n
	}
	return 0
}

// frozen says that somebody has frozen the group; we never do.
func (c cgroups) frozen(name string) bool {
	state := c.read(name, "freezer.state", "cgroup.freeze")
	return state != "" && state != "THAWED" && state != "0"
}

// thaw lets the group's processes run, or die.
func (c cgroups) thaw(name string) error {
	for _, dir := range c.dirs(name) {
		for file, text := range map[string]string{"freezer.state": "THAWED", "cgroup.freeze": "0"} {
			err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				return fmt.Errorf("thaw control group: %w", err)
			}
		}
	}
	return nil
}

// read returns the first of the files that any of the group's directories has.
func (c cgroups) read(name string, files ...string) string {
	for _, dir := range c.dirs(name) {
		for _, file := range files {
			if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				return strings.TrimSpace(string(text))
			}
		}
	}
	return ""
}

// processes lists those in the group and in groups below it.
func (c cgroups) processes(name string) ([]int, error) {
	var pids []int
	err := c.walk(name, func(dir string) error {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for _, field := range strings.Fields(string(text)) {
			// 0 is a process of a pid namespace that is not below ours.
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
		return err
	})
	return pids, err
}

// remove removes the group and those below it; its processes have ended, though the kernel may need a moment to see it.
func (c cgroups) remove(ctx context.Context, name string) error {
	var dirs []string
	if err := c.walk(name, func(dir string) error { dirs = append(dirs, dir); return nil }); err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		err := until(ctx, 2*time.Second, func() (bool, error) {
			err := os.Remove(dir)
			return err == nil || errors.Is(err, fs.ErrNotExist), err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove control group: %w", err)
		}
	}
	return nil
}

// walk visits the group's directories, parents first, in every hierarchy; what vanishes meanwhile is no error.
func (c cgroups) walk(name string, visit func(dir string) error) error {
	for _, root := range c.dirs(name) {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				err = visit(path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
