package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"muster/internal/spec"
)

// Suite is a list of recipes that are run together.
type Suite struct {
	Name    string  `json:"suite"`
	About   string  `json:"about"`
	Rounds  int     `json:"rounds"`          // how often all of it runs; 0: usualRounds
	Sizes   []int   `json:"sizes,omitempty"` // numbers of nodes that its recipes also run on, beside all
	Entries []Entry `json:"recipes"`
	Brief   bool    `json:"brief,omitempty"` // it is a shortened form
}

// usualRounds is how often a suite runs: six values are the fewest that say how sure their median is.
const usualRounds = 7

// Entry is a recipe in a suite.
type Entry struct {
	Recipe     string              `json:"recipe"`
	Parameters map[string][]string `json:"parameters"` // instead of the recipe's own
}

// SuiteForm is how a suite is written.
func SuiteForm() *spec.Form {
	return spec.NewForm("suite", "a suite has the fields suite, about and recipes", []spec.Field{
		{Path: "suite", Type: "recipe name", Required: true, Doc: "Its name."},
		{Path: "about", Type: "line", Required: true, Doc: "What it measures, in a sentence."},
		{Path: "rounds", Type: "number", Min: 1, Max: 100, Default: fmt.Sprint(usualRounds),
			Doc: "How often all of it runs, in another order each time. Six are the fewest that say how sure a median is."},
		{Path: "sizes", Type: "list", Min: 1, Max: 20, Doc: "Numbers of nodes that each recipe also runs on, beside all that there " +
			"are; larger ones are left out. What a number changes nothing of runs once."},
		{Path: "sizes[]", Type: "number", Min: 1, Max: 4096, Doc: "A number of nodes."},
		{Path: "recipes", Type: "list", Required: true, Min: 1, Max: 50, Doc: "What it runs."},
		{Path: "recipes[]", Type: "mapping", Doc: "A recipe."},
		{Path: "recipes[].recipe", Type: "recipe name", Required: true, Doc: "Its name."},
		{Path: "recipes[].parameters", Type: "mapping", Doc: "Values in the place of the recipe's."},
		{Path: "recipes[].parameters.*", Type: "list", Keys: "parameter", OrOne: true, Min: 1, Max: 50, Doc: "Of a parameter."},
		{Path: "recipes[].parameters.*[]", Type: "value", Doc: "A number, a word, or = and an expression."},
	}, types())
}

// ParseSuite reads a suite. An error is always spec.Diagnostics.
func ParseSuite(file string, src []byte) (*Suite, error) {
	s := &Suite{}
	if err := SuiteForm().Read(file, src, s, nil); err != nil {
		return nil, err
	}
	s.Rounds = cmp.Or(s.Rounds, usualRounds)
	return s, nil
}

// Library has recipes and suites by their names.
type Library struct {
	Recipes map[string]*Recipe
	Suites  map[string]*Suite
}

// Load reads all recipes and suites of folders: files whose names end in .yaml. What is in a later folder replaces what is in an
// earlier one. An error is about the first file that is wrong.
func Load(folders ...fs.FS) (*Library, error) {
	l := &Library{map[string]*Recipe{}, map[string]*Suite{}}
	for _, folder := range folders {
		files, err := fs.Glob(folder, "*.yaml")
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if err := l.add(folder, file); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.Suites)) {
		brief := l.Brief(*l.Suites[name])
		for _, s := range []*Suite{l.Suites[name], &brief} {
			if _, err := l.Steps(s, Example()); err != nil {
				return nil, fmt.Errorf("suite %s: %w", name, err)
			}
		}
	}
	return l, nil
}

func (l *Library) add(folder fs.FS, file string) error {
	src, err := fs.ReadFile(folder, file)
	if err != nil {
		return err
	}
	if IsSuite(src) {
		s, err := ParseSuite(path.Base(file), src)
		if err != nil {
			return err
		}
		l.Suites[s.Name] = s
		return nil
	}
	r, err := Parse(path.Base(file), src)
	if err != nil {
		return err
	}
	l.Recipes[r.Name] = r
	return nil
}

// IsSuite says that a file is a suite, by its first line that is no comment.
func IsSuite(src []byte) bool {
	for line := range strings.Lines(string(src)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return strings.HasPrefix(line, "suite:")
		}
	}
	return false
}

// Suite finds a suite by its name. A recipe's name is that of a suite which has that recipe alone.
func (l *Library) Suite(name string) (*Suite, bool) {
	if s := l.Suites[name]; s != nil {
		return s, true
	}
	r := l.Recipes[name]
	if r == nil {
		return nil, false
	}
	return &Suite{Name: name, About: r.About, Rounds: usualRounds, Entries: []Entry{{Recipe: name}}}, true
}

// Steps are those of all recipes of a suite on such nodes, in the suite's order.
func (l *Library) Steps(s *Suite, on Nodes) (all []Step, err error) {
	for i, e := range s.Entries {
		known := l.Recipes[e.Recipe]
		if known == nil {
			return nil, fmt.Errorf("recipes[%d]: there is no recipe %s; known are %s", i, e.Recipe,
				strings.Join(slices.Sorted(maps.Keys(l.Recipes)), ", "))
		}
		r := *known
		for key := range e.Parameters {
			if _, has := known.Parameters[key]; !has {
				return nil, fmt.Errorf("recipes[%d]: %s has no parameter %s", i, e.Recipe, key)
			}
		}
		r.Parameters = replaced(known.Parameters, e.Parameters)
		steps, err := r.stepsOf(s.sizes(on.Nodes), on)
		if err != nil {
			return nil, fmt.Errorf("recipes[%d]: %s: %w", i, e.Recipe, err)
		}
		all = append(all, steps...)
	}
	if len(all) > mostSteps {
		return nil, fmt.Errorf("it makes %d steps, and %d are the most", len(all), mostSteps)
	}
	return all, nil
}

// sizes are the numbers of nodes that its recipes run on where there are so many nodes, the smallest first.
func (s *Suite) sizes(nodes int) []int {
	all := append(slices.Clone(s.Sizes), nodes)
	slices.Sort(all)
	return slices.Compact(all[:slices.Index(all, nodes)+1])
}

// stepsOf are a recipe's steps on each of these numbers of nodes, the smallest first, which are then among their parameters. What
// a number changes nothing of, as a recipe that always takes two nodes, is there once.
func (r *Recipe) stepsOf(sizes []int, on Nodes) (all []Step, err error) {
	var before []Step
	several := false
	for i, n := range sizes {
		if n < r.Needs.Nodes && i < len(sizes)-1 {
			continue
		}
		on.Nodes = n
		steps, err := r.Steps(on)
		if err != nil {
			return nil, err
		}
		if slices.EqualFunc(before, steps, Step.same) {
			continue
		}
		several = before != nil
		before, all = steps, append(all, steps...)
	}
	for _, s := range all {
		if several {
			s.Parameters["nodes"] = number(s.values["nodes"])
		}
	}
	return all, nil
}

// same says that two steps of a recipe do the same.
func (s Step) same(as Step) bool {
	one, err1 := s.Command()
	other, err2 := as.Command()
	files, err3 := s.Files()
	others, err4 := as.Files()
	return errors.Join(err1, err2, err3, err4) == nil && one == other && s.Skip == as.Skip && maps.Equal(files, others)
}

// Brief is a suite in a shortened form, which shows in little time whether all of it runs: once, with what recipes have for it.
func (l *Library) Brief(s Suite) Suite {
	s.Brief, s.Rounds = true, 1
	s.Entries = slices.Clone(s.Entries)
	for i, e := range s.Entries {
		if r := l.Recipes[e.Recipe]; r != nil && len(r.Brief) > 0 {
			s.Entries[i].Parameters = replaced(e.Parameters, r.Brief)
		}
	}
	return s
}
