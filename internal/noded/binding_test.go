package noded

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/internal/kit/testall"
	"muster/internal/protocol"
)

// TestNodesWithCPUsOfTheirOwnBindTasks has a node that is said to have CPUs of its own and one that shares them, in one cluster.
func TestNodesWithCPUsOfTheirOwnBindTasks(t *testing.T) {
	testall.Only(t)
	r := newRack(t)
	f := r.controller
	head, n1, n2 := testPeer("head", 0, protocol.Head), testPeer("n1", 1, protocol.Compute), testPeer("n2", 2, protocol.Compute)
	n1.OwnCPUs, n1.MemoryMiB, n2.Queue = true, 8192, "shared"
	r.setCPUs(t)
	for _, p := range []protocol.Peer{head, n1, n2} {
		r.plug(t, p)
	}
	queues := []protocol.Queue{{Name: "cpu", Default: true}, {Name: "shared"}}
	r.configure(1, queues, head, n1, n2)
	for _, p := range []protocol.Peer{head, n1, n2} {
		r.boot(t, p)
	}
	f.until(t, "two idle nodes", func() bool {
		return f.scheduler("n1").State == protocol.NodeFree && f.scheduler("n2").State == protocol.NodeFree
	})

	// cpus are those that each of a command's tasks may use, in words that grep prints.
	const own = "grep Cpus_allowed_list /proc/self/status"
	cpus := func(out string) []string {
		var lists []string
		for line := range strings.Lines(out) {
			if list, found := strings.CutPrefix(line, "Cpus_allowed_list:"); found {
				lists = append(lists, strings.TrimSpace(list))
			}
		}
		slices.Sort(lists)
		return lists
	}
	single := func(lists []string) bool {
		return len(lists) == 2 && lists[0] != lists[1] && !slices.ContainsFunc(lists, func(s string) bool {
			return strings.ContainsAny(s, ",-")
		})
	}
	whole := cpus(r.ssh(t, head, own))[0]
	if !strings.ContainsAny(whole, ",-") {
		t.Skipf("needs two CPUs, and this host gives %s", whole)
	}
	for _, options := range []string{"", "--cpu-bind=verbose,cores "} {
		out := r.ssh(t, head, "srun -n2 "+options+own+" 2>&1")
		t.Logf("srun -n2 %s\n%s", options, out)
		if !single(cpus(out)) || options != "" && strings.Count(out, " set\n") != 2 {
			t.Errorf("two tasks are bound so: %s", out)
		}
	}
	if out := r.ssh(t, head, "for i in 1 2; do srun -n1 sh -c '"+own+"; sleep 2' & done; wait"); !single(cpus(out)) {
		t.Errorf("two jobs at a time are bound so: %s", out)
	}
	out := r.ssh(t, head, "srun -n1 -c2 --cpu-bind=verbose "+own+" 2>&1")
	if got := cpus(out); len(got) != 1 || !strings.ContainsAny(got[0], ",-") {
		t.Errorf("a task of two CPUs is bound so: %s", out)
	}
	if r.cpusets != "" {
		// Of two mpirun at a time the second could take the first one's core, as Open MPI counts from 0 what it may use. Each has
		// a folder of its own: Open MPI 4 fails now and then where one of a user's makes /tmp/ompi.… while another removes it.
		if out := r.ssh(t, head, "for i in 1 2; do mkdir t$i; TMPDIR=~/t$i salloc -Q -n1 mpirun sh -c '"+own+
			"; sleep 2' & done; wait"); !single(cpus(out)) {
			t.Errorf("two jobs with mpirun are bound so: %s", out)
		}
		if out := r.ssh(t, head, "salloc -Q -n2 mpirun "+own); !single(cpus(out)) {
			t.Errorf("mpirun binds its ranks so: %s", out)
		}
		if out := r.ssh(t, head, "srun -n1 sh -c 'taskset -p ffff $$ >&2; "+own+"' 2>&1"); strings.Contains(cpus(out)[0], whole) {
			t.Errorf("a job leaves its CPUs: %s", out)
		}
	}
	out = r.ssh(t, head, "srun -p shared -n2 --cpu-bind=verbose,cores "+own+" 2>&1")
	if !slices.Equal(cpus(out), []string{whole, whole}) || strings.Contains(out, "lacks support") {
		t.Errorf("on a node that shares its CPUs: %s", out)
	}

	// Memory goes with the CPUs, or as asked for.
	for _, c := range []struct{ job, want string }{
		{"srun -n1", "mem=3712M"}, {"srun -n2", "mem=7424M"}, {"srun -n1 --mem=100", "mem=100M"},
		{"srun -n1 --mem=0", "mem=7424M"},
		{"srun -p shared -n1", "mem=1000M"},
	} {
		if out := r.ssh(t, head, c.job+" sh -c 'scontrol show job $SLURM_JOB_ID | grep TRES=' | uniq"); !strings.Contains(out,
			c.want+",") {
			t.Errorf("%s: %s, want %s", c.job, out, c.want)
		}
	}
	if out := r.ssh(t, head, "srun -n1 --mem=8000 true 2>&1 || true"); !strings.Contains(out,
		"Memory specification can not be satisfied") {
		t.Errorf("more memory than any node has: %q", out)
	}

	// A job goes on while slurmctld takes up a new share of memory, by a restart if it is an old one, and so do its steps.
	r.ssh(t, head, "printf '#!/bin/sh\nuntil [ -e ~/go ]; do sleep 0.2; done\nsrun -n2 "+own+"\n' > j.sh")
	r.ssh(t, head, "sbatch -n2 -o out j.sh; sbatch -n1 --wrap true")
	f.until(t, "a job on n1", func() bool { return f.scheduler("n1").Jobs == 1 })
	n2.MemoryMiB = 1500
	r.configure(2, queues, head, n1, n2)
	f.until(t, "the new configuration", func() bool { return f.reports["head"].Revision == 2 })
	f.until(t, "slurmctld is back", func() bool { return f.scheduler("n1").Jobs == 1 })
	const shown = "scontrol show partition shared"
	r.ssh(t, head, "for i in $(seq 100); do "+shown+" | grep -q 'DefMemPerCPU=750 ' && exit 0; sleep 0.2; done; "+shown+
		"; exit 1")
	r.ssh(t, head, "touch go; until [ -z \"$(squeue -h)\" ]; do sleep 0.2; done")
	if out := r.ssh(t, head, "cat out"); !single(cpus(out)) {
		t.Errorf("a step after that is bound so: %s", out)
	}
}

// setCPUs gives nodes with CPUs of their own a part of the host's hierarchy of CPU sets, where it has one of the first version.
func (r *rack) setCPUs(t *testing.T) {
	t.Helper()
	const host = "/sys/fs/cgroup/cpuset"
	if _, err := os.Stat(host + "/cpuset.cpus"); err != nil {
		t.Logf("jobs are not confined to their CPUs here: %v", err)
		return
	}
	r.cpusets = filepath.Join(host, r.net)
	r.sh(t, "mkdir %[1]s && for f in cpus mems; do cat %[2]s/cpuset.$f > %[1]s/cpuset.$f || exit; done", r.cpusets, host)
	t.Cleanup(func() { r.sh(t, "find %s -depth -type d -exec rmdir {} ';'", r.cpusets) })
}
