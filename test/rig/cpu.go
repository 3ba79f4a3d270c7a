package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CPU is the time of processors that this rig has taken so far: its controller, the agent of its host, what the two have
// started and waited for, all commands, and the nodes that there are now. Where the host has no control groups those of nodes
// are missing.
func (c *Controller) CPU() time.Duration {
	c.rig.Helper()
	var commands syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &commands); err != nil {
		c.rig.Fatal(err)
	}
	spent := time.Duration(commands.Utime.Nano() + commands.Stime.Nano())
	for _, pid := range append(c.Agents(), c.Process.Pid) {
		own, err := CPUOfProcess(pid)
		if err != nil {
			c.rig.Fatal(err)
		}
		spent += own
	}
	return spent + CPUOfGroups(markOf(filepath.Join(c.rig.Data, "local"))+"*")
}

// CPUOfProcess is what a process and those that it has waited for have taken.
func CPUOfProcess(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // from the third on, proc_pid_stat(5)
	// utime, stime, cutime, cstime; USER_HZ is 100
	const first, tick = 14 - 3, 10 * time.Millisecond
	var ticks time.Duration
	for _, field := range fields[first : first+4] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += time.Duration(n)
	}
	return ticks * tick, nil
}

// CPUOfGroups is what the processes of control groups have taken, of both versions.
func CPUOfGroups(pattern string) time.Duration {
	var spent time.Duration
	first, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup/cpuacct", pattern, "cpuacct.usage"))
	for _, file := range first {
		if text, err := os.ReadFile(file); err == nil {
			n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			spent += time.Duration(n)
		}
	}
	second, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", pattern, "cpu.stat"))
	for _, file := range second {
		if text, err := os.ReadFile(file); err == nil {
			_, usage, _ := strings.Cut(string(text), "usage_usec ")
			n, _ := strconv.ParseInt(strings.Fields(usage + " 0")[0], 10, 64)
			spent += time.Duration(n) * time.Microsecond
		}
	}
	return spent
}
