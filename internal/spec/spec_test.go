package spec

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files again")

// catalogue is a site's defaults.
var catalogue = Defaults{Project: "aero", Site: "home", Image: "debian13-hpc", Class: "epyc-ib", HeadClass: "service"}

var codes = []string{
	CodeEncoding, CodeTooLarge, CodeEmpty, CodeSyntax, CodeYAMLFeature, CodeSeveralDocuments, CodeUnknownField, CodeDuplicateKey,
	CodeDuplicateValue, CodeWrongType, CodeEmptyValue, CodeBadValue, CodeMissingField, CodeConflict, CodeNotAvailable,
}

// corpus is the files of one folder of testdata, by path.
func corpus(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", pattern, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in testdata/%s: %v", pattern, err)
	}
	files := map[string][]byte{}
	for _, p := range paths {
		src, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		files[p] = src
	}
	return files
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	path = strings.TrimSuffix(path, ".yaml") + ".golden"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func diagnose(t testing.TB, file string, src []byte) Diagnostics {
	t.Helper()
	doc, err := Parse(file, src)
	if err == nil {
		return nil
	}
	if doc != nil {
		t.Errorf("%s: a document beside an error", file)
	}
	var ds Diagnostics
	if !errors.As(err, &ds) || len(ds) == 0 {
		t.Fatalf("%s: not Diagnostics: %v", file, err)
	}
	return ds
}

func mustParse(t testing.TB, file string, src []byte) *Document {
	t.Helper()
	doc, err := Parse(file, src)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func mustResolve(t testing.TB, c Cluster) Cluster {
	t.Helper()
	resolved, err := Resolve(c, catalogue)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func TestEveryMistakeIsReportedWhereItIs(t *testing.T) {
	files := corpus(t, "bad")
	if len(files) < 45 {
		t.Errorf("only %d bad files", len(files))
	}
	seen := map[string]bool{}
	for path, src := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			ds := diagnose(t, filepath.Base(path), src)
			if len(ds) == 0 {
				t.Fatal("accepted")
			}
			for _, d := range ds {
				seen[d.Code] = true
				if d.Line < 1 || d.Col < 1 || d.Text == "" || !slices.Contains(codes, d.Code) {
					t.Errorf("incomplete: %+v", d)
				}
			}
			golden(t, path, ds.Error()+"\n")
		})
	}
	for _, code := range codes {
		if !seen[code] {
			t.Errorf("no bad file shows %s", code)
		}
	}
}

func TestGoodFilesExpand(t *testing.T) {
	for path, src := range corpus(t, "good") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			resolved := mustResolve(t, mustParse(t, path, src).Cluster)
			golden(t, path, string(Render(resolved)))
		})
	}
}

func TestTheDesignsFullExampleOnlyWaitsForWhatIsNotAvailable(t *testing.T) {
	src, err := os.ReadFile("testdata/bad/design-full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range diagnose(t, "design-full.yaml", src) {
		if d.Code != CodeNotAvailable {
			t.Error(d)
		}
	}
}

// What a site says of an isolation decides which class a queue has that names none, and whether its nodes are parts of machines.
func TestAnIsolationHasItsOwnClass(t *testing.T) {
	site := catalogue
	site.Classes = map[string]string{"vm": "part", "metal": ""}
	site.Undivided, site.Shapes = []string{"local"}, map[string]VM{
		"part": {CPUs: 2, Memory: "1GiB"}, "epyc-ib": {CPUs: 4, Memory: "1GiB"}}
	for isolation, want := range map[string]struct {
		class string // "": refused
		cpus  int    // 0: the node is no part of a machine
	}{"auto": {"epyc-ib", 4}, "local": {"epyc-ib", 0}, "vm": {"part", 2}, "metal": {}} {
		c, err := Resolve(Cluster{Name: "cfd", Nodes: 2, Isolation: isolation}, site)
		if (err != nil) != (want.class == "") {
			t.Errorf("%s: %v", isolation, err)
		}
		if err != nil {
			continue
		}
		q, cpus := c.Queues[0], 0
		if q.VM != nil {
			cpus = q.VM.CPUs
		}
		if q.Class != want.class || cpus != want.cpus {
			t.Errorf("%s: class %s with %d CPUs, want %+v", isolation, q.Class, cpus, want)
		}
	}
}
