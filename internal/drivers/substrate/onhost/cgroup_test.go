package onhost

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree is a folder that looks like groups of a name do, with one file of the kernel's each.
func tree(t *testing.T, c *Cgroups, name string, hierarchies map[string][]string) {
	t.Helper()
	top := t.TempDir()
	for hierarchy, files := range hierarchies {
		root := filepath.Join(top, hierarchy)
		c.roots = append(c.roots, root)
		for _, file := range append(files, "cgroup.procs") {
			for _, dir := range []string{root, filepath.Join(root, c.Path(name))} {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte("0\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	slices.Sort(c.roots)
}

func TestAProcessIsEnclosedInBothVersions(t *testing.T) {
	bounds := Bounds{MemoryMiB: 2, Pids: 7, CPUs: "1-2"}
	for _, c := range []struct {
		groups      Cgroups
		hierarchies map[string][]string
		want        map[string]string
	}{
		{Cgroups{Version: 2, Memory: true, CPU: true, Swap: true, Pids: true, CPUSet: true, prefix: "p"},
			map[string][]string{"": {"memory.max", "memory.swap.max", "pids.max", "cpuset.cpus", "cpuset.mems", "cpu.weight"}},
			map[string]string{"memory.max": "2097152", "memory.swap.max": "0", "pids.max": "7", "cpuset.cpus": "1-2",
				"cpuset.mems": "0", "cpu.weight": "100", "cgroup.procs": "42"}},
		{Cgroups{Version: 1, Memory: true, CPU: true, Pids: true, CPUSet: true, prefix: "p"},
			map[string][]string{"memory": {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"},
				"cpu": {"cpu.shares"}, "cpuset": {"cpuset.cpus", "cpuset.mems"}},
			map[string]string{"memory.limit_in_bytes": "2097152", "memory.memsw.limit_in_bytes": "0", "cpuset.cpus": "1-2",
				"cpuset.mems": "0", "cpu.shares": "1024", "cgroup.procs": "42"}},
		{Cgroups{Version: 2, Memory: true, prefix: "p"},
			map[string][]string{"": {"memory.max", "pids.max", "cpuset.cpus"}},
			map[string]string{"memory.max": "2097152", "pids.max": "0", "cpuset.cpus": "0", "cgroup.procs": "42"}},
	} {
		t.Run(fmt.Sprint(c.groups), func(t *testing.T) {
			tree(t, &c.groups, "n", c.hierarchies)
			if err := c.groups.Enclose("n", 42, bounds); err != nil {
				t.Fatal(err)
			}
			for file, want := range c.want {
				if got := c.groups.Read("n", file); got != want {
					t.Errorf("%s has %q, want %q", file, got, want)
				}
			}
			if got := c.groups.Limits("n").Memory; got != "2 MiB" {
				t.Errorf("the limit of memory reads %q", got)
			}
		})
	}
}

func TestAGroupOfThisHostHoldsAProcess(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("control groups need root")
	}
	c, err := DetectCgroups("muster-test-onhost")
	if err != nil || !c.Memory {
		t.Skip("this host lets no control groups be made: ", c, err)
	}
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
		if err := c.Remove(context.Background(), "n"); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		if err := c.Enclose("n", sleeper.Process.Pid, Bounds{MemoryMiB: 32, Pids: 8, CPUs: "0"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Limits("n").Memory; got != "32 MiB" {
		t.Errorf("its memory is limited to %s", got)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", sleeper.Process.Pid))
	if err != nil || !strings.Contains(string(text), c.Path("n")) {
		t.Errorf("it is in %s: %v", text, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", sleeper.Process.Pid))
	if err != nil || c.CPUSet && !strings.Contains(string(status), "Cpus_allowed_list:\t0\n") {
		t.Errorf("it may run where it should not: %s %v", status, err)
	}
}
