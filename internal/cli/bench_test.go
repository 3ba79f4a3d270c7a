package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRecipesAndSuitesAreCheckedWithoutAController(t *testing.T) {
	const recipe = `recipe: triad
about: How fast memory is
parameters: {size: [1, 2]}
seconds: size
run: stream {{size}}
read:
  - {quantity: triad, lines: '^triad (?P<value>.*)', unit: GB/s, better: higher}
`
	const suite = "suite: quick\nabout: A test\nrecipes: [{recipe: triad}]\n"
	for name, c := range map[string]struct {
		text, sample string
		code         int
		says         string // FILE stands for the file's path less its ending
	}{
		"a recipe": {recipe, "", 0, "FILE.yaml is a valid recipe: 2 steps\n"},
		"its sample": {recipe, "triad 20.5\n", 0,
			"FILE.yaml is a valid recipe: 2 steps\ntriad{size=1} 20.5 GB/s\n"},
		"a sample of something else": {recipe, "copy 20.5\n", exitInvalid, "FILE.out: triad: no line matches ^triad (?P<value>.*)\n"},
		"an unknown field": {strings.Replace(recipe, "seconds", "secunds", 1), "", exitInvalid,
			"FILE.yaml:4:1: secunds: unknown field (did you mean seconds?)\n"},
		"an unknown parameter": {strings.Replace(recipe, "{{size}}", "{{sice}}", 1), "", exitInvalid,
			"FILE.yaml:5:6: run: sice is not known here\n"},
		"a suite": {suite, "", 0, "FILE.yaml is a valid suite: 1 recipe, 7 rounds\n"},
		"a suite's wrong type": {suite + "rounds: many\n", "", exitInvalid,
			`FILE.yaml:4:9: rounds: must be a whole number, not text "many" (write plain digits, without quotes or unit, as in 16)` + "\n"},
	} {
		base := filepath.Join(t.TempDir(), "some")
		for ending, text := range map[string]string{".yaml": c.text, ".out": c.sample} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(base+ending, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := muster(t, "bench", "validate", base+".yaml")
		if want := strings.ReplaceAll(c.says, "FILE", base); r.code != c.code || !strings.Contains(r.err+r.out, want) {
			t.Errorf("%s: exit code %d, %s%s, not %s", name, r.code, r.err, r.out, want)
		}
	}
}

func TestSchemasOfRecipesAndSuitesArePrinted(t *testing.T) {
	for of, field := range map[string]string{"recipe": "seconds", "suite": "rounds"} {
		var schema struct {
			Title      string
			Properties map[string]any
		}
		r := muster(t, "bench", "schema", of)
		if err := json.Unmarshal([]byte(r.out), &schema); err != nil || r.code != 0 || schema.Title != "Muster "+of ||
			schema.Properties[field] == nil {
			t.Errorf("%v, %s", err, r.out)
		}
	}
	muster(t, "bench", "schema", "cluster").wants(t, exitInvalid, "cluster")
}
