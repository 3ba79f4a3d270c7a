package library

import (
	"os"
	"path/filepath"
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
		steps, err := r.Steps(recipe.Nodes{Nodes: 2, Cores: 4, Memory: 64 << 30})
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
