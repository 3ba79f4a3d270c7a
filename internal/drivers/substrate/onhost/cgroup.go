package onhost

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

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/lists"
)

// Cgroups is what this host's control groups can do for us: version 1 (hybrid hosts too, whose version 2 tree has no
// controllers), version 2, or nothing.
type Cgroups struct {
	Version     int      // 1, 2, or 0: none
	Memory, CPU bool     // limits were set and read back
	Swap        bool     // memory with swap can be limited too
	Pids        bool     // the number of processes can be limited
	CPUSet      bool     // which CPUs they run on can be limited
	roots       []string // directories below which a group's directories are made, one a hierarchy
	prefix      string   // of our groups' names
}

const cgroupMount = "/sys/fs/cgroup"

// DetectCgroups tries, once, to make a group and to set limits in it. The caller sees to it that only one does at a time.
func DetectCgroups(prefix string) (Cgroups, error) {
	c := Cgroups{prefix: prefix}
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		c.Version, c.roots = 2, []string{cgroupMount}
	} else if controllers, _ := filepath.Glob(filepath.Join(cgroupMount, "*", "cgroup.procs")); len(controllers) > 0 {
		c.Version = 1
		for _, file := range controllers {
			c.roots = append(c.roots, filepath.Dir(file))
		}
	} else {
		return c, fmt.Errorf("no control groups are mounted below %s", cgroupMount)
	}
	c.try("probe")
	if !c.Memory && !c.CPU {
		return Cgroups{prefix: prefix}, nil
	}
	return c, nil
}

// try finds which limits can be set. The files are those of version 1 and 2; a group has one or the other.
func (c *Cgroups) try(name string) {
	defer c.Remove(context.Background(), name)
	for _, dir := range c.Dirs(name) {
		if c.Version == 2 {
			enable := filepath.Join(filepath.Dir(dir), "cgroup.subtree_control")
			for _, controller := range []string{"memory", "cpu", "pids", "cpuset"} {
				os.WriteFile(enable, []byte("+"+controller), 0)
			}
		}
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			continue
		}
		for _, file := range []string{"memory.limit_in_bytes", "memory.max"} {
			c.Memory = c.Memory || os.WriteFile(filepath.Join(dir, file), []byte("16777216"), 0) == nil
		}
		c.CPU = c.CPU || os.WriteFile(filepath.Join(dir, "cpu.cfs_quota_us"), []byte("100000"), 0) == nil ||
			os.WriteFile(filepath.Join(dir, "cpu.max"), []byte("100000 100000"), 0) == nil
		for _, file := range []string{"memory.memsw.limit_in_bytes", "memory.swap.max"} {
			_, err := os.Stat(filepath.Join(dir, file))
			c.Swap = c.Swap || err == nil
		}
		_, err := os.Stat(filepath.Join(dir, "pids.max"))
		c.Pids = c.Pids || err == nil
		_, err = os.Stat(filepath.Join(dir, "cpuset.cpus"))
		c.CPUSet = c.CPUSet || err == nil
	}
}

func (c Cgroups) String() string {
	if c.Version == 0 {
		return "none"
	}
	return fmt.Sprintf("version %d, memory %t, cpu %t", c.Version, c.Memory, c.CPU)
}

// Path is the group's absolute path within every hierarchy. There is no parent group of all of ours: two nodes could
// not be made and removed at the same time without a lock between them.
func (c Cgroups) Path(name string) string { return "/" + c.prefix + "." + name }

// Dirs are the group's directories, one in every hierarchy.
func (c Cgroups) Dirs(name string) []string {
	return lists.Map(c.roots, func(root string) string { return filepath.Join(root, c.Path(name)) })
}

// Bounds are the limits of a group. What is zero is not limited.
type Bounds struct {
	MemoryMiB int
	Pids      int    // processes, and threads
	CPUs      string // that its processes run on, as the kernel lists them: "0-3,8"
}

// Enclose makes a group with those of the limits that this host can set, and moves a process into it with all its threads. Each
// thread may then run on all CPUs of the group. It may be repeated.
func (c Cgroups) Enclose(name string, pid int, b Bounds) error {
	for i, dir := range c.Dirs(name) {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
				continue // a hierarchy that is not ours
			}
			return fmt.Errorf("make control group: %w", err)
		}
		bound := false
		for _, setting := range c.settings(c.roots[i], b) {
			file, err := os.OpenFile(filepath.Join(dir, setting.file), os.O_WRONLY|os.O_TRUNC, 0)
			if errors.Is(err, fs.ErrNotExist) {
				continue // another version's, or another hierarchy's
			}
			if err == nil {
				_, err = file.WriteString(setting.value)
				err = errors.Join(err, file.Close())
			}
			if err != nil {
				return fmt.Errorf("limit control group: %s: %w", setting.file, err)
			}
			bound = true
		}
		if !bound {
			if err := os.Remove(dir); err != nil {
				return fmt.Errorf("remove control group: %w", err)
			}
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("move process %d to its control group: %w", pid, err)
		}
	}
	return nil
}

type setting struct{ file, value string }

// settings are what both versions' files want, in the order that the kernel needs.
func (c Cgroups) settings(root string, b Bounds) []setting {
	var all []setting
	if c.Memory && b.MemoryMiB > 0 {
		bytes := strconv.FormatInt(int64(b.MemoryMiB)<<20, 10)
		all = append(all, setting{"memory.limit_in_bytes", bytes}, setting{"memory.max", bytes})
		if c.Swap {
			all = append(all, setting{"memory.memsw.limit_in_bytes", bytes}, setting{"memory.swap.max", "0"})
		}
	}
	if c.CPU { // its threads weigh as much as one group of the host's, however many they are
		all = append(all, setting{"cpu.shares", "1024"}, setting{"cpu.weight", "100"})
	}
	if c.Pids && b.Pids > 0 {
		all = append(all, setting{"pids.max", strconv.Itoa(b.Pids)})
	}
	if c.CPUSet && b.CPUs != "" {
		if c.Version == 1 { // a new group has no NUMA nodes there, and takes no process
			text, _ := os.ReadFile(filepath.Join(root, "cpuset.mems"))
			all = append(all, setting{"cpuset.mems", strings.TrimSpace(string(text))})
		}
		all = append(all, setting{"cpuset.cpus", b.CPUs})
	}
	return all
}

// Limits reads back those in force.
func (c Cgroups) Limits(name string) substrate.Limits {
	limits := substrate.Limits{CPU: "unlimited", Memory: "unlimited"}
	// Version 1 says "no limit" with a number near the largest there is.
	if n, err := strconv.ParseInt(c.Read(name, "memory.limit_in_bytes", "memory.max"), 10, 64); err == nil && n < 1<<60 {
		limits.Memory = fmt.Sprintf("%d MiB", n>>20)
	}
	quota := c.Read(name, "cpu.cfs_quota_us") + " " + c.Read(name, "cpu.cfs_period_us")
	if c.Version == 2 {
		quota = c.Read(name, "cpu.max")
	}
	var allowed, period float64
	if n, _ := fmt.Sscan(quota, &allowed, &period); n == 2 && allowed > 0 && period > 0 {
		limits.CPU = strconv.FormatFloat(allowed/period, 'g', 3, 64) + " cpus"
	}
	return limits
}

// OutOfMemory counts the processes that the kernel killed at the node's memory limit.
func (c Cgroups) OutOfMemory(name string) int {
	fields := strings.Fields(c.Read(name, "memory.oom_control", "memory.events"))
	if i := slices.Index(fields, "oom_kill"); i >= 0 && i+1 < len(fields) {
		n, _ := strconv.Atoi(fields[i+1])
		return n
	}
	return 0
}

// Frozen says that somebody has frozen the group; we never do.
func (c Cgroups) Frozen(name string) bool {
	state := c.Read(name, "freezer.state", "cgroup.freeze")
	return state != "" && state != "THAWED" && state != "0"
}

// Thaw lets the group's processes run, or die.
func (c Cgroups) Thaw(name string) error {
	for _, dir := range c.Dirs(name) {
		for file, text := range map[string]string{"freezer.state": "THAWED", "cgroup.freeze": "0"} {
			err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				return fmt.Errorf("thaw control group: %w", err)
			}
		}
	}
	return nil
}

// Read returns the first of the files that any of the group's directories has.
func (c Cgroups) Read(name string, files ...string) string {
	for _, dir := range c.Dirs(name) {
		for _, file := range files {
			if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				return strings.TrimSpace(string(text))
			}
		}
	}
	return ""
}

// LimitPids sets how many processes and threads a group may have; one that has gone is no error.
func (c Cgroups) LimitPids(name string, most int64) error { return c.set(name, "pids.max", most) }

// Weigh sets what a group weighs where CPUs are asked for by more than they can do for, as a part of what groups usually weigh
// (cgroups(7), CPU); one that has gone is no error.
func (c Cgroups) Weigh(name string, part float64) error {
	return errors.Join(c.set(name, "cpu.shares", max(2, int64(part*1024))), c.set(name, "cpu.weight", max(1, int64(part*100))))
}

// BoundSockets lets what a group's sockets hold take a quarter of the memory that it may have, beside that: version 1 does not
// count it as memory, as version 2 does. One that has gone is no error.
func (c Cgroups) BoundSockets(name string) error {
	memory, err := strconv.ParseInt(c.Read(name, "memory.limit_in_bytes"), 10, 64)
	if page := int64(os.Getpagesize()); err == nil && memory < 1<<60 { // a number near the largest there is: none
		return c.set(name, "memory.kmem.tcp.limit_in_bytes", memory/4/page*page)
	}
	return nil
}

// set writes a number into a group's file, in each hierarchy that has it, unless it is there.
func (c Cgroups) set(name, file string, to int64) error {
	for _, dir := range c.Dirs(name) {
		path := filepath.Join(dir, file)
		text, err := os.ReadFile(path)
		if value := strconv.FormatInt(to, 10); err == nil && strings.TrimSpace(string(text)) != value {
			err = os.WriteFile(path, []byte(value), 0)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("limit a control group: %w", err)
		}
	}
	return nil
}

// Processes lists those in the group and in groups below it.
func (c Cgroups) Processes(name string) ([]int, error) {
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

// Remove removes the group and those below it; its processes have ended, though the kernel may need a moment to see it.
func (c Cgroups) Remove(ctx context.Context, name string) error {
	var dirs []string
	if err := c.walk(name, func(dir string) error { dirs = append(dirs, dir); return nil }); err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		err := Until(ctx, 2*time.Second, func() (bool, error) {
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
func (c Cgroups) walk(name string, visit func(dir string) error) error {
	for _, root := range c.Dirs(name) {
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
