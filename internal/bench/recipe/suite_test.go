package recipe

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const quick = `# what everybody wants to know first
suite: quick
about: Everything, briefly
recipes:
  - recipe: hpl
    parameters: {NB: 192}
`

func folder(files ...string) fstest.MapFS {
	all := fstest.MapFS{"README.md": {Data: []byte("not a recipe")}}
	for i, text := range files {
		all[string(rune('a'+i))+".yaml"] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

func TestASuiteIsItsRecipesSteps(t *testing.T) {
	l, err := Load(folder(hpl, quick))
	if err != nil {
		t.Fatal(err)
	}
	s := l.Suites["quick"]
	steps, err := l.Steps(s, Example())
	if err != nil || s.Rounds != 7 || len(steps) != 1 || steps[0].Parameters["NB"] != "192" {
		t.Error(s, steps, err)
	}
	if again, err := l.Recipes["hpl"].Steps(Example()); err != nil || len(again) != 2 {
		t.Error("a suite's parameters are its own: ", again, err)
	}
	l, err = Load(folder(hpl, quick), folder(strings.Replace(quick, "NB: 192", "NB: [32, 64, 96]", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if steps, err := l.Steps(l.Suites["quick"], Example()); err != nil || len(steps) != 3 {
		t.Error("a later folder's suite counts: ", steps, err)
	}
}

func TestASuiteRunsOnSeveralNumbersOfNodes(t *testing.T) {
	const pair = `recipe: pair
about: What always takes two nodes
needs: {nodes: 2}
parameters: {batches: 3}
brief: {batches: 1}
seconds: 1
run: srun -N 2 echo {{batches}}
read:
  - {quantity: latency, lines: '^(?P<value>\d+)', unit: µs, better: lower}
`
	every := strings.NewReplacer("needs: {nodes: 2}\n", "", "pair", "every", "-N 2", "-N {{nodes}}").Replace(pair)
	const both = `suite: both
about: Some nodes, and all
sizes: [4, 1, 2]
recipes:
  - recipe: pair
  - recipe: every
    parameters: {batches: [5, 6]}
`
	l, err := Load(folder(pair, every, both))
	if err != nil {
		t.Fatal(err)
	}
	for nodes, want := range map[int]string{
		1: "pair batches=3 skipped; every batches=5; every batches=6",
		2: "pair batches=3; every batches=5 nodes=1; every batches=6 nodes=1; every batches=5 nodes=2; every batches=6 nodes=2",
		3: "pair batches=3; every batches=5 nodes=1; every batches=6 nodes=1; every batches=5 nodes=2; every batches=6 nodes=2; " +
			"every batches=5 nodes=3; every batches=6 nodes=3",
	} {
		if got := written(t, l, l.Suites["both"], nodes); got != want {
			t.Errorf("on %d nodes: %s", nodes, got)
		}
	}
	brief := l.Brief(*l.Suites["both"])
	if got := written(t, l, &brief, 2); brief.Rounds != 1 || got != "pair batches=1; every batches=1 nodes=1; every batches=1 nodes=2" {
		t.Error(got)
	}
	if got := written(t, l, l.Suites["both"], 1); !strings.Contains(got, "batches=6") {
		t.Error("the shortened form has changed the suite: ", got)
	}
}

// written are a suite's steps, in words.
func written(t *testing.T, l *Library, s *Suite, nodes int) string {
	steps, err := l.Steps(s, Nodes{Nodes: nodes, Cores: 2, Memory: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, s := range steps {
		text := s.Recipe.Name
		for _, key := range slices.Sorted(maps.Keys(s.Parameters)) {
			text += " " + key + "=" + s.Parameters[key]
		}
		if command, err := s.Command(); err != nil || !strings.Contains(command, "-N "+s.Parameters["nodes"]) {
			t.Error(command, err)
		}
		if s.Skip != "" {
			text += " skipped"
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func TestAWrongLibrarySaysWhatIsWrong(t *testing.T) {
	changed := func(from, to string) string { return strings.Replace(quick, from, to, 1) }
	for want, files := range map[string][]string{
		"suite quick: recipes[0]: there is no recipe hpl; known are ": {quick},
		"suite quick: recipes[0]: hpl has no parameter NC":            {hpl, changed("NB:", "NC:")},

		"suite quick: recipes[0]: hpl: parameters.NB[0]: nodse is not known here": {hpl, changed("192", `"= nodse"`)},

		"b.yaml:5:5: recipes[0].recipe: is missing (write recipe: ping-pong)": {hpl, changed("recipe: hpl\n    ", "")},

		"a.yaml:1:1: the file is empty (a recipe has the fields recipe, about, seconds, run and read)": {""},
	} {
		if _, err := Load(folder(files...)); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
