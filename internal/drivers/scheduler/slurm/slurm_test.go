package slurm

import (
	stdcmp "cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/internal/drivers/scheduler"
	"muster/internal/drivers/scheduler/schedulertest"
	"muster/internal/protocol"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestSlurmConfIsTheGoldenOne(t *testing.T) {
	got := Render(Cluster{
		Name: "cfd", Head: "cfd", HeadAddress: "10.77.0.1", StateDir: "/home/.muster/slurmctld", SpoolDir: "/var/spool/slurmd",
		Local:  "/run/muster/addresses.conf",
		Queues: []protocol.Queue{{Name: "cpu", Default: true}, {Name: "gpu"}}, Memory: map[string]int{"cpu": 1920},
		Asks: true,
	})
	golden := filepath.Join("testdata", "slurm.conf")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

func TestNodeConfLeavesOutWhatIsUnknown(t *testing.T) {
	for _, c := range []struct {
		peer protocol.Peer
		gpus []GPU
		want string
	}{
		{protocol.Peer{CPUs: 2, MemoryMiB: 4000, Queue: "cpu"}, nil, "CPUs=2 RealMemory=4000 Feature=cpu"},
		{protocol.Peer{Queue: "cpu"}, []GPU{{Model: "NVIDIA A40"}, {}, {Model: "NVIDIA A40"}},
			"Gres=gpu:a40:2,gpu:1 Feature=cpu"},
		{protocol.Peer{MemoryMiB: 16384, OwnCPUs: true, Queue: "cpu"}, nil, "RealMemory=15360 Feature=cpu"},
		{protocol.Peer{Queue: "cpu"}, nil, "Feature=cpu"},
		{protocol.Peer{}, nil, ""},
	} {
		if got := NodeConf(c.peer, c.gpus, 0); got != c.want {
			t.Errorf("%+v: %q, want %q", c.peer, got, c.want)
		}
	}
	if got := NodeConf(protocol.Peer{CPUs: 2, Queue: "cpu"}, nil, 51200); got != "CPUs=2 TmpDisk=51200 Feature=cpu" {
		t.Error(got)
	}
}

func TestNodesOfARealSlurmAreRead(t *testing.T) {
	size := protocol.Size{CPUs: 2, Threads: 1, Memory: 2000}
	n1 := nodeLine{protocol.NodeState{Name: "n1", Raw: "mixed", Responding: true, Reason: "muster: drain",
		LastBusy: "2026-11-21T05:48:41", Size: size}, true}
	n2 := nodeLine{protocol.NodeState{Name: "n2", Raw: "mixed", Responding: true, LastBusy: "2026-11-21T05:49:13",
		Size: size}, false}
	for file, want := range map[string][]nodeLine{
		"nodes.txt": {n1, n2, {protocol.NodeState{Name: "n3", Raw: "allocated", Responding: true,
			LastBusy: "2026-11-21T05:48:43", Size: size}, false}},
		"down.txt": {n1, n2, {protocol.NodeState{Name: "n3", Raw: "down", Responding: true, Reason: "dead disk = bad State=IDLE",
			LastBusy: "2026-11-21T05:49:14", Size: size}, false}},
	} {
		got, err := parseNodes(read(t, file))
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(got, func(a, b nodeLine) int { return strings.Compare(a.Name, b.Name) })
		if !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", file, got, want)
		}
	}
}

func TestWhatWordsMarksAndFlagsOfAStateMean(t *testing.T) {
	for _, c := range []struct {
		state, reason string
		jobs          int
		want          protocol.State
		raw           string
		responding    bool
	}{
		{"IDLE", "", 0, protocol.NodeFree, "idle", true},
		{"IDLE", "", 1, protocol.NodeBusy, "idle", true}, // it began between two questions
		{"IDLE*", "", 0, protocol.NodeFree, "idle", false},
		{"MIXED", "", 1, protocol.NodeBusy, "mixed", true},
		{"ALLOCATED+COMPLETING", "", 1, protocol.NodeBusy, "allocated", true},
		{"ALLOCATED", "", 0, protocol.NodeBusy, "allocated", true}, // its job ended between two questions
		{"IDLE+DRAIN+DYNAMIC_NORM", "muster: drain", 0, protocol.NodeDrained, "idle", true},
		{"IDLE+DRAIN+DYNAMIC_NORM", "muster: drain", 1, protocol.NodeDraining, "idle", true},
		{"MIXED*+DRAIN", "disk", 0, protocol.NodeDraining, "mixed", false},
		{"DOWN*+DRAIN+DYNAMIC_NORM", "Not responding", 0, protocol.NodeDrained, "down", false},
		{"DOWN*", "Not responding", 0, protocol.NodeLost, "down", false},
		{"DOWN", "Not responding", 0, protocol.NodeDown, "down", true},
		{"DOWN*", "bad disk", 0, protocol.NodeDown, "down", false},
		{"UNKNOWN+NOT_RESPONDING", "", 0, protocol.NodeUnknown, "unknown", false},
		{"FUTURE", "", 0, protocol.NodeUnknown, "future", true},
		{"IDLE+MAINTENANCE+POWERED_DOWN+X~", "", 0, protocol.NodeFree, "idle", true},
		{"IDLE+DYNAMIC_NORM", "muster: has a new boot", 0, protocol.NodeFree, "idle", true},
		{"MIXED+DYNAMIC_NORM", "disk", 1, protocol.NodeBusy, "mixed", true},
	} {
		line := "NodeName=n Arch=x86_64 State=" + c.state + " ThreadsPerCore=1"
		if c.reason != "" {
			line += " Reason=" + c.reason + " [root@2026-11-21T05:48:41] Comment=joined"
		}
		got, err := parseNodes(line)
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: %+v %v", c.state, got, err)
		}
		got[0].Jobs = c.jobs
		if c.want == protocol.NodeFree || c.want == protocol.NodeBusy { // and the reason is one of the past
			c.reason = ""
		}
		if state := got[0].state(); state != c.want || got[0].Raw != c.raw || got[0].Responding != c.responding ||
			got[0].Reason != c.reason {
			t.Errorf("%s, %d jobs: %s, and %+v", c.state, c.jobs, state, got[0])
		}
	}
}

// A node that is only asked to reboot still has jobs, and may get more.
func TestANodeRebootsOnceSlurmHasToldItTo(t *testing.T) {
	for state, want := range map[string]bool{
		"IDLE+REBOOT_ISSUED+DYNAMIC_NORM": true, "IDLE^": true, "DOWN*+REBOOT_ISSUED": true,
		"MIXED+REBOOT_REQUESTED": false, "MIXED@": false, "IDLE": false,
	} {
		got, err := parseNodes("NodeName=n Arch=x86_64 State=" + state + " ThreadsPerCore=1 Reason=Reboot ASAP")
		if err != nil || len(got) != 1 || got[0].Reboots != want || want && got[0].Usable() {
			t.Errorf("%s: %+v %v", state, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range []string{"nodes.txt", "down.txt", "jobs.txt"} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("NodeName=n State=IDLE*+DRAIN Reason=x [root@now]")
	f.Add(pending(1, "statecompact=R", "nodelist=n[1-3,07]b[1],c", "numnodes=1K"))
	f.Add(fmt.Sprintf(request77, "NumNodes=2-3 TRES=cpu=8,node=1", "TresPerNode=gres:gpu:a40:1"))
	f.Fuzz(func(t *testing.T, text string) {
		nodes, _ := parseNodes(text)
		for _, n := range nodes {
			if n.Name == "" || strings.ContainsAny(n.Name, " \n") || strings.ContainsAny(n.Raw, " \n+") {
				t.Errorf("%+v", n)
			}
		}
		q, _ := parseJobs(text, time.Now())
		if first, total := bounded(q.waiting); len(first) > protocol.MostWaiting || len(first) > total {
			t.Errorf("%d jobs of %d", len(first), total)
		}
		if r, _, err := parseRequest(text, version{24, 11, 5}); err == nil && min(r.Nodes, r.CPUs, r.CPUMemory, r.GPUs) < 0 {
			t.Errorf("%+v", r)
		}
	})
}

// script answers commands by their text.
type script map[string]error

func (s script) Run(_ context.Context, argv ...string) ([]byte, error) {
	return nil, s[strings.Join(argv, " ")]
}

func TestControlTellsBusyFromUnknown(t *testing.T) {
	c := Control{script{
		"scontrol delete nodename=n1": errors.New("delete_node nodename=n1: Requested nodes are busy"),
		"scontrol delete nodename=n2": errors.New("delete_node nodename=n2: Invalid node name specified"),
	}.Run}
	for node, want := range map[string]error{"n1": ErrBusy, "n2": ErrUnknown, "n3": nil} {
		if err := c.Delete(t.Context(), node); !errors.Is(err, want) {
			t.Errorf("%s: %v", node, err)
		}
	}
}

func TestAJobThatMayNotBeQueuedAgainIsCancelled(t *testing.T) {
	refused := errors.New("Requested operation is presently disabled for job 4")
	broken := errors.New("broken")
	if err := (Control{script{"scontrol requeue 4": refused}.Run}).End(t.Context(), 4); err != nil {
		t.Error(err)
	}
	if err := (Control{script{"scontrol requeue 4": refused, "scancel 4": broken}.Run}).End(t.Context(), 4); err == nil ||
		!strings.Contains(err.Error(), "cancel job 4") {
		t.Error(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// nodes is a slurmctld with one job on n1: it answers scontrol and squeue, and notes what changes.
type nodes struct {
	busy  bool
	lines []string
	jobs  string // "": job 7 waits
	log   []string
}

func (s *nodes) run(_ context.Context, argv ...string) ([]byte, error) {
	line := strings.Join(argv, " ")
	switch {
	case strings.HasPrefix(line, "scontrol show nodes"):
		return []byte(strings.Join(s.lines, "\n")), nil
	case line == "scontrol --version":
		return []byte("slurm-wlm 24.11.5\n"), nil
	case strings.Contains(line, "squeue"):
		return []byte(stdcmp.Or(s.jobs, pending(7))), nil
	case strings.HasPrefix(line, "scontrol show job"):
		return fmt.Appendf(nil, request77, "NumNodes=1", ""), nil
	}
	s.log = append(s.log, strings.TrimPrefix(line, "scontrol "))
	switch {
	case s.busy && strings.HasPrefix(line, "scontrol delete"):
		return nil, errors.New("delete_node nodename=n1: Requested nodes are busy")
	case strings.Contains(line, "state=down"):
		s.busy = false
	case strings.HasPrefix(line, "scontrol release"), strings.Contains(line, "admincomment="):
		return nil, errors.New("Requested partition configuration not available now for job 7") // and it has done so
	}
	return nil, nil
}

func TestANodeWithJobsIsDeclaredDeadBeforeItIsForgotten(t *testing.T) {
	s := &nodes{busy: true}
	host := schedulertest.Host(schedulertest.NewFiles(t))
	host.Run = s.run
	if err := open(host).Remove(t.Context(), "n1"); err != nil {
		t.Error(err)
	}
	want := []string{"delete nodename=n1", "update nodename=n1 state=down reason=muster: removed", "delete nodename=n1"}
	if !slices.Equal(s.log, want) {
		t.Errorf("%q", s.log)
	}
}

func TestJobsThatWaitAreLookedAtWhenANodeComes(t *testing.T) {
	s := &nodes{lines: []string{"NodeName=n1 Arch=x86_64 State=IDLE X=1", "NodeName=n2 Arch=x86_64 State=IDLE* X=1"}}
	host := schedulertest.Host(schedulertest.NewFiles(t))
	host.Run, host.Listening = s.run, func(int) bool { return true }
	d := open(host)
	for _, state := range []string{"IDLE*", "IDLE", "IDLE"} {
		s.lines[1] = "NodeName=n2 Arch=x86_64 State=" + state + " X=1"
		view, err := d.Observe(t.Context())
		if err != nil || len(view.Nodes) != 2 || view.Nodes[0].State != protocol.NodeFree || view.Total != 1 {
			t.Fatalf("%+v, %v", view, err)
		}
	}
	if want := []string{"update nodename=n1 comment=joined", "update nodename=n2 comment=joined"}; !slices.Equal(s.log, want) {
		t.Errorf("%q", s.log)
	}
}

func TestJobsThatTheScriptHasHeldAreReleased(t *testing.T) {
	s := &nodes{lines: []string{"NodeName=n1 Arch=x State=IDLE CPUTot=2 RealMemory=900",
		"NodeName=n2 Arch=x State=IDLE CPUTot=4 RealMemory=800", "NodeName=g1 Arch=x State=IDLE CPUTot=8",
		"NodeName=gone Arch=x State=IDLE CPUTot=8"}}
	host := schedulertest.Host(schedulertest.NewFiles(t))
	host.Run, host.Listening = s.run, func(int) bool { return true }
	d := open(host)
	config := &protocol.Config{Self: protocol.Peer{Role: protocol.Head}, Queues: []protocol.Queue{
		{Name: "cpu", Default: true, Most: 3}, {Name: "gpu", Most: 1}, {Name: "empty", Most: 2}, {Name: "old", Closed: true}},
		Peers: []protocol.Peer{{Name: "head", Role: protocol.Head}}}
	for name, queue := range map[string]string{"n1": "cpu", "n2": "cpu", "g1": "gpu"} {
		config.Peers = append(config.Peers, protocol.Peer{Name: name, Role: protocol.Compute, Queue: queue})
	}
	room := func(want string) {
		t.Helper()
		if got, err := host.Files.Read(roomFile); got != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	observe := func(jobs string) {
		t.Helper()
		s.jobs = jobs
		if _, err := d.Observe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.log = nil
	if err := d.room.want(config); err != nil {
		t.Fatal(err)
	}
	room("cpu 1 0 0 3 0 0\ngpu 0 0 0 1 0 0\nempty 0 0 0 2 0 0\n") // Slurm was not asked yet
	const one, held = "admin_comment=max_nodes=1,tasks=0", "reason=JobHeldUser"
	observe(pending(6, one, held) + pending(7, held) + pending(8, one+heldMark, held) +
		pending(9, one+heldMark, "reason=PartitionConfig") + pending(12, "admin_comment=max_nodes=0,tasks=9"+heldMark, held) +
		pending(11, "arrayjobid=10", one+heldMark, held) + pending(10, "arrayjobid=10", one+heldMark, held))
	room("cpu 1 2 6 3 4 900\ngpu 0 1 8 1 8 0\nempty 0 0 0 2 0 0\n")
	if want := []string{"release 8,12,10", "update jobid=12 admincomment=max_nodes=0,tasks=9",
		"update jobid=8,9,10 admincomment=max_nodes=1,tasks=0"}; !slices.Equal(s.log[:3], want) {
		t.Errorf("%q, want %q", s.log, want)
	}
	if err := d.Remove(t.Context(), "n2"); err != nil {
		t.Error(err)
	}
	room("cpu 1 1 2 3 2 900\ngpu 0 1 8 1 8 0\nempty 0 0 0 2 0 0\n")
	config.Queues[0].Most = 1
	if err := d.room.want(config); err != nil {
		t.Error(err)
	}
	room("cpu 1 1 2 1 2 900\ngpu 0 1 8 1 8 0\nempty 0 0 0 2 0 0\n")
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]bool{"slurm-wlm 22.05.8\n": false, "slurm 23.11.10": false, "slurm-wlm 24.11.0": true,
		"slurm-wlm 24.11.5": true, "slurm 25.05.0-rc1": true} {
		if v, err := parseVersion(text); err != nil || v.byTasks() != want {
			t.Errorf("%q: %v, %v", text, v, err)
		}
	}
	for _, text := range []string{"", "slurm", "slurm-wlm 24.11.x", "slurm-wlm 24..1"} {
		if v, err := parseVersion(text); err == nil {
			t.Errorf("%q is version %v", text, v)
		}
	}
}

func TestSlurmctldStartsAnewForTheFirstSwitch(t *testing.T) {
	for _, c := range []struct {
		slurm version
		stale []scheduler.Stale
		tree  bool
	}{{version{22, 5, 8}, nil, false}, {version{24, 11, 5}, []scheduler.Stale{{Daemon: slurmctld}}, true}} {
		files := schedulertest.NewFiles(t)
		d := open(schedulertest.Host(files))
		d.slurm = c.slurm
		config := &protocol.Config{Cluster: "a", Self: protocol.Peer{Name: "head", Role: protocol.Head},
			Peers: []protocol.Peer{{Name: "head", Role: protocol.Head}, {Name: "n1", Role: protocol.Compute}}}
		if _, err := d.Apply(config); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"n2", "n3"} {
			config.Peers = append(config.Peers, protocol.Peer{Name: name, Role: protocol.Compute, Leaf: "leaf", LeafNumber: 1})
			stale, err := d.Apply(config)
			if want := c.stale[:max(0, len(c.stale)-i)]; err != nil || !slices.Equal(stale, want) {
				t.Errorf("Slurm %v, %s: %v, %v, want %v", c.slurm, name, stale, err, want)
			}
		}
		text, err := files.Read(localFile)
		if err != nil || strings.Contains(text, "TopologyPlugin=topology/tree") != c.tree {
			t.Errorf("Slurm %v: %q, %v", c.slurm, text, err)
		}
	}
}

func TestSlurmctldReadsANewQueueOrStartsAnewForIt(t *testing.T) {
	d := open(schedulertest.Host(schedulertest.NewFiles(t)))
	config := &protocol.Config{Cluster: "a", Self: protocol.Peer{Name: "head", Role: protocol.Head},
		Peers: []protocol.Peer{{Name: "head", Role: protocol.Head}}}
	for i, c := range []struct {
		slurm version
		reads bool
	}{{nil, false}, {version{22, 5, 8}, false}, {version{24, 11, 5}, true}} {
		d.slurm = c.slurm
		config.Queues = append(config.Queues, protocol.Queue{Name: fmt.Sprintf("queue-%c", 'a'+i)})
		stale, err := d.Apply(config)
		if want := (scheduler.Stale{Daemon: slurmctld, Reads: c.reads}); err != nil || !slices.Contains(stale, want) {
			t.Errorf("Slurm %v: %v, %v, want %v", c.slurm, stale, err, want)
		}
		if stale, err := d.Apply(config); err != nil || len(stale) > 0 {
			t.Errorf("Slurm %v, the same again: %v, %v", c.slurm, stale, err)
		}
	}
}
