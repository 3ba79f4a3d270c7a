package slurm

import (
	"context"
	"errors"
	"strings"
	"testing"

	"muster/internal/drivers/scheduler"
	"muster/internal/drivers/scheduler/schedulertest"
	"muster/internal/inventory"
	"muster/internal/noded/protocol"
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
	do(a.settle(version{24, 11, 5}))
	named()
}

func TestHowJobsAreConfinedIsSettledBeforeSlurmdStarts(t *testing.T) {
	const v1, v2 = scheduler.CPUSets + "/cpuset.cpus", scheduler.ControlGroups + "/cgroup.controllers"
	all := map[string]string{v1: "0-3\n", v2: "cpu io memory\n"}
	late := map[string]string{v2: "cpuset cpu io memory\n"}
	for _, c := range []struct {
		name         string
		own          bool
		there        map[string]string
		slurm        string
		task, cgroup string
	}{
		{"CPUs of its own", true, all, "24.11.5", "task/cgroup,task/affinity", "cgroup/v1"},
		{"a kernel with cgroup v2 alone", true, late, "24.11.5", "task/cgroup,task/affinity", "cgroup/v2"},
		{"and a Slurm that needs systemd for it", true, late, "22.05.8", "task/affinity", "cgroup/v1"},
		{"a kernel without CPU sets", true, map[string]string{v2: "cpu\n"}, "24.11.5", "task/affinity", "cgroup/v1"},
		{"CPUs of others too", false, all, "24.11.5", "task/none", "cgroup/v1"},
		{"and cgroup v2", false, late, "24.11.5", "task/none", "cgroup/v1"},
	} {
		l := &localPart{files: schedulertest.NewFiles(t)}
		d := &driver{local: l, Control: Control{func(context.Context, ...string) ([]byte, error) {
			return []byte("slurm-wlm " + c.slurm + "\n"), nil
		}}}
		for name, text := range c.there {
			if _, err := l.files.Write(name, []byte(text), 0o644, ""); err != nil {
				t.Fatal(err)
			}
		}
		for _, own := range []bool{c.own, !c.own} { // what is said later comes too late
			self := protocol.Peer{Name: "n1", Role: protocol.Compute, OwnCPUs: own}
			if err := errors.Join(l.want(&protocol.Config{Self: self}), d.settle(t.Context())); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{localFile: "TaskPlugin=" + c.task, groupsFile: "CgroupPlugin=" + c.cgroup} {
				if text, err := l.files.Read(name); err != nil || !strings.Contains(text, want+"\n") {
					t.Errorf("%s: %q, %v; want %s", c.name, text, err, want)
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
