package library

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/bench/recipe"
)

func TestEveryRecipeReadsWhatItsProgramWrites(t *testing.T) {
	l, err := recipe.Load(Files())
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range l.Recipes {
		text, err := os.ReadFile(filepath.Join("testdata", name+".out"))
		if err != nil {
			t.Error(err)
			continue
		}
		steps, err := r.Steps(recipe.Nodes{Nodes: 3, Cores: 2, Memory: 4 << 30})
		if err != nil || len(steps) == 0 || steps[0].Skip != "" {
			t.Error(name, steps, err)
			continue
		}
		left := recipe.Output{"": string(text)}
		for _, file := range steps[0].Wanted() {
			left[file] = string(text)
		}
		got, quantities := steps[0].Result(left), map[string]bool{}
		for _, s := range got.Samples {
			quantities[s.Quantity] = true
		}
		if len(got.Wrong) > 0 || len(quantities) != len(r.Read) {
			t.Errorf("%s: %+v", name, got)
		}
		if got := steps[0].Result(recipe.Output{"": "srun: error: Unable to create step"}); len(got.Wrong) < len(r.Read) {
			t.Errorf("%s finds something in an error: %+v", name, got)
		}
	}
}

func TestWrongResultsDoNotCount(t *testing.T) {
	l, err := recipe.Load(Files())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ of, from, to, why string }{
		"a wrong residual":      {"hpcc", "PASSED", "FAILED", "it says"},
		"a truncated output":    {"hpcc", "CommWorldProcs=6", "\x00", "no line matches ^CommWorldProcs"},
		"orders of hpcc's own":  {"hpcc", "\n", "\nnot the systems that were asked for\n", "it says not the systems"},
		"another energy":        {"lammps-eam", "Performance", "wrong energy: -3.1\nPerformance", "it says wrong energy: -3.1"},
		"fewer ranks":           {"lammps-lj", "on 6 procs", "on 1 procs", "which is not 6"},
		"fewer files":           {"fs-mark", " 160 ", " 16 ", "which is not 160"},
		"a damaged file":        {"mpi-io", "read_mbs", "mpi-io: rank 3: what was read is not what was written\nread_mbs", "it says"},
		"a broken arithmetic":   {"kernels", "n1 huffman", "kernels: wrong result in huffman\nn1 huffman", "it says"},
		"a bandwidth of nobody": {"rdma", "bw 65536 6295.63\n", "", "write: no line matches"},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", c.of+".out"))
		if err != nil {
			t.Fatal(err)
		}
		steps, err := l.Recipes[c.of].Steps(recipe.Nodes{Nodes: 3, Cores: 2, Memory: 4 << 30})
		if err != nil {
			t.Fatal(err)
		}
		damaged := strings.Replace(string(text), c.from, c.to, 1)
		if c.to == "\x00" {
			damaged, _, _ = strings.Cut(string(text), c.from)
		}
		left := recipe.Output{"": damaged}
		for _, file := range steps[0].Wanted() {
			left[file] = damaged
		}
		if got := strings.Join(steps[0].Result(left).Wrong, "; "); damaged == string(text) || !strings.Contains(got, c.why) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAQuickSuiteIsQuick(t *testing.T) {
	l, err := recipe.Load(Files())
	if err != nil {
		t.Fatal(err)
	}
	quick := l.Suites["quick"]
	steps, err := l.Steps(quick, recipe.Nodes{Nodes: 2, Cores: 2, Memory: 4 << 30})
	if err != nil || len(steps) != 5 {
		t.Fatal(steps, err)
	}
	sum := 0.0
	for _, s := range steps {
		seconds, err := s.Expected()
		if err != nil {
			t.Error(err)
		}
		sum += seconds
	}
	if all := sum * float64(quick.Rounds); all > 120 {
		t.Errorf("%d rounds of %.1f s take %.0f s", quick.Rounds, sum, all)
	}
}
