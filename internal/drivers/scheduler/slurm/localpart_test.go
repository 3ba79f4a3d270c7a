package slurm

import (
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
}

func TestHowTasksAreBoundIsSettledBeforeSlurmdStarts(t *testing.T) {
	own := protocol.Peer{Name: "n1", Role: protocol.Compute, OwnCPUs: true}
	for _, c := range []struct {
		name string
		self protocol.Peer
		sets bool
		want string
	}{
		{"CPUs of its own", own, true, "TaskPlugin=task/cgroup,task/affinity\n"},
		{"a kernel without CPU sets", own, false, "TaskPlugin=task/affinity\n"},
		{"CPUs of others too", protocol.Peer{Name: "n1", Role: protocol.Compute}, true, "TaskPlugin=task/none\n"},
	} {
		l := &localPart{files: schedulertest.NewFiles(t)}
		if c.sets {
			if _, err := l.files.Write(scheduler.CPUSets+"/cpuset.cpus", []byte("0-3\n"), 0o644, ""); err != nil {
				t.Fatal(err)
			}
		}
		for _, self := range []protocol.Peer{c.self, {Name: "n1", Role: protocol.Compute, OwnCPUs: !c.self.OwnCPUs}} {
			if err := l.want(&protocol.Config{Self: self}); err != nil {
				t.Fatal(err)
			}
			if text, err := l.files.Read(localFile); err != nil || !strings.Contains(text, c.want) {
				t.Errorf("%s: %q, %v; want %s", c.name, text, err, c.want)
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
