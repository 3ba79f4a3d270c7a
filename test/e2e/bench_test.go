package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// TestAMachineThatBecomesSlowerIsNamed by what runs have measured, once four of them show it: its node gets a twentieth of a CPU.
// Tests beside it make all nodes slower or faster, too, and what comes of that is no machine's fault.
func TestAMachineThatBecomesSlowerIsNamed(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	r.Start()
	r.AddRecipe("spin", rig.Spin)
	r.Run("machines", "add", "--local", "3", "--wait")
	r.Run("create", "-f", r.File("hello.yaml", "name: hello\nnodes: 2\n"), "--wait")
	r.Undisturbed("hello", "n1", "n2")
	run := func(times int) {
		for range times {
			r.Run("bench", "run", "hello", "--suite", "spin", "--rounds", "1", "--wait")
		}
	}
	run(9)
	var c struct {
		ID    string
		Nodes []struct{ Name, Machine string }
	}
	r.Get(&c, "get", "hello")
	machine := ""
	for _, n := range c.Nodes {
		if n.Name == "n2" {
			machine = n.Machine
		}
	}
	slowDownNode(r, c.ID, r.Node("hello", "n2"))
	run(4)
	var changes struct {
		Items []struct {
			ID, Machine, Quantity, Text string
			Worse                       bool
		}
	}
	r.Get(&changes, "bench", "changes")
	id := ""
	for _, one := range changes.Items {
		if one.Machine == machine && one.Quantity == "count" && one.Worse {
			id = one.ID
		}
	}
	if id == "" {
		t.Fatalf("nobody names %s: %+v, %s", machine, changes.Items, r.Run("bench", "history", "hello", "--machine", machine,
			"-o", "json"))
	}
	t.Log(r.Run("bench", "changes"), r.Run("bench", "history", "hello"), r.Run("status"))
	if out := r.Run("events", "hello"); !strings.Contains(out, "machine "+machine+": count of spin is ") {
		t.Errorf("no event says so:\n%s", out)
	}
	alarmed := func() bool { return strings.Contains(r.Run("status"), "`muster bench changes` shows them") }
	if !alarmed() {
		t.Errorf("no alarm says so: %s", r.Run("status"))
	}
	for _, one := range changes.Items {
		r.Run("bench", "accept", one.ID)
	}
	if alarmed() {
		t.Errorf("what was accepted is an alarm: %s", r.Run("status"))
	}
	r.Run("delete", "hello", "--wait")
	r.NothingLeft()
}

// TestARunGoesOnWithoutItsHeadANodeAndWhoWatches: it runs in a reservation, a rank that hangs has its time, a lost head costs no
// round, a lost node is named and its round is done again, and of a run that is watched no longer no job is left once cancelled.
func TestARunGoesOnWithoutItsHeadANodeAndWhoWatches(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	r.Start()
	r.AddRecipe("spin", rig.Spin)
	const read = "read: [{quantity: q, lines: '^q (?P<value>.*)', unit: s, better: lower}]\n"
	for name, run := range map[string]string{
		"hangs": "srun -N {{nodes}} -n {{nodes}} bash -c '((SLURM_PROCID == 0)) || exec sleep 600'; echo q 1",
		"long":  "srun -N {{nodes}} -n {{nodes}} sleep 25 || exit; echo q 1",
	} {
		r.AddRecipe(name, fmt.Sprintf("recipe: %s\nabout: A test\nseconds: 0.5\nrun: |\n  %s\n%s", name, run, read))
	}
	r.Run("machines", "add", "--local", "4", "--wait")
	r.Run("create", "-f", r.File("hello.yaml", "name: hello\nnodes: 2\n"), "--wait")
	r.Undisturbed("hello", "n1", "n2")
	jobs := func(of string) string { return strings.TrimSpace(r.Run("ssh", "hello", "--", of)) }
	var run struct {
		ID, Outcome, Reason string
		Now                 *struct{ Recipe string }
		Ended               int `json:"rounds_ended"`
		Broken              int
	}
	show := func(id string) {
		run.ID, run.Outcome, run.Now = id, "", nil // what is absent in the answer stays as it was
		r.Get(&run, "bench", "show", id)
	}
	begin := func(suite string) {
		t.Helper()
		id := strings.TrimSpace(r.Run("bench", "run", "hello", "--suite", suite, "--rounds", "1"))
		run.Broken = 0
		r.Until("its step runs", func() bool { show(id); return run.Now != nil && run.Now.Recipe != "" })
		time.Sleep(2 * time.Second) // srun has begun
	}
	end := func() {
		t.Helper()
		r.Until("it has ended", func() bool { show(run.ID); return run.Outcome != "" })
	}

	head, account := r.Node("hello", "head"), jobs("whoami")
	out := head.Inside("scontrol create reservation reservationname=mine nodes=n1 starttime=now duration=60 users=" + account)
	if !strings.Contains(out, "Reservation created") {
		t.Fatal(out)
	}
	r.Run("bench", "run", "hello", "--suite", "spin", "--nodes", "1", "--rounds", "1", "--reservation", "mine", "--wait")
	r.Until("the job was in the reservation", func() bool { return jobs("sacct -nX -a -o reservation%20") == "mine" })
	head.Inside("scontrol delete reservationname=mine")

	if out := r.Muster("bench", "run", "hello", "--suite", "hangs", "--rounds", "1", "--wait"); out.Code != 1 ||
		!strings.Contains(out.Out+out.Err, "it had not ended after ") {
		t.Errorf("a rank that hangs: %+v", out)
	}

	begin("long")
	time.Sleep(8 * time.Second) // its scheduler has saved that the job runs; else it would know nothing of it
	head.KillAll()
	end()
	if run.Outcome != "ok" || run.Ended != 1 || run.Broken != 0 {
		t.Errorf("the head was lost: %+v", run)
	}
	if after := r.Node("hello", "head"); after.PID == head.PID {
		t.Error("the head is the same")
	}

	begin("long")
	r.Node("hello", "n2").KillAll()
	end()
	if shown := r.Run("bench", "show", run.ID); run.Ended < 2 || run.Broken == 0 || !strings.Contains(shown, "n2 was lost: ") {
		t.Errorf("a node was lost: %+v\n%s", run, shown)
	}

	begin("long")
	watch := exec.CommandContext(t.Context(), r.Binary, "bench", "run", "hello", "--suite", "long", "--rounds", "1", "--wait")
	watch.Env = append(os.Environ(), "MUSTER_DATA="+r.Data, "MUSTER_URL=", "MUSTER_TOKEN="+r.Token)
	var said strings.Builder
	watch.Stderr = &said
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	r.Until("two runs are there", func() bool { return strings.Count(r.Run("bench", "runs", "hello"), " long ") == 4 })
	time.Sleep(time.Second)
	if err := watch.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = watch.Wait()
	goesOn := regexp.MustCompile("(b[0-9a-z]+) goes on").FindStringSubmatch(said.String())
	if goesOn == nil {
		t.Fatalf("who stops watching is told %q", said.String())
	}
	r.Run("bench", "cancel", run.ID)
	r.Run("bench", "cancel", goesOn[1])
	r.Until("no job is left", func() bool { return jobs("squeue -h") == "" })
	r.Run("delete", "hello", "--wait")
	r.NothingLeft()
}

// TestEverySuiteRuns whole, in its shortened form: those of papers on one node and on more.
func TestEverySuiteRuns(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	r.Start()
	r.Run("machines", "add", "--local", "4", "--wait")
	r.Run("create", "-f", r.File("hello.yaml", "name: hello\nnodes: 2\n"), "--wait")
	r.Run("scale", "hello", "3", "--wait")
	r.Run("pause", "hello", "--wait")
	r.Run("resume", "hello", "--wait")
	var ids []string
	for suite, want := range map[string][]string{ // what must be there of each, or why it is not
		"paper-000": {"kernels integer-index nodes=1", "kernels overlap nodes=3", "stream-kernels copy nodes=2",
			"mpi-io read nodes=3", "udp lost nodes=2", "tcp tcp nodes=3", "messages both-ways nodes=3"},
		"paper-002": {"hpcc hpl nodes=1", "hpcc ping-pong-latency nodes=2", "hpcc ring-bandwidth nodes=3",
			"flops-mix flops nodes="},
		"paper-001": {"tcp tcp-together nodes=", "ucx latency nodes=", "hpcc hpl nodes=1", "hpcc hpl nodes=2",
			"messages latency nodes=", "collectives barrier nodes=3", "collectives alltoall nodes=2", "fs-mark files nodes=",
			"rdma: there is no file /sys/class/infiniband/*: no InfiniBand and no RoCE here"},
		"muster":    {"happened took nodes=", "happened node nodes=", "launch launch nodes=1", "launch launch nodes=3"},
		"paper-003": {"hpcc hpl nodes=3", "dgemm dgemm nodes=2", "messages latency nodes="},
		"paper-004": {"lammps-lj steps nodes=3", "lammps-eam steps nodes=1", "lammps-water steps nodes=2",
			"lammps-lj-gpu: there is no file /dev/nvidia*: no GPU here",
			"lammps-rhodo: there is no file ~/data.rhodo: copy it from the folder bench of LAMMPS' source, which is not in the image"},
		"compute": {"dgemm dgemm nodes=", "stream triad nodes=", "hpcc hpl nodes="},
		"network": {"messages latency nodes=", "collectives alltoall nodes=", "tcp tcp nodes="},
		"storage": {"home write nodes=", "files create nodes=", "files stat nodes=", "files delete nodes=", "random read nodes=",
			"random write nodes="},
		"hpl": {"hpcc hpl nodes="},
	} {
		r.Run("bench", "run", "hello", "--suite", suite, "--brief", "--wait")
		var runs struct {
			Items []struct{ ID, Outcome string }
		}
		r.Get(&runs, "bench", "runs", "hello", "--suite", suite)
		var run struct {
			Steps    map[string]int
			Problems []struct{ Recipe, Reason string }
			Series   []struct {
				Recipe, Quantity   string
				Parameters, Labels map[string]string
				Rounds             []struct{ Samples int }
			}
		}
		r.Get(&run, "bench", "show", runs.Items[0].ID)
		if len(runs.Items) != 1 || runs.Items[0].Outcome != "ok" || run.Steps["ok"] == 0 {
			t.Fatalf("%s: %+v %+v", suite, runs.Items, run)
		}
		found := map[string]int{}
		for _, s := range run.Problems {
			found[s.Recipe+": "+s.Reason]++
		}
		for _, s := range run.Series {
			found[s.Recipe+" "+s.Quantity+" nodes="+s.Parameters["nodes"]] += s.Rounds[0].Samples
		}
		for _, one := range want {
			if n := found[one]; n == 0 || n > 1 && strings.Contains(one, ": ") {
				t.Errorf("%s: there is no %s in %v", suite, one, found)
			}
		}
		if strings.HasPrefix(suite, "paper-") || suite == "muster" {
			ids = append(ids, runs.Items[0].ID)
		}
		if suite == "paper-000" && found["tcp tcp nodes=3"] != 2*found["tcp tcp nodes=2"] {
			t.Errorf("not all nodes have received: %v", found)
		}
	}
	page := r.Run(append([]string{"bench", "report", "--papers", "-f", "-"}, ids...)...)
	for _, want := range []string{"Low et al.", "here: hello, 3 nodes of ", "six are the fewest",
		"Nothing is beside it: there is no file"} {
		if !strings.Contains(page, want) {
			t.Errorf("the papers' page has no %q", want)
		}
	}
	r.Run("delete", "hello", "--wait")
	r.NothingLeft()
}

// slowDownNode gives a node a twentieth of a CPU.
func slowDownNode(r *rig.Rig, cluster string, n rig.Node) {
	r.Helper()
	in, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", n.PID))
	if err != nil {
		r.Fatal(err)
	}
	for _, group := range groups(cluster) {
		if strings.Contains(string(in), filepath.Base(group)) && limitCPU(group, 5000) {
			return
		}
	}
	r.Fatalf("no group of %v is in %s", groups(cluster), in)
}
