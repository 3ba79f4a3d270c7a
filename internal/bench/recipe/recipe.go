// Package recipe reads recipes and suites of benchmarks: what a program needs, how it is run, and how its output is read.
//
// What enters: files, the shape of the nodes that a program is to run on, and what it wrote. What leaves: the steps of a run, and
// samples, or the sentence why there is none. It is pure, and holds whatever it is given to bounds.
package recipe

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"muster/internal/kit/lists"
	"muster/internal/kit/pattern"
	"muster/internal/spec"
)

// Recipe is how one benchmark is made.
type Recipe struct {
	Name       string              `json:"recipe"`
	About      string              `json:"about"`
	Needs      Needs               `json:"needs"`
	Parameters map[string][]string `json:"parameters"`
	Brief      map[string][]string `json:"brief,omitempty"` // instead of them, in a shortened form
	Seconds    string              `json:"seconds"`         // an expression: how long a step takes
	Files      map[string]string   `json:"files"`           // by their names in the step's folder; templates
	Run        string              `json:"run"`             // a template
	Read       []Reading           `json:"read"`
	Valid      []Check             `json:"valid"`
}

// Needs are what must be there for it.
type Needs struct {
	Programs []string `json:"programs"`
	Files    []string `json:"files"`  // patterns of paths: the first node has a file that matches each
	Hint     string   `json:"hint"`   // what it means if one is not there, or what would help
	Nodes    int      `json:"nodes"`  // at least
	Cores    int      `json:"cores"`  // of each node, at least
	Memory   string   `json:"memory"` // an expression: bytes of each node
}

// Reading is how a quantity is read: by each line that matches.
type Reading struct {
	Quantity string `json:"quantity"`
	From     string `json:"from"`  // a file of the step's folder; "": what it wrote
	Lines    string `json:"lines"` // a regular expression, whose group value is the number
	Unit     string `json:"unit"`
	Better   string `json:"better"`
}

// The two directions.
const (
	Higher = "higher"
	Lower  = "lower"
)

// Check is what must be so for the numbers to count.
type Check struct {
	From   string `json:"from"`
	Some   string `json:"some"`   // a regular expression that some line matches
	None   string `json:"none"`   // one that none does
	Equals string `json:"equals"` // an expression: what the group value of each line of some is
}

// CommandFile is the file of a step's folder that has its command.
const CommandFile = "run.sh"

// Most steps that a recipe's parameters may make: the product of their lists.
const mostSteps = 200

var (
	name      = pattern.New(`^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$`)
	parameter = pattern.New(`^[A-Za-z][A-Za-z0-9_]{0,30}$`)
	fileName  = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	filePath  = pattern.New(`^~?(/[A-Za-z0-9._*-]{1,60}){1,16}$`)
	insertion = pattern.New(`\{\{([^{}]*)\}\}`)
)

func types() map[string]spec.Kind {
	sized := func(most int) func(string) bool { return func(s string) bool { return s != "" && len(s) <= most } }
	text := func(is string, most int) spec.Kind {
		return spec.Kind{Is: is, Hint: fmt.Sprintf("1 to %d bytes", most), Valid: sized(most)}
	}
	return map[string]spec.Kind{
		"recipe name": {Is: "the name of a recipe", Form: name, Hint: "1 to 40 of a-z, 0-9 and '-'; begin with a letter",
			Example: "ping-pong"},
		"parameter": {Is: "the name of a parameter", Form: parameter,
			Hint: "1 to 31 of a-z, A-Z, 0-9 and '_'; begin with a letter", Example: "N"},
		"value": {Is: "a value", Hint: "a number, a word, or = and an expression", Example: "= nodes * cores", Digits: true,
			Valid: sized(longestExpression)},
		"file": {Is: "the name of a file", Form: fileName, Hint: "1 to 63 of a-z, A-Z, 0-9, '.', '_' and '-'",
			Example: "HPL.dat"},
		"path": {Is: "the path of a file", Form: filePath, Hint: "begin with / or, in the home of whoever runs it, with ~/; " +
			"* stands for any part of a name", Example: "/sys/class/infiniband/*"},
		"program": {Is: "the name of a program", Form: fileName, Hint: "as it is found on a node", Example: "fio"},
		"line":    text("one line of text", 200),
		"command": text("a command", 16<<10),
		"expression": {Is: "an expression", Hint: "numbers, names, + - * / ^, brackets and functions", Example: "2/3 * N^3 / 1e9",
			Digits: true, Valid: sized(longestExpression)},
		"regular expression": {Is: "a regular expression", Hint: "as RE2 has them", Example: `^Triad: +(?P<value>\S+)`,
			Valid: sized(1000)},
	}
}

func table() []spec.Field {
	return []spec.Field{
		{Path: "recipe", Type: "recipe name", Required: true, Doc: "Its name."},
		{Path: "about", Type: "line", Required: true, Doc: "What it measures, in a sentence."},
		{Path: "needs", Type: "mapping", Doc: "What must be there; where it is not, the recipe is skipped, and the reason said."},
		{Path: "needs.programs", Type: "list", Min: 1, Max: 20, Doc: "Programs on the nodes."},
		{Path: "needs.programs[]", Type: "program", Doc: "A program."},
		{Path: "needs.files", Type: "list", Min: 1, Max: 20, Doc: "Files on the first node, as devices and data."},
		{Path: "needs.files[]", Type: "path", Doc: "A path, in which * stands for any part of a name."},
		{Path: "needs.hint", Type: "line", Doc: "What it means that a file is not there, or what to do then."},
		{Path: "needs.nodes", Type: "number", Min: 1, Max: 4096, Doc: "How many nodes at least."},
		{Path: "needs.cores", Type: "number", Min: 1, Max: 4096, Doc: "How many cores of each node at least."},
		{Path: "needs.memory", Type: "expression", Doc: "How many bytes of memory of each node."},
		{Path: "parameters", Type: "mapping",
			Doc: "Names for numbers and words. One with several values is a sweep: the program runs with each."},
		{Path: "parameters.*", Type: "list", Keys: "parameter", OrOne: true, Min: 1, Max: 50, Doc: "Its values."},
		{Path: "parameters.*[]", Type: "value", Doc: "A number, a word, or = and an expression."},
		{Path: "brief", Type: "mapping", Doc: "Values of parameters with which it is done in little time, to see that it runs."},
		{Path: "brief.*", Type: "list", Keys: "parameter", OrOne: true, Min: 1, Max: 50, Doc: "Of a parameter."},
		{Path: "brief.*[]", Type: "value", Doc: "A number, a word, or = and an expression."},
		{Path: "seconds", Type: "expression", Required: true,
			Doc: "How long it takes with one set of values; after ten times as much, and half a minute, it is ended."},
		{Path: "files", Type: "mapping", Doc: "Files in the folder that it runs in. {{ and }} enclose an expression."},
		{Path: "files.*", Type: "command", Keys: "file", Doc: "What the file has."},
		{Path: "run", Type: "command", Required: true,
			Doc: "The command, for bash, on the first node of the job. {{ and }} enclose an expression."},
		{Path: "read", Type: "list", Required: true, Min: 1, Max: 20, Doc: "The quantities that it measures."},
		{Path: "read[]", Type: "mapping", Doc: "A quantity."},
		{Path: "read[].quantity", Type: "recipe name", Required: true, Doc: "Its name."},
		{Path: "read[].from", Type: "file", Default: "what the command wrote", Doc: "The file that it is read from."},
		{Path: "read[].lines", Type: "regular expression", Required: true, Doc: "What its lines match. The group " +
			"(?P<value>…) is the number, node is where it was measured; each further group with a name divides the " +
			"quantity into several."},
		{Path: "read[].unit", Type: "line", Required: true, Doc: "Its unit."},
		{Path: "read[].better", Type: "choice", Values: []string{Higher, Lower}, Required: true, Doc: "Which values are better."},
		{Path: "valid", Type: "list", Min: 1, Max: 20, Doc: "What must be so for the numbers to count."},
		{Path: "valid[]", Type: "mapping", Doc: "A check."},
		{Path: "valid[].from", Type: "file", Default: "what the command wrote", Doc: "The file that is looked at."},
		{Path: "valid[].some", Type: "regular expression", Doc: "Some line matches it."},
		{Path: "valid[].none", Type: "regular expression", Doc: "No line matches it."},
		{Path: "valid[].equals", Type: "expression",
			Doc: "The group (?P<value>…) of each line that matches some is this number."},
	}
}

// Form is how a recipe is written.
func Form() *spec.Form {
	return spec.NewForm("recipe", "a recipe has the fields recipe, about, seconds, run and read", table(), types())
}

// Parse reads a recipe. An error is always spec.Diagnostics, and holds everything that is wrong.
func Parse(file string, src []byte) (*Recipe, error) {
	r := &Recipe{}
	if err := Form().Read(file, src, r, r.rules); err != nil {
		return nil, err
	}
	return r, nil
}

// Example is a shape of nodes that all expressions are tried with.
func Example() Nodes { return Nodes{Nodes: 4, Cores: 16, Memory: 64 << 30} }

// rules holds a recipe to what no field alone can say.
func (r *Recipe) rules() (found spec.Diagnostics) {
	wrong := func(path, text, hint string) {
		found = append(found, spec.Diagnostic{Code: spec.CodeBadValue, Path: path, Text: text, Hint: hint})
	}
	short := *r
	short.Parameters = replaced(r.Parameters, r.Brief)
	for _, key := range slices.Sorted(maps.Keys(r.Brief)) {
		if _, has := r.Parameters[key]; !has {
			wrong("brief."+key, "is none of the parameters", "")
		}
	}
	for _, path := range r.clashes() {
		wrong(path, "is the name of something that is known already", "choose another")
	}
	if _, has := r.Files[CommandFile]; has {
		wrong("files."+strconv.Quote(CommandFile), "is the name of the file that has the command", "choose another")
	}
	for i, read := range r.Read {
		usable(fmt.Sprintf("read[%d].lines", i), read.Lines, true, wrong)
	}
	for i, c := range r.Valid {
		at := fmt.Sprintf("valid[%d]", i)
		switch {
		case (c.Some == "") == (c.None == ""):
			wrong(at, "must have either some or none", "")
		case c.Equals != "" && c.Some == "":
			wrong(at+".equals", "is for lines that match some", "write some, with the group (?P<value>…)")
		}
		usable(at+".some", c.Some, c.Equals != "", wrong)
		usable(at+".none", c.None, false, wrong)
	}
	if len(found) > 0 {
		return found
	}
	bad := r.tried()
	if bad == nil && len(r.Brief) > 0 {
		if bad = short.tried(); bad != nil {
			bad = &fieldError{"brief", bad}
		}
	}
	if bad != nil {
		wrong(bad.path, bad.why.Error(), "")
	}
	return found
}

// tried is what is wrong with an expression where it has a value; nil: nothing is.
func (r *Recipe) tried() *fieldError {
	all, err := r.Steps(Example())
	for _, s := range all {
		if err == nil {
			_, err = s.Expected()
		}
		for i, c := range r.Valid {
			if err == nil && c.Equals != "" {
				_, err = evaluate(fmt.Sprintf("valid[%d].equals", i), c.Equals, s.values)
			}
		}
	}
	bad, _ := err.(*fieldError)
	return bad
}

// replaced are parameters with others' values in the place of theirs.
func replaced[V any](parameters, others map[string]V) map[string]V {
	all := map[string]V{}
	maps.Copy(all, parameters)
	maps.Copy(all, others)
	return all
}

// clashes are the parameters that have the names of what is known anyway.
func (r *Recipe) clashes() (paths []string) {
	for _, key := range slices.Sorted(maps.Keys(r.Parameters)) {
		_, known := Example().values()[key]
		if _, function := functions[key]; known || function {
			paths = append(paths, "parameters."+key)
		}
	}
	return paths
}

// usable looks whether a regular expression can be used.
func usable(path, text string, value bool, wrong func(path, text, hint string)) {
	if text == "" {
		return
	}
	e, err := lines(text)
	switch {
	case err != nil:
		wrong(path, "is no regular expression that can be used: "+err.Error(),
			"RE2's syntax: no look-ahead and no back references")
	case value && e.SubexpIndex("value") < 0:
		wrong(path, "has no group that is called value", `enclose the number: (?P<value>\S+)`)
	}
}

// largestProgram bounds what a regular expression costs for each byte that it reads, in instructions; honest ones have a hundred.
const largestProgram = 1000

// lines compiles a regular expression for lines. RE2's time is linear in what it reads and in the size of its program.
func lines(text string) (*regexp.Regexp, error) {
	e, err := regexp.Compile(`(?m:` + text + `)`)
	if err != nil {
		return nil, err
	}
	parsed, err := syntax.Parse(e.String(), syntax.Perl)
	if err == nil {
		var program *syntax.Prog
		if program, err = syntax.Compile(parsed.Simplify()); err == nil && len(program.Inst) > largestProgram {
			err = errors.New("it is too large: repeat less")
		}
	}
	return e, err
}

// Nodes is the shape of what a recipe runs on.
type Nodes struct {
	Nodes  int
	Cores  int   // of the smallest node
	Memory int64 // of the smallest node, in bytes
}

func (n Nodes) values() Values {
	return Values{"nodes": float64(n.Nodes), "cores": float64(n.Cores), "memory": float64(n.Memory)}
}

// Step is a recipe with one value for each parameter.
type Step struct {
	Recipe     *Recipe
	Parameters map[string]string // as they are shown
	values     Values            // those that are numbers, and what is known of the nodes
	Skip       string            // why it cannot run there; "": it can
}

// fieldError is what is wrong with a field where its expressions have values.
type fieldError struct {
	path string
	why  error
}

func (e *fieldError) Error() string { return e.path + ": " + e.why.Error() }

// evaluate is the value of an expression that stands in a field.
func evaluate(path, text string, values Values) (float64, error) {
	e, err := ParseExpression(text)
	if err != nil {
		return 0, &fieldError{path, err}
	}
	v, err := e.Eval(values)
	if err != nil {
		return 0, &fieldError{path, err}
	}
	return v, nil
}

// order is the order in which parameters get their values: each after those that its expressions name.
func (r *Recipe) order() (keys []string, err error) {
	left := slices.Sorted(maps.Keys(r.Parameters))
	for len(left) > 0 {
		next := slices.IndexFunc(left, func(key string) bool {
			return !slices.ContainsFunc(r.Parameters[key], func(text string) bool {
				text, formula := strings.CutPrefix(text, "=")
				e, _ := ParseExpression(text) // with fewer names where it is wrong, which is told when it is evaluated
				return formula && slices.ContainsFunc(e.Names(), func(name string) bool { return slices.Contains(left, name) })
			})
		})
		if next < 0 {
			return nil, &fieldError{"parameters." + left[0], errors.New("its value depends on itself")}
		}
		keys, left = append(keys, left[next]), slices.Delete(left, next, next+1)
	}
	return keys, nil
}

// Steps are a recipe's steps on such nodes, in an order that stays.
func (r *Recipe) Steps(on Nodes) ([]Step, error) {
	keys, err := r.order()
	if err != nil {
		return nil, err
	}
	steps := 1
	for _, values := range r.Parameters {
		if steps *= len(values); steps > mostSteps {
			return nil, &fieldError{"parameters", fmt.Errorf("make more than %d steps, one for each set of values: leave some out",
				mostSteps)}
		}
	}
	all := []Step{{Recipe: r, Parameters: map[string]string{}, values: on.values()}}
	for _, key := range keys {
		var more []Step
		for _, s := range all {
			for i, text := range r.Parameters[key] {
				next, err := s.with(key, fmt.Sprintf("parameters.%s[%d]", key, i), text)
				if err != nil {
					return nil, err
				}
				more = append(more, next)
			}
		}
		all = more
	}
	for i := range all {
		if err := all[i].judge(on); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// with is the step with one more parameter.
func (s Step) with(key, path, text string) (Step, error) {
	next := Step{Recipe: s.Recipe, Parameters: maps.Clone(s.Parameters), values: maps.Clone(s.values)}
	if expression, ok := strings.CutPrefix(text, "="); ok {
		v, err := evaluate(path, expression, s.values)
		if err != nil {
			return s, err
		}
		next.values[key], next.Parameters[key] = v, number(v)
		return next, nil
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil && finite(v) {
		next.values[key] = v
	}
	next.Parameters[key] = text
	return next, nil
}

// judge says why the step cannot run on such nodes, if it cannot.
func (s *Step) judge(on Nodes) error {
	needs := s.Recipe.Needs
	memory := 0.0
	if needs.Memory != "" {
		var err error
		if memory, err = evaluate("needs.memory", needs.Memory, s.values); err != nil {
			return err
		}
	}
	switch {
	case on.Nodes < needs.Nodes:
		s.Skip = fmt.Sprintf("it needs %d nodes, and there are %d", needs.Nodes, on.Nodes)
	case on.Cores < needs.Cores:
		s.Skip = fmt.Sprintf("it needs %d cores of each node, and there are %d", needs.Cores, on.Cores)
	case on.Memory > 0 && float64(on.Memory) < memory:
		s.Skip = fmt.Sprintf("it needs %.0f MiB of each node's memory, and there are %d", memory/(1<<20), on.Memory>>20)
	}
	_, err := s.Command()
	if err == nil {
		_, err = s.Files()
	}
	return err
}

// longestStep is how long a step may take, in seconds.
const longestStep = 24 * 3600

// Expected is how many seconds the step takes.
func (s Step) Expected() (float64, error) {
	v, err := evaluate("seconds", s.Recipe.Seconds, s.values)
	if err == nil && (v <= 0 || v > longestStep) {
		err = &fieldError{"seconds", fmt.Errorf("%s is not between 0 and a day", number(v))}
	}
	return v, err
}

// Limit is after how many seconds the step is ended.
func (s Step) Limit() (int, error) {
	v, err := s.Expected()
	return int(math.Ceil(10*v)) + 30, err
}

// Wanted are the files of the step's folder that its result is read from.
func (s Step) Wanted() []string {
	files := lists.SetBy(s.Recipe.Read, func(r Reading) string { return r.From })
	for _, c := range s.Recipe.Valid {
		files[c.From] = true
	}
	delete(files, "") // what its command wrote
	return slices.Sorted(maps.Keys(files))
}

// Kept is what is kept of a step's output: what its command wrote and the files that its result is read from, as far as they are
// read.
func (s Step) Kept(out Output) Output {
	kept := Output{}
	for _, name := range append(s.Wanted(), "") {
		if text, there := out.text(name); there {
			kept[name] = text
		}
	}
	return kept
}

// number prints a value as programs read it: whole ones without a point.
func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// fill replaces what {{ and }} enclose in a template: a parameter's text, or an expression's value.
func (s Step) fill(path, template string) (string, error) {
	var failed error
	text := insertion.Regexp().ReplaceAllStringFunc(template, func(found string) string {
		inner := strings.TrimSpace(found[2 : len(found)-2])
		if word, ok := s.Parameters[inner]; ok {
			return word
		}
		v, err := evaluate(path, inner, s.values)
		if err != nil && failed == nil {
			failed = err
		}
		return number(v)
	})
	return text, failed
}

// Command is what the step runs, for bash.
func (s Step) Command() (string, error) { return s.fill("run", s.Recipe.Run) }

// Files are those of the step's folder, by name.
func (s Step) Files() (map[string]string, error) {
	files := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Recipe.Files)) {
		path := "files." + name
		if strings.Contains(name, ".") { // as paths have keys that are not words
			path = "files." + strconv.Quote(name)
		}
		text, err := s.fill(path, s.Recipe.Files[name])
		if err != nil {
			return nil, err
		}
		files[name] = text
	}
	return files, nil
}
