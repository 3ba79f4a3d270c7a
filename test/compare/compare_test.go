// Package compare_test puts Muster's figures beside those of the bare programs on the same work, in one run: `make
// compare`. Figures are medians with their range; what counts is the ratio. Elsewhere each comparison runs at its smallest.
package compare_test

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// samples are figures of one thing, in one unit.
type samples []float64

func (s samples) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (s samples) String() string {
	return fmt.Sprintf("%.2f (%.2f–%.2f)", s.median(), slices.Min(s), slices.Max(s))
}

// row is one line of the table: ours beside the peer's.
type row struct {
	what, unit, peer string
	ours, theirs     samples
	bound            string
}

type table struct{ rows []row }

// results are the rows of all comparisons.
var results table

// add takes a row. One that has no value on either side has measured nothing, and is a failure.
func (t *table) add(tb testing.TB, r row) {
	tb.Helper()
	none := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) || v <= 0 }
	for _, side := range []struct {
		who string
		samples
	}{{"muster", r.ours}, {r.peer, r.theirs}} {
		if len(side.samples) == 0 || slices.ContainsFunc(side.samples, none) {
			tb.Errorf("%s: a figure of %s is no value: %v", r.what, side.who, []float64(side.samples))
			return
		}
	}
	t.rows = append(t.rows, r)
	fmt.Printf("%-34s %8s   muster %-24s %s %-24s ratio %.3f   %s\n", r.what, r.unit, r.ours, r.peer, r.theirs,
		r.ours.median()/r.theirs.median(), r.bound)
}

func (t *table) markdown() string {
	text := "| what | unit | n | Muster: median (range) | peer | peer: median (range) | ratio | wanted |\n| --- | --- | --- | " +
		"--- | --- | --- | --- | --- |\n"
	for _, r := range t.rows {
		text += fmt.Sprintf("| %s | %s | %d | %s | %s | %s | %.3f | %s |\n", r.what, r.unit, len(r.ours), r.ours, r.peer,
			r.theirs, r.ours.median()/r.theirs.median(), r.bound)
	}
	return text
}

// number reads "name 12.3" out of a program's output.
func number(t *testing.T, name, output string) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + `.*? ([0-9.]+)\s*$`).FindStringSubmatch(output)
	if found == nil {
		t.Fatalf("no %s in\n%s", name, output)
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// script runs one of the baseline's scripts on the same image.
func script(t *testing.T, image, work, name string, args ...string) string {
	t.Helper()
	c := command(t, append([]string{filepath.Join(rig.Root(t), "test/baseline", name)}, args...)...)
	// Nothing of this environment may reach the programs, as nothing of it reaches a node: a variable like
	// OPENBLAS_CORETYPE makes another program of the same file.
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/"}, "IMAGE="+filepath.Join(image, "root.squashfs"), "WORK="+work)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func TestCompare(t *testing.T) {
	testall.Only(t)
	image := rig.Image(t)
	r := rig.New(t, "")
	watch := rig.WatchPrograms(t)
	controller := r.Start()
	most := 0
	for _, s := range size.starts {
		most = max(most, s.nodes)
	}
	r.Run("machines", "add", "--local", strconv.Itoa(most+1), "--wait")
	for _, s := range size.starts {
		start(t, r, controller, watch, image, s.nodes, s.runs)
	}
	overhead(t, r, image)
	arrays(t, r, image)
}

// start measures from the command to all nodes idle in Slurm, ours and by hand in turn: how long it takes, the time of
// processors, and programs started. By hand there are no accounts of jobs; a third start in each turn has them.
func start(t *testing.T, r *rig.Rig, c *rig.Controller, watch *rig.Programs, image string, nodes, runs int) {
	var ours, accounted, theirs cost
	one := func(accounting string) (seconds, cpu, job float64, programs map[string]int) {
		file := r.File("start.yaml", fmt.Sprintf("name: start\nnodes: %d\naccounting: %s\n", nodes, accounting))
		watch.Forget()
		before, begin := c.CPU(), time.Now()
		r.Run("create", "-f", file, "--wait")
		took, spent := time.Since(begin), c.CPU()-before
		programs = watch.Started(t)
		idle := strings.TrimSpace(r.Run("ssh", "start", "--", "sinfo -h -t idle -o %D"))
		if idle != strconv.Itoa(nodes) {
			t.Fatalf("%s of %d nodes are idle", idle, nodes)
		}
		begin = time.Now()
		r.Run("ssh", "start", "--", fmt.Sprintf("srun --mpi=pmix -N%d -n%d -O mpi-sweep --short barrier 1 0", nodes, max(nodes, 2)))
		ran := time.Since(begin)
		r.Run("delete", "start", "--wait")
		return took.Seconds(), spent.Seconds(), (took + ran).Seconds(), programs
	}
	for range runs {
		theirs.add(startByHand(t, watch, image, nodes))
		ours.add(one("none"))
		accounted.add(one("full"))
	}
	what := fmt.Sprintf("cluster start, 1 + %d", nodes)
	results.add(t, row{what: what, unit: "s", peer: "by hand", ours: ours.seconds, theirs: theirs.seconds,
		bound: "at most 1.3"})
	results.add(t, row{what: what + ", and its first MPI job", unit: "s", peer: "by hand", ours: ours.job, theirs: theirs.job})
	results.add(t, row{what: what + ", CPU", unit: "s", peer: "by hand", ours: ours.cpu, theirs: theirs.cpu,
		bound: "at most 1.3"})
	results.add(t, row{what: what + ", programs", unit: "", peer: "by hand", ours: ours.programs, theirs: theirs.programs})
	results.add(t, row{what: what + ", with accounts of jobs", unit: "s", peer: "without", ours: accounted.seconds,
		theirs: ours.seconds, bound: "at most 1.0 s more"})
	results.add(t, row{what: what + ", with accounts of jobs, CPU", unit: "s", peer: "without", ours: accounted.cpu,
		theirs: ours.cpu})
	fmt.Printf("programs of the last start: muster %v\n                            by hand %v\n", ours.last, theirs.last)
}

// cost is what starts took.
type cost struct {
	seconds, cpu, job, programs samples
	last                        map[string]int
}

func (c *cost) add(seconds, cpu, job float64, programs map[string]int) {
	count := 0
	for _, n := range programs {
		count += n
	}
	c.seconds, c.cpu, c.job = append(c.seconds, seconds), append(c.cpu, cpu), append(c.job, job)
	c.programs, c.last = append(c.programs, float64(count)), programs
}

// startByHand is one start by hand, measured when its nodes are idle; job is from its begin to the end of the first MPI job.
func startByHand(t *testing.T, watch *rig.Programs, image string, nodes int) (took, cpu, job float64, programs map[string]int) {
	t.Helper()
	c := command(t, filepath.Join(rig.Root(t), "test/baseline/by-hand.sh"), strconv.Itoa(nodes))
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "HOLD=1", "IMAGE=" + filepath.Join(image, "root.squashfs"),
		"WORK=" + t.TempDir()}
	c.Stderr = os.Stderr
	hold, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	watch.Forget()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(said)
	line, err := out.ReadString('\n')
	if err == nil {
		var spent time.Duration
		spent, err = rig.CPUOfProcess(c.Process.Pid)
		cpu = (spent + rig.CPUOfGroups(fmt.Sprintf("byhand%d", c.Process.Pid))).Seconds()
	}
	programs = watch.Started(t)
	delete(programs, "cat") // those that hold it; there may be one less of them
	var ran string
	if err == nil {
		_, err = hold.Write([]byte("\n"))
	}
	if err == nil {
		ran, err = out.ReadString('\n')
	}
	_ = hold.Close()
	if err := errors.Join(err, c.Wait()); err != nil {
		t.Fatalf("by hand: %v: %s", err, line)
	}
	took = number(t, "cluster_start_seconds", line)
	return took, cpu, took + number(t, "first_job_seconds", ran), programs
}

// overhead measures a program on a node and on the bare host in turn: the same file of the same image.
func overhead(t *testing.T, r *rig.Rig, image string) {
	r.Run("create", "-f", r.File("native.yaml", "name: native\nnodes: 1\n"), "--wait")
	for _, c := range []struct{ what, unit, name, command string }{
		{fmt.Sprintf("native overhead, HPL N=%d", size.order), "GFLOP/s", "hpl_gflops", fmt.Sprintf("hpl %d", size.order)},
		{"native overhead, STREAM triad", "GB/s", "triad_gbs", "stream-triad"},
	} {
		var ours, theirs samples
		for range size.programs {
			theirs = append(theirs, number(t, c.name, script(t, image, t.TempDir(), "native.sh", strings.Fields(c.command)...)))
			ours = append(ours, number(t, c.name, r.Run("ssh", "native", "--", "srun", "-N1", "-n1", c.command)))
		}
		results.add(t, row{what: c.what, unit: c.unit, peer: "host", ours: ours, theirs: theirs, bound: "at least 0.97"})
	}
	r.Run("delete", "native", "--wait")
}

// arrays measures how many jobs of one second a cluster of three nodes runs in a second, ours with accounts of jobs and by hand
// without.
func arrays(t *testing.T, r *rig.Rig, image string) {
	text, err := os.ReadFile(filepath.Join(rig.Root(t), "test/baseline/array.sh"))
	if err != nil {
		t.Fatal(err)
	}
	r.Run("create", "-f", r.File("array.yaml", fmt.Sprintf("name: array\nnodes: %d\n", size.arrayNodes)), "--wait")
	nodes, jobs := strconv.Itoa(size.arrayNodes), strconv.Itoa(size.arrayJobs)
	var ours, theirs samples
	for range size.arrays {
		theirs = append(theirs, number(t, "jobs_per_second", script(t, image, t.TempDir(), "by-hand.sh", nodes, jobs)))
		said := r.Run("ssh", "array", "--", "bash -s "+jobs+" <<'END'\n"+string(text)+"END")
		ours = append(ours, number(t, "jobs_per_second", said))
	}
	results.add(t, row{what: fmt.Sprintf("an array of %s one-second jobs on %s nodes", jobs, nodes), unit: "1/s", peer: "by hand",
		ours: ours, theirs: theirs, bound: "at least 0.95"})
	r.Run("delete", "array", "--wait")
}
