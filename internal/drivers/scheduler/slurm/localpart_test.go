package slurm

import (
	"strings"
	"testing"

	"muster/internal/drivers/scheduler"
	"muster/internal/drivers/scheduler/schedulertest"
	"muster/internal/inventory"
	"muster/internal/protocol"
)

func TestAddressesAreWithheldWhileSlurmdStarts(t *testing.T) {
	a := &localPart{files: schedulertest.NewFiles(t)}
	named := func(want ...string) {
		t.Helper()
		text, err := a.files.Read(localFile)
		if err != nil || text == "" || strings.Count(text, "NodeName=") != len(want) {
			t.Fatalf("%q, %v; want %v", text, err, want)
		}
		for _, name := range want {
			if !strings.Contains(text, "NodeName="+name+" ") {
				t.Errorf("%q lacks %s", text, name)
			}
		}
	}
	want := func(names ...string) {
		t.Helper()
		var peers []protocol.Peer
		for _, name := range names {
			peers = append(peers, protocol.Peer{Name: name, Address: "10.77.0.9", Role: protocol.Compute})
		}
		if err := a.want(&protocol.Config{Peers: peers}); err != nil {
			t.Fatal(err)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want("n1") // before slurmd's first start: slurm.conf includes the file, so that it must be there
	named()
	do(a.give())
	named("n1")
	want("n1", "n2")
	named("n1", "n2")
	do(a.withhold())
	named()
	want("n1")
	named()
	do(a.give())
	named("n1")
	a.slurm = version{24, 11, 5}
	want("n1")
	named()
}

func TestHowJobsAreConfinedIsSettledBeforeSlurmdStarts(t *testing.T) {
	const v1, v2 = scheduler.CPUSets + "/cpuset.cpus", scheduler.ControlGroups + "/cgroup.controllers"
	all := map[string]string{v1: "0-3\n", v2: "cpu io memory\n"}
	late := map[string]string{v2: "cpuset cpu io memory\n"}
	old, now := version{22, 5, 8}, version{24, 11, 5}
	for _, c := range []struct {
		name         string
		own          bool
		there        map[string]string
		slurm        version
		task, cgroup string
		watched      bool
	}{
		{"CPUs of its own", true, all, now, "task/cgroup,task/affinity", "cgroup/v1", true},
		{"a kernel with cgroup v2 alone", true, late, now, "task/cgroup,task/affinity", "cgroup/v2", false},
		{"and a Slurm that needs systemd for it", true, late, old, "task/affinity", "cgroup/v1", true},
		{"a kernel without CPU sets", true, map[string]string{v2: "cpu\n"}, now, "task/affinity", "cgroup/v1", true},
		{"CPUs of others too", false, all, now, "task/none", "cgroup/v1", true},
		{"and cgroup v2", false, late, now, "task/none", "cgroup/v1", true},
	} {
		l := &localPart{files: schedulertest.NewFiles(t), slurm: c.slurm}
		for name, text := range c.there {
			if _, err := l.files.Write(name, []byte(text), 0o644, ""); err != nil {
				t.Fatal(err)
			}
		}
		for _, own := range []bool{c.own, !c.own} { // what is said later comes too late
			self := protocol.Peer{Name: "n1", Role: protocol.Compute, OwnCPUs: own}
			if err := l.want(&protocol.Config{Self: self}); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{localFile: "TaskPlugin=" + c.task, groupsFile: "CgroupPlugin=" + c.cgroup} {
				text, err := l.files.Read(name)
				if err != nil || !strings.Contains(text, want+"\n") {
					t.Errorf("%s: %q, %v; want %s", c.name, text, err, want)
				}
				if name == localFile && strings.Contains(text, "OverMemoryKill\n") != c.watched {
					t.Errorf("%s: its memory is watched: %v", c.name, !c.watched)
				}
			}
		}
	}
}

func TestASocketOfSeveralMemoryNodesIsDivided(t *testing.T) {
	core := func(p, node int) inventory.Core { return inventory.Core{Package: p, NUMA: node} }
	for _, c := range []struct {
		name   string
		layout inventory.Layout
		want   bool
	}{
		{"not known", nil, false},
		{"one", inventory.Layout{core(0, 0), core(0, 0)}, false},
		{"one a socket", inventory.Layout{core(0, 0), core(1, 1)}, false},
		{"two a socket", inventory.Layout{core(0, 0), core(0, 1), core(1, 2), core(1, 3)}, true},
		{"one of two sockets", inventory.Layout{core(0, 0), core(1, 0)}, false},
		{"across", inventory.Layout{core(0, 0), core(0, 1), core(1, 1), core(1, 2)}, false},
	} {
		if got := divided(c.layout); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
