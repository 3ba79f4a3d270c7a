package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/test/rig"
)

// growthSite has two classes that differ in memory, and short limits.
const growthSite = `
site: home
defaults: {project: default, image: debian13-hpc, class: fast, head_class: service}
classes:
  - {name: fast, select: ["substrate = local", "memory_mib >= 4096"]}
  - {name: slow, select: ["substrate = local", "memory_mib < 4096"]}
  - {name: service, select: ["substrate = local"]}
`

// jobWithin is how long a job may wait for an empty queue's nodes.
const jobWithin = 15 * time.Second

func TestAQueueGrowsForItsJobsAndShrinksWhenTheyAreDone(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	r.Site = r.File("site.yaml", growthSite)
	controller := r.Start()
	r.Run("machines", "add", "--local", "5", "--wait")
	r.Run("machines", "add", "--local", "1", "--memory", "2GiB", "--wait")
	r.Run("create", "-f", r.File("grow.yaml", `
name: grow
queues:
  - {name: fixed, nodes: 1}
  - {name: cpu, max: 4, idle_after: 3s, or: [slow]}
`), "--wait")
	if got := r.Run("list"); !strings.Contains(got, "1/1") {
		t.Errorf("a head and one node are all that was promised:\n%s", got)
	}
	slurm := func(command string) string { return r.Run("ssh", "grow", "--", command) }
	gone := func() bool { // and their machines are free: else the next nodes may be of the other class
		var c cluster
		r.Get(&c, "get", "grow")
		return len(c.Nodes) == 2 && slurm("sinfo -h -N -p cpu -o %N") == "" &&
			strings.Count(r.Run("machines", "list"), " available ") == 4
	}

	t.Run("three nodes come for a job and go when they have been idle", func(t *testing.T) {
		r := r.In(t)
		seq := lastEvent(r)
		start := time.Now()
		slurm("sbatch -N3 -p cpu -o three.out --wrap 'srun hostname | sort'")
		r.Eventually(jobWithin, "the job has run", func() bool {
			return slurm("cat three.out 2>/dev/null || true") == "cpu1\ncpu2\ncpu3\n"
		})
		took := time.Since(start)
		r.Until("the nodes are gone", gone)
		t.Log(phases(eventsAfter(r, seq), start, took))
		if got := slurm("sinfo -h -p fixed -o '%D %T'"); got != "1 idle\n" {
			t.Errorf("the queue of fixed size: %q", got)
		}
	})
	t.Run("commands that wait in a terminal wait for nodes, too", func(t *testing.T) {
		r := r.In(t)
		for _, c := range [][2]string{
			{"srun -p cpu -N1 hostname", "cpu1\n"},
			{"salloc -p cpu -N2 srun hostname | sort", "cpu1\ncpu2\n"},
			// More than there is in any of two queues, and more memory than its nodes have.
			{"srun -p fixed,cpu -N3 hostname | sort", "cpu1\ncpu2\ncpu3\n"},
			{"srun -p cpu -n3 --mem-per-cpu=3G hostname | sort", "cpu1\ncpu2\ncpu3\n"},
		} {
			r.Until("the nodes are gone", gone)
			if got := slurm(c[0]); got != c[1] {
				t.Errorf("%s: %q", c[0], got)
			}
		}
	})
	t.Run("as many nodes come as a job's memory takes, and no more than an array's tasks that may run at once", func(t *testing.T) {
		r := r.In(t)
		r.Until("the nodes are gone", gone)
		seq := lastEvent(r)
		slurm("sbatch -n3 -p cpu --mem-per-cpu=3G -o memory.out --wrap 'srun hostname | sort'")
		r.Eventually(jobWithin, "the job has run on three nodes, as each has memory for one of its tasks", func() bool {
			return slurm("cat memory.out 2>/dev/null || true") == "cpu1\ncpu2\ncpu3\n"
		})
		r.Until("the nodes are gone", gone)
		slurm("sbatch --array=0-3%1 -c2 -p cpu -o array.out --open-mode=append --wrap hostname")
		r.Eventually(2*jobWithin, "all tasks have run", func() bool {
			return strings.Count(slurm("cat array.out 2>/dev/null || true"), "cpu1\n") == 4
		})
		var grown []string
		for _, e := range eventsAfter(r, seq) {
			if strings.Contains(e.Text, "grows from") {
				grown = append(grown, e.Text)
			}
		}
		slices.Sort(grown)
		want := []string{"queue cpu grows from 0 to 1 node", "queue cpu grows from 0 to 3 nodes"}
		if !slices.Equal(slices.Compact(grown), want) { // between two tasks the node may go and come again
			t.Errorf("%q", grown)
		}
	})
	t.Run("jobs that no node would help are told of and cost nothing", func(t *testing.T) {
		r := r.In(t)
		r.Until("the nodes are gone", gone)
		said := slurm("(sbatch -N5 -J big -p cpu --wrap hostname; sbatch -H -J held -p cpu --wrap hostname; sbatch -b now+1hour -J " +
			"later -p cpu --wrap hostname; sbatch --mem=5G -J big -p cpu --wrap hostname; srun -p fixed --mem=5G true || true) 2>&1")
		for _, want := range []string{"it asks for 5 nodes, but queue cpu may have 4",
			"it asks for 5120 MiB of memory on one node, but nodes of queue fixed have 4096"} {
			if strings.Count(said, want) != 1 {
				t.Errorf("who submits is not told once that %s: %s", want, said)
			}
		}
		r.Until("describe says why they wait", func() bool {
			out := r.Run("describe", "grow")
			return strings.Contains(out, "it asks for 5 nodes, but queue cpu may have 4") &&
				strings.Contains(out, "it asks for 5120 MiB of memory on one node, but nodes of queue cpu have 4096") &&
				strings.Contains(out, "Slurm says JobHeldUser") && strings.Contains(out, "Slurm says BeginTime")
		})
		if !gone() {
			t.Error("nodes came for jobs that cannot run")
		}
		slurm("scancel -n big,held,later; scancel -t pending")
	})
	t.Run("the next class does when the first is exhausted, and the controller may die meanwhile", func(t *testing.T) {
		whole, r := r, r.In(t)
		slurm("sbatch -N4 -p cpu -o four.out --wrap 'srun hostname | sort; sleep 8'")
		r.Eventually(jobWithin, "the queue grows", func() bool {
			return strings.Contains(r.Run("events", "grow"), "queue cpu grows from 0 to 4 nodes")
		})
		controller.Kill()
		controller = whole.Start()
		r.Eventually(2*jobWithin, "the job has run", func() bool {
			return slurm("cat four.out 2>/dev/null || true") == "cpu1\ncpu2\ncpu3\ncpu4\n"
		})
		if out := r.Run("describe", "grow"); !strings.Contains(out, "cpu (slow)") {
			t.Errorf("the last node is of no other class:\n%s", out)
		}
		slurm("sbatch -N1 -p cpu --exclusive -J next --wrap hostname")
		r.Until("a job is told that the queue is full", func() bool {
			out := r.Run("describe", "grow")
			return strings.Contains(out, "queue cpu has all that it may have") ||
				!strings.Contains(slurm("squeue -h -o %j"), "next")
		})
		controller.Kill()
		controller = whole.Start()
		r.Until("the nodes are gone", gone)
	})
	t.Run("its bounds can be changed", func(t *testing.T) {
		r := r.In(t)
		r.Run("scale", "grow", "cpu=1-2", "--wait")
		r.Until("the new min is there", func() bool { return slurm("sinfo -h -p cpu -o '%D %T'") == "1 idle\n" })
		r.Run("scale", "grow", "cpu=0-2", "--wait")
		r.Run("scale", "grow", "fixed=0", "--wait")
		r.Until("the head is alone", func() bool {
			var c cluster
			r.Get(&c, "get", "grow")
			return len(c.Nodes) == 1
		})
	})
	r.Run("delete", "grow", "--wait")
	r.NothingLeft()
	controller.Stop()
}

// phases says what happened between a job's submission and its end, and when.
func phases(events []event, start time.Time, took time.Duration) string {
	text := fmt.Sprintf("run after %.1f s:", took.Seconds())
	for _, e := range events {
		if e.Cluster == "grow" && (e.Node == "cpu1" || e.Node == "") {
			text += fmt.Sprintf("\n  %+6.2f s  %s %s %s", e.At.Sub(start).Seconds(), e.Node, e.Phase,
				strings.SplitN(e.Text, ":", 2)[0])
		}
	}
	return text
}

func TestLeasesBeginAndEndByThemselves(t *testing.T) {
	testall.Only(t)
	t.Parallel()
	r := rig.New(t, "")
	controller := r.Start()
	r.Run("machines", "add", "--local", "4", "--wait")
	file := func(name, lease string, nodes int) string {
		return r.File(name+".yaml", fmt.Sprintf("name: %s\nnodes: %d\nlease: %s\n", name, nodes, lease))
	}

	r.Run("create", "-f", file("course", "{start: +90s, for: 1h, on_end: delete}", 3))
	long := file("long", "{for: 1d}", 1)
	if got := r.Muster("create", "-f", long); got.Code != 3 || !strings.Contains(got.Err, "cluster course would lack") ||
		!strings.Contains(got.Err, "fits from") {
		t.Errorf("%+v", got)
	}
	var plan struct {
		FitsAt time.Time `json:"fits_at"`
	}
	r.Get(&plan, "plan", "-f", file("other", "{start: +2h, for: 1h}", 1))
	if ahead := time.Until(plan.FitsAt); ahead < 100*time.Minute || ahead > 2*time.Hour {
		t.Error(plan)
	}
	// Short leases fill the time before.
	start := time.Now()
	r.Run("create", "-f", file("goes", "{for: 30s, on_end: delete}", 1), "--wait")
	r.Run("create", "-f", file("stays", "{for: 30s, on_end: pause}", 1), "--wait")
	if got := r.Muster("extend", "stays", "--for", "1h"); got.Code != 3 || !strings.Contains(got.Err, "course") ||
		!strings.Contains(got.Err, "muster extend stays --until") {
		t.Errorf("%+v", got)
	}
	calendar, described := r.Run("calendar", "--to", "+2h"), r.Run("describe", "stays")
	t.Logf("\n%s", calendar)
	for _, want := range []string{"course 4 reserved", "goes 2, stays 2"} {
		if !strings.Contains(calendar, want) {
			t.Errorf("no %q", want)
		}
	}
	if !strings.Contains(described, "then pauses") {
		t.Error(described)
	}
	var list struct{ Items []cluster }
	r.Until("one has gone and the other has paused", func() bool {
		r.Get(&list, "list")
		for _, c := range list.Items {
			if c.Name == "goes" || c.Name == "stays" && c.Phase != "paused" {
				return false
			}
		}
		return true
	})
	t.Logf("both leases of 30 s had ended after %.1f s", time.Since(start).Seconds())
	if got := r.Muster("resume", "stays"); got.Code != 5 || !strings.Contains(got.Err, "muster extend stays") {
		t.Errorf("%+v", got)
	}
	r.Until("what was reserved has come", func() bool {
		return r.Muster("ssh", "course", "--", "sinfo -h -o %T").Out == "idle\n"
	})
	for _, name := range []string{"course", "stays"} {
		r.Run("delete", name, "--wait")
	}
	r.NothingLeft()
	controller.Stop()
}
