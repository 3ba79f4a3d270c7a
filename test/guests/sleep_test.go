package guests_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// A cluster of virtual machines sleeps for longer than Slurm would wait for its nodes, and a job on both of them goes on.
func TestAJobGoesOnAfterItsClusterHasSlept(t *testing.T) {
	testall.Only(t)
	r := rig.New(t, "")
	r.Flags = []string{"--local-hypervisor"}
	r.Start()
	r.Run("machines", "add", "--local", "1", "--wait")
	hypervisor := regexp.MustCompile(`(\S+-hv) +vm +available .* 0 of \d+ cores, .*, 0 guests`)
	r.Until("the hypervisor is available", func() bool {
		return hypervisor.MatchString(r.Run("machines", "list"))
	})
	r.Run("create", "-f", filepath.Join(rig.Root(t), "examples/vm.yaml"), "--wait")

	// Each rank counts on its own node and tells of it, and of the time there, in the common file.
	rank := "for ((i = 1; ; i++)); do [ -e stop ] && exit; echo $(hostname) $i $(date +%s); sleep 1; done"
	r.Run("ssh", "vm", "--", "printf '%s\n' '#!/bin/bash' '"+rank+
		"' > rank && chmod +x rank && sbatch -N2 -t 20 -o counts.out --wrap 'srun -N2 ./rank; srun -N2 hostname && echo over'")
	counts := func() (counts, clocks map[string]int) {
		counts, clocks = map[string]int{}, map[string]int{}
		for line := range strings.Lines(r.Run("ssh", "vm", "--", "cat counts.out 2>/dev/null || true")) {
			if words := strings.Fields(line); len(words) == 3 {
				counts[words[0]], _ = strconv.Atoi(words[1])
				clocks[words[0]], _ = strconv.Atoi(words[2])
			}
		}
		return counts, clocks
	}
	beyond := func(n1, n2 int) func() bool {
		return func() bool {
			c, _ := counts()
			return c["n1"] > n1 && c["n2"] > n2
		}
	}
	r.Until("both ranks count", beyond(3, 3))

	start := time.Now()
	t.Log(r.Run("pause", "vm", "--on-jobs", "keep", "--wait"))
	t.Logf("asleep after %.1f s", time.Since(start).Seconds())
	if out := r.Run("describe", "vm"); len(
		regexp.MustCompile(`(?m)^n\d +main +pending .* suspended: its memory takes`).FindAllString(out, -1)) != 2 {
		t.Errorf("its nodes do not sleep:\n%s", out)
	}
	memories, err := filepath.Glob(filepath.Join(r.Data, "guests/guests/*/*/memory"))
	if err != nil || len(memories) != 2 {
		t.Errorf("memories on disk: %v, %v", memories, err)
	}
	for _, path := range memories {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v)", path, info.Mode(), err)
		}
	}
	time.Sleep(90 * time.Second) // slurmctld gives nodes up that are silent for 60 s

	start = time.Now()
	t.Log(r.Run("resume", "vm", "--wait"))
	t.Logf("awake after %.1f s", time.Since(start).Seconds())
	before, _ := counts()
	r.Until("both count on", beyond(before["n1"]+5, before["n2"]+5)) // by then their clocks are set
	now, clocks := counts()
	for _, node := range []string{"n1", "n2"} {
		if off := time.Since(time.Unix(int64(clocks[node]), 0)).Abs(); off > 30*time.Second || now[node] > 10*before[node]+200 {
			t.Errorf("%s counts %d, after %d, and its clock is wrong by %s", node, now[node], before[node], off)
		}
	}
	job := r.Run("ssh", "vm", "--", "scontrol -o show job 1")
	if !strings.Contains(job, "JobState=RUNNING") || !strings.Contains(job, "Restarts=0") {
		t.Errorf("the job is %s", job)
	}
	if limit := regexp.MustCompile(`TimeLimit=00:(\d\d):00`).FindStringSubmatch(job); limit == nil || limit[1] < "22" {
		t.Errorf("it has not got back the time that it slept: %v in %s", limit, job)
	}
	if left, _ := filepath.Glob(filepath.Join(r.Data, "guests/guests/*/*/memory*")); len(left) > 0 {
		t.Errorf("memories are left on disk: %v", left)
	}
	r.Run("ssh", "vm", "--", "touch stop")
	r.Until("the job ends", func() bool {
		return strings.HasSuffix(r.Run("ssh", "vm", "--", "cat counts.out; squeue -h"), "over\n")
	})
	r.Run("delete", "vm", "--wait")
}
