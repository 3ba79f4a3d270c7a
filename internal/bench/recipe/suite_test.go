package recipe

import (
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
