package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/internal/kit/testall"
)

func TestPositionFindsWhatWasWrittenOrItsNearestParent(t *testing.T) {
	long := mustParse(t, "cluster.yaml", []byte(
		"name: cfd\nhead: {class: service}\nqueues:\n  - {name: cpu, nodes: 4}\n  - name: gpu\n    class: h100x8\n    max: "+
			"2\n    min: 2\nsite: home\n"))
	short := mustParse(t, "cluster.yaml", []byte("# small\nname: cfd\nnodes: 4\n"))
	for _, tc := range []struct {
		doc  *Document
		path string
		want string
	}{
		{long, "", "1:1"}, {long, "name", "1:7"}, {long, "head", "2:1"}, {long, "head.class", "2:15"},
		{long, "queues", "3:1"}, {long, "queues[0]", "4:5"}, {long, "queues[0].nodes", "4:24"}, {long, "queues[0].max", "4:24"},
		{long, "queues[0].class", "4:5"}, {long, "queues[1]", "5:5"}, {long, "queues[1].class", "6:12"},
		{long, "queues[gpu].max", "7:10"},
		{long, "queues[7].max", "3:1"}, {long, "site[0]", "9:7"}, {long, "lease.for", "1:1"}, {long, "storage[/a.b].size", "1:1"},
		{long, "]", "1:1"}, {long, "...", "1:1"},
		{short, "", "2:1"}, {short, "queues[0].max", "3:8"}, {short, "queues[main].class", "3:8"}, {short, "image", "2:1"},
	} {
		line, col := tc.doc.Position(tc.path)
		if got := fmt.Sprintf("%d:%d", line, col); got != tc.want {
			t.Errorf("%q at %s, want %s", tc.path, got, tc.want)
		}
	}
}

func TestPositionsPointAtTheirValues(t *testing.T) {
	for path, src := range corpus(t, "good") {
		doc := mustParse(t, path, src)
		lines := strings.Split(strings.TrimPrefix(string(src), "\ufeff"), "\n")
		for where, want := range map[string]string{
			"name": doc.Cluster.Name, "image": doc.Cluster.Image, "queues[1].name": lastQueue(doc.Cluster),
		} {
			at, written := doc.places[where]
			if !written {
				continue
			}
			rest := strings.TrimLeft(string([]rune(lines[at.line-1])[at.col-1:]), `"'`)
			if !strings.HasPrefix(rest, want) {
				t.Errorf("%s: %s at %v, where %q stands", filepath.Base(path), where, at, rest)
			}
		}
	}
}

func lastQueue(c Cluster) string {
	if len(c.Queues) == 0 {
		return ""
	}
	return c.Queues[len(c.Queues)-1].Name
}

func TestLocateAddsWhereAndOrders(t *testing.T) {
	doc := mustParse(t, "cluster.yaml", []byte("name: cfd\nqueues:\n  - {name: cpu, nodes: 4, class: gone}\n"))
	given := Diagnostics{
		{Code: "unknown-class", Path: "queues[0].class", Text: `no class is called "gone"`, Hint: "classes: epyc-ib"},
		{Code: "name-taken", Path: "name", Text: "the project has a cluster of this name"},
		{Code: "elsewhere", File: "other.yaml", Line: 1, Col: 2, Text: "stays"},
	}
	want := "other.yaml:1:2: stays\n" +
		"cluster.yaml:1:7: name: the project has a cluster of this name\n" +
		"cluster.yaml:3:34: queues[0].class: no class is called \"gone\" (classes: epyc-ib)"
	if got := doc.Locate(given).Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if given[0].Line != 0 {
		t.Error("the caller's diagnostics were changed")
	}
}

func TestDiagnosticPrintsWhatIsKnown(t *testing.T) {
	for want, d := range map[string]Diagnostic{
		"cluster.yaml:7:12: queues[0].max: must be more (write 1)": {File: "cluster.yaml", Line: 7, Col: 12,
			Path: "queues[0].max", Text: "must be more", Hint: "write 1"},
		"7:12: queues[0].max: must be more": {Line: 7, Col: 12, Path: "queues[0].max",
			Text: "must be more"},
		"name: is missing":                {Path: "name", Text: "is missing"},
		"cluster.yaml: the file is empty": {File: "cluster.yaml", Text: "the file is empty"},
	} {
		if got := d.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	text, err := json.Marshal(Diagnostic{Code: CodeSyntax, Path: "name", Line: 1, Col: 2, Text: "t", Hint: "h", File: "f"})
	if want := `{"code":"syntax","path":"name","file":"f","line":1,"col":2,"text":"t","hint":"h"}`; err != nil ||
		string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

func TestLargeFilesAreRefusedSoon(t *testing.T) {
	testall.Only(t)
	for name, src := range map[string]string{
		"bytes":        "name: " + strings.Repeat("x", maxBytes),
		"lines":        strings.Repeat("\n", maxLines) + "name: cfd",
		"words":        "name: [" + strings.Repeat("a,", maxTokens) + "]",
		"brackets":     strings.Repeat("[", maxTokens),
		"braces":       strings.Repeat("{a: ", maxTokens/4),
		"dashes":       strings.Repeat("- ", maxTokens),
		"indents":      staircase(maxIndent + 50),
		"blank block":  "a: |\n" + strings.Repeat("\n", maxLines-10),
		"spaced block": "a: |\n" + strings.Repeat(strings.Repeat(" ", 90)+"\n", maxLines-10),
		"keys":         strings.Repeat("a: ", maxTokens/2),
		"questions":    strings.Repeat("? ", maxTokens),
		"unknown keys": strings.Repeat("nodse: 1\n", maxLines-10),
		"blank lines after a block's text": "a: |\n x" + strings.Repeat("x", maxBytes-maxLines-9) +
			strings.Repeat("\n", maxLines-9),
		"ends of lines of old Macs": "a: |\n x" + strings.Repeat("\r", maxBytes-9),
		"signs":                     strings.Repeat("[", maxBytes-9),
		"signs of merging":          "a: " + strings.Repeat("<", maxBytes-9),
		"one long line": "name: cfd\nshares: [" + strings.Repeat("{user: ada, share: 3}, ", 500) + "] # " +
			strings.Repeat("x", maxBytes-20_000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := spent(t)
		if _, err := Parse(name, []byte(src)); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if took := spent(t) - start; took > 2*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 64<<20 {
			t.Errorf("%s: took %d MiB", name, (after.TotalAlloc-before.TotalAlloc)>>20)
		}
	}
}

func TestAFileFullOfMistakesIsToldTheFirstHundred(t *testing.T) {
	var fields, anchors strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&fields, "node%d: 1\n", i)
		fmt.Fprintf(&anchors, "a%d: &a%d 1\n", i, i)
	}
	for src, last := range map[string]string{
		"name: cfd\nnodes: 1\n" + fields.String():                                                  "cluster.yaml:103:1: ",
		"name: cfd\nqueues:\n- {" + strings.ReplaceAll(fields.String(), "\n", ", ") + "name: cpu}": "cluster.yaml:3:1",
		anchors.String(): "cluster.yaml:101:7: ",
	} {
		_, err := Parse("cluster.yaml", []byte(src))
		var ds Diagnostics
		if !errors.As(err, &ds) || len(ds) != mostFound+1 {
			t.Fatalf("%d mistakes are listed: %.300v", len(ds), err)
		}
		got := ds[mostFound].Error()
		if !strings.HasPrefix(got, last) || !strings.Contains(got, ": more than 100 mistakes; the others are not listed (") {
			t.Errorf("the last is %q, at %s", got, last)
		}
	}
}

// TestHintsAreMadeForAHundredMistakesOnly: those of thousands took seconds. For a name that is too long none is looked for.
func TestHintsAreMadeForAHundredMistakesOnly(t *testing.T) {
	allocations := func(field string) float64 {
		var src strings.Builder
		for i := range 3000 {
			fmt.Fprintf(&src, "%s%d: 1\n", field, i)
		}
		return testing.AllocsPerRun(1, func() { _, _ = Parse("cluster.yaml", []byte(src.String())) })
	}
	near, far := allocations("node"), allocations(strings.Repeat("x", 40))
	if t.Logf("%.0f and %.0f allocations", near, far); near > 1.5*far {
		t.Errorf("a file of fields that are nearly known takes %.0f allocations, one of others %.0f", near, far)
	}
}

// spent is this process's own CPU time, which a busy machine does not lengthen.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

func staircase(steps int) string {
	var b strings.Builder
	for i := range steps {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestResolveLeavesItsInputAlone(t *testing.T) {
	given := mustParse(t, "", []byte("name: cfd\nhead: {}\nqueues:\n  - {name: cpu, nodes: 4}\n")).Cluster
	before := string(Render(given))
	resolved := mustResolve(t, given)
	*resolved.Queues[0].Max = 99
	if after := string(Render(given)); after != before {
		t.Errorf("it became\n%s", after)
	}
}

func TestResolveSaysWhichDefaultIsMissing(t *testing.T) {
	doc := mustParse(t, "cluster.yaml", []byte("name: cfd\nnodes: 4\n"))
	_, err := Resolve(doc.Cluster, Defaults{Project: "aero", Site: "home", HeadClass: "service"})
	ds, ok := err.(Diagnostics)
	want := "cluster.yaml:1:1: image: is missing, and the site has no default for it (write image: NAME)\n" +
		"cluster.yaml:2:8: queues[0].class: is missing, and the site has no default for it (write class: NAME)"
	if got := doc.Locate(ds).Error(); !ok || got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestResolveHoldsAProgramsClusterToTheRules(t *testing.T) {
	two, four := 2, 4
	for want, c := range map[string]Cluster{
		CodeConflict:     {Name: "cfd", Nodes: 4, Queues: []Queue{{Name: "cpu", Nodes: &four}}},
		CodeMissingField: {Name: "cfd"},
		CodeBadValue:     {Name: "CFD", Nodes: 4},
		CodeNotAvailable: {Name: "cfd", Queues: []Queue{{Name: "cpu", Min: &two, Max: &four}},
			Storage: []Storage{{Mount: "/scratch"}}},
	} {
		_, err := Resolve(c, catalogue)
		ds, ok := err.(Diagnostics)
		if !ok || ds[0].Code != want || ds[0].Line != 0 {
			t.Errorf("want %s, got %+v", want, err)
		}
	}
}

func TestJSONAndYAMLSayTheSame(t *testing.T) {
	yaml := mustParse(t, "", []byte("name: cfd\nsite: home\nqueues:\n  - {name: cpu, nodes: 4, class: epyc-ib}\n")).Cluster
	text, err := json.MarshalIndent(yaml, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(yaml, mustParse(t, "", text).Cluster); diff != "" {
		t.Errorf("(-YAML +JSON):\n%s", diff)
	}
}
