package recipe

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const hpl = `recipe: hpl
about: The rate at which a dense system of equations is solved
needs: {programs: [hpcc], nodes: 2, memory: "8 * N^2 / nodes * 1.2"}
parameters:
  N: "= floor(sqrt(0.01 * memory * nodes / 8) / 192) * 192"
  NB: [84, 192]
  grid: 2x2
seconds: 2/3 * N^3 / 1e10
files:
  hpccinf.txt: |
    {{N}} Ns
    {{ NB }} NBs, {{grid}}, {{nodes * cores}} ranks
run: |
  for i in a b; do
    srun -n {{nodes * cores}} hpcc
  done
read:
  - {quantity: hpl, from: hpccoutf.txt, unit: GFLOP/s, better: higher,
     lines: '^WR\S+ +(?P<N>\d+) +(?P<NB>\d+) +\d+ +\d+ +\S+ +(?P<value>\S+)'}
valid:
  - {from: hpccoutf.txt, some: '(?P<value>\d+) tests completed and passed', equals: 2}
  - {none: 'FAILED|HPL ERROR'}
`

func TestARecipeBecomesSteps(t *testing.T) {
	r, err := Parse("hpl.yaml", []byte(hpl))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := r.Steps(Nodes{Nodes: 2, Cores: 8, Memory: 64 << 30})
	if err != nil || len(steps) != 2 {
		t.Fatal(steps, err)
	}
	s := steps[1]
	if diff := cmp.Diff(map[string]string{"N": "13056", "NB": "192", "grid": "2x2"}, s.Parameters); diff != "" {
		t.Error(diff)
	}
	files, err := s.Files()
	if diff := cmp.Diff(map[string]string{"hpccinf.txt": "13056 Ns\n192 NBs, 2x2, 16 ranks\n"}, files); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if c, err := s.Command(); err != nil || !strings.Contains(c, "\n  srun -n 16 hpcc\ndone\n") {
		t.Error(c, err)
	}
	if v, err := s.Expected(); err != nil || v < 148 || v > 149 {
		t.Error(v, err)
	}
	if s.Skip != "" {
		t.Error(s.Skip)
	}
	for on, want := range map[Nodes]string{
		{Nodes: 1, Cores: 8, Memory: 64 << 30}: "it needs 2 nodes, and there are 1",
		{Nodes: 2, Cores: 8}:                   "", // its memory is not known
	} {
		if steps, err := r.Steps(on); err != nil || steps[0].Skip != want {
			t.Errorf("%+v: %q, %v", on, steps[0].Skip, err)
		}
	}
}

func TestOutputBecomesSamples(t *testing.T) {
	r, err := Parse("hpl.yaml", []byte(hpl))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := r.Steps(Example())
	if err != nil {
		t.Fatal(err)
	}
	const passed = "2 tests completed and passed\n"
	const table = "WR11C2R4        1000    84     1     2               0.19              3.514e+00\n"
	out := Output{"": "all is well\n", "hpccoutf.txt": table + passed}
	got := steps[0].Result(out)
	want := Result{Samples: []Sample{{"hpl", map[string]string{"N": "1000", "NB": "84"}, "", 3.514, "GFLOP/s", Higher}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := steps[0].Series(got.Samples[0]); got != "hpl{N=1000,NB=84,grid=2x2}" {
		t.Error(got)
	}
	for name, c := range map[string]struct {
		out  Output
		want []string
	}{
		"no file": {Output{"": ""}, []string{"hpl: there is no file hpccoutf.txt", "there is no file hpccoutf.txt"}},
		"no line": {Output{"": "", "hpccoutf.txt": passed},
			[]string{`hpl: no line matches ^WR\S+ +(?P<N>\d+) +(?P<NB>\d+) +\d+ +\d+ +\S+ +(?P<value>\S+)`}},
		"no number": {Output{"": "", "hpccoutf.txt": strings.ReplaceAll(table, "3.514e+00", "nan") + passed},
			[]string{"hpl: nan is no number, in the line " + strings.TrimSpace(strings.ReplaceAll(table, "3.514e+00", "nan"))}},
		"too few": {Output{"": "", "hpccoutf.txt": table + "1 tests completed and passed\n"},
			[]string{"it says 1 tests completed and passed, which is not 2"}},
		"a word": {Output{"": "HPL ERROR from process 0", "hpccoutf.txt": table + passed},
			[]string{"it says HPL ERROR"}},
	} {
		if diff := cmp.Diff(c.want, steps[0].Result(c.out).Wrong); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	large := Output{"": strings.Repeat("x", 2<<20), "hpccoutf.txt": table + passed}
	if got := steps[0].Result(large); len(got.Wrong) != 1 ||
		got.Wrong[0] != "it wrote more than 1 MiB, of which the rest was not read" {
		t.Error(got.Wrong)
	}
	many := steps[0].Result(Output{"": "", "hpccoutf.txt": strings.Repeat(table, 600) + passed})
	if len(many.Samples) != 500 || len(many.Wrong) != 1 {
		t.Error(len(many.Samples), many.Wrong)
	}
}

func TestAWrongRecipeSaysWhere(t *testing.T) {
	const useless, hint = "is no regular expression that can be used: ", " (RE2's syntax: no look-ahead and no back references)"
	for _, c := range []struct{ from, to, want string }{
		{"recipe: hpl", "recipe: HPL", `1:9: recipe: must be the name of a recipe, not text "HPL" ` +
			"(1 to 40 of a-z, 0-9 and '-'; begin with a letter, as in ping-pong)"},
		{"seconds: 2/3", "secunds: 2/3", "8:1: secunds: unknown field (did you mean seconds?)"},
		{"(?P<value>\\S+)'", "\\S+'",
			`19:13: read[0].lines: has no group that is called value (enclose the number: (?P<value>\S+))`},
		{"'FAILED|", "'FAILED(|", "22:12: valid[1].none: " + useless +
			"error parsing regexp: missing closing ): `(?m:FAILED(|HPL ERROR)`" + hint},
		{"'FAILED|", "'(\\w{500}){2}|", "22:12: valid[1].none: " + useless + "it is too large: repeat less" + hint},
		{"N^3 / 1e10", "M^3 / 1e10", "8:10: seconds: M is not known here"},
		{"N^3 / 1e10", "N^3 / 1e10 )", `8:10: seconds: character 18: expected an operator, not ")"`},
		{"seconds: 2/3 * N^3 / 1e10", "seconds: 0", "8:10: seconds: 0 is not between 0 and a day"},
		{"NB: [84, 192]", `NB: "= NB + 1"`, "6:7: parameters.NB: its value depends on itself"},
		{"  NB: [84", "  nodes: [84",
			"6:3: parameters.nodes: is the name of something that is known already (choose another)"},
		{"seconds: 2/3", "brief: {M: 3}\nseconds: 2/3", "8:12: brief.M: is none of the parameters"},
		{"seconds: 2/3", "brief: {NB: = M}\nseconds: 2/3", "8:1: brief: parameters.NB[0]: M is not known here"},
		{"{{ NB }}", "{{ NC }}", "10:16: files.\"hpccinf.txt\": NC is not known here"},
		{"  - {none: 'FAILED|HPL ERROR'}", "  - {from: a}", "22:5: valid[1]: must have either some or none"},
		{"  - {none: 'FAILED|HPL ERROR'}", "  - {none: a, equals: 3}", "22:23: valid[1].equals: is for lines that match some " +
			"(write some, with the group (?P<value>…))"},
		{"better: higher", "better: bigger",
			`18:64: read[0].better: must be higher or lower, not text "bigger" (did you mean higher?)`},
	} {
		if !strings.Contains(hpl, c.from) {
			t.Fatal(c.from)
		}
		_, err := Parse("r.yaml", []byte(strings.Replace(hpl, c.from, c.to, 1)))
		if err == nil || err.Error() != "r.yaml:"+c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.to, err, c.want)
		}
	}
	many := "[" + strings.Join(strings.Fields("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"), ", ") + "]"
	_, err := Parse("r.yaml", []byte(strings.Replace(hpl, "NB: [84, 192]", "NB: "+many+"\n  A: "+many, 1)))
	if err == nil || !strings.Contains(err.Error(), "parameters: make more than 200 steps") {
		t.Error(err)
	}
}

func FuzzRecipe(f *testing.F) {
	f.Add([]byte(hpl), "WR11C2R4 1000 84 1 2 0.19 3.514e+00\n2 tests completed and passed\n")
	f.Add([]byte("recipe: a\nabout: b\nseconds: 1\nrun: x\n"+
		"read: [{quantity: q, lines: '(?P<value>.)', unit: s, better: lower}]\n"), "\xff1")
	f.Fuzz(func(t *testing.T, src []byte, out string) {
		r, err := Parse("r.yaml", src)
		if err != nil {
			return
		}
		steps, err := r.Steps(Nodes{Nodes: 1, Cores: 1})
		if err != nil {
			return // a division by what there is one of, say
		}
		for _, s := range steps {
			result := s.Result(Output{"": out, "hpccoutf.txt": out})
			for _, sample := range result.Samples {
				_ = s.Series(sample)
			}
		}
	})
}
