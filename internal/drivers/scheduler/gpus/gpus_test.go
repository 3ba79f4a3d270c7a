package gpus

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"muster/internal/drivers/scheduler"
	"muster/internal/drivers/scheduler/slurm"
)

// list is two nodes with four GPUs and one with none; the second node's come first.
const list = `# node gpu address cpus model
n2 0 r7/gpu4 0-7 NVIDIA A40
n2 1 r7/gpu5 8-15 NVIDIA A40
n1 0 r3/gpu0 0-31 AMD Instinct MI210
n1 1 r3/gpu1 - -
`

func read(t *testing.T) []GPU {
	t.Helper()
	all, err := Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRanksFillGPUsNodeByNode(t *testing.T) {
	var got []string
	for _, p := range Map(read(t), []Node{{"n1", 2}, {"n2", 4}, {"n3", 1}, {"n2", 1}}) {
		address := "none"
		if p.GPU != nil {
			address = p.GPU.Address
		}
		got = append(got, fmt.Sprintf("%d %s %s", p.Rank, p.Node, address))
	}
	want := []string{
		"0 n1 r3/gpu0", "1 n1 r3/gpu1",
		"2 n2 r7/gpu4", "3 n2 r7/gpu4", "4 n2 r7/gpu5", "5 n2 r7/gpu5",
		"6 n3 none", "7 n2 r7/gpu4",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNoGPUHasMoreThanOneRankMoreThanAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks, gpus := rapid.IntRange(1, 300).Draw(t, "ranks"), rapid.IntRange(1, 16).Draw(t, "gpus")
		loads, last := make([]int, gpus), 0
		for rank := range ranks {
			g := Share(rank, ranks, gpus)
			if g < last {
				t.Fatalf("rank %d is on GPU %d, and the one before it on %d", rank, g, last)
			}
			loads[g]++ // an index out of range fails, too
			last = g
		}
		least, most := loads[0], loads[0]
		for _, l := range loads {
			least, most = min(least, l), max(most, l)
		}
		if most-least > 1 {
			t.Fatalf("%d ranks on %d GPUs: %v", ranks, gpus, loads)
		}
	})
}

func TestARankIsToldOfItsGPU(t *testing.T) {
	all := read(t)
	for name, c := range map[string]struct {
		node, env string
		want      string // address, variable and value, or the error
	}{
		"Slurm's rank": {"n2",
			"SLURM_LOCALID=1 SLURM_NODEID=0 SLURM_STEP_NUM_NODES=2 SLURM_STEP_TASKS_PER_NODE=2(x2)",
			"r7/gpu5 CUDA_VISIBLE_DEVICES=1"},
		"Slurm's rank on another node": {"n2",
			"SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_STEP_NUM_NODES=2 SLURM_STEP_TASKS_PER_NODE=2,4",
			"r7/gpu4 CUDA_VISIBLE_DEVICES=0"},
		"Open MPI's rank under Slurm": {"n2",
			"SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE=1 OMPI_COMM_WORLD_LOCAL_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=4",
			"r7/gpu5 CUDA_VISIBLE_DEVICES=1"},
		"a GPU of AMD's": {"n1", "", "r3/gpu0 ROCR_VISIBLE_DEVICES=0"},
		"those that Slurm gave": {"n2", "SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE=1 CUDA_VISIBLE_DEVICES=1",
			"r7/gpu5 CUDA_VISIBLE_DEVICES=1"},
		"more of AMD's than the list has": {"n1", "ROCR_VISIBLE_DEVICES=7", " ROCR_VISIBLE_DEVICES=7"},
		"by its maker's name":             {"n2", "CUDA_VISIBLE_DEVICES=GPU-4f1a", " CUDA_VISIBLE_DEVICES=GPU-4f1a"},
		"a node without":                  {"n3", "", "this node has no GPUs; `muster gpus map` shows those of the cluster"},
		"a rank beyond those on its node": {"n2", "OMPI_COMM_WORLD_LOCAL_RANK=4 OMPI_COMM_WORLD_LOCAL_SIZE=4",
			`this is said to be rank "4" of "4" on its node, which is no number`},
		"Slurm does not say how many": {"n2", "SLURM_LOCALID=0",
			`this is said to be rank "0" of "" on its node, which is no number`},
	} {
		choice, err := Choose(schedulers(), Of(all, c.node), environment(c.env))
		got := fmt.Sprintf("%s %s=%s", choice.GPU.Address, choice.Name, choice.Seen)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestAJobIsReadFromSlurmsVariables(t *testing.T) {
	job, err := Job(schedulers(), environment("SLURM_JOB_NODELIST=n[1-2],g7 SLURM_TASKS_PER_NODE=8(x2),4"))
	if diff := cmp.Diff([]Node{{"n1", 8}, {"n2", 8}, {"g7", 4}}, job); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if job, err := Job(schedulers(), environment("")); job != nil || err != nil {
		t.Errorf("no job: %v %v", job, err)
	}
	for _, bad := range []string{"SLURM_TASKS_PER_NODE=", "SLURM_TASKS_PER_NODE=1", "SLURM_TASKS_PER_NODE=1(x3)",
		"SLURM_TASKS_PER_NODE=1,x", "SLURM_TASKS_PER_NODE=-1(x2)"} {
		if job, err := Job(schedulers(), environment("SLURM_JOB_NODELIST=n[1-2] "+bad)); err == nil {
			t.Errorf("%s: %v", bad, job)
		}
	}
}

func environment(text string) func(string) string {
	return func(name string) string {
		for _, word := range strings.Fields(text) {
			if value, ok := strings.CutPrefix(word, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

func FuzzListAndJob(f *testing.F) {
	f.Add(list, "n[1-2]", "8(x2)", "0")
	f.Add("n1 0 a b", "n[", "1(x", "1,,2")
	f.Fuzz(func(t *testing.T, text, nodes, tasks, given string) {
		all, _ := Parse(text)
		env := func(name string) string {
			return map[string]string{"SLURM_JOB_NODELIST": nodes, "SLURM_TASKS_PER_NODE": tasks,
				"SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_LOCALID": "0", "CUDA_VISIBLE_DEVICES": given}[name]
		}
		job, _ := Job(schedulers(), env)
		ranks := 0
		for _, n := range job {
			ranks += n.Ranks
		}
		if placed := Map(all, job); len(placed) != ranks {
			t.Errorf("%d of %d ranks", len(placed), ranks)
		}
		_, _ = Choose(schedulers(), all, env)
	})
}

func schedulers() scheduler.Registry { return scheduler.Registry{slurm.Factory()} }
