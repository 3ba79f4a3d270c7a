// Package house holds the tree to its own rules: who may import whom, how long a file may be, what must not stand in it.
package house

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kit holds what all packages share: any may import it, and it imports nothing of the house.
const kit = "internal/kit/"

func root(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// tracked lists the files of the tree that match a pattern.
func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	c := exec.Command("git", append([]string{"ls-files", "--"}, patterns...)...)
	c.Dir = root(t)
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// drawing reads from docs/architecture.md which packages of the house each package may import, itself, its own folders and the
// kit aside: arrows go down only. The page names packages below internal without that word.
func drawing(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root(t), "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	above := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:cmd|internal)/[a-z0-9/-]+|images)` \\|.*\\| ?([^|]*)\\|$").FindAllSubmatch(page, -1) {
		name := string(row[1])
		if above[name] != nil {
			t.Errorf("docs/architecture.md has two rows of %s", name)
		}
		above[name] = []string{}
		for imported := range strings.SplitSeq(strings.TrimSpace(string(row[2])), ", ") {
			if imported != "" && imported != "images" {
				imported = "internal/" + imported
			}
			above[name] = append(above[name], imported)
		}
	}
	return above
}

func TestImportsFollowTheDrawing(t *testing.T) {
	above, seen := drawing(t), map[string]bool{}
	c := exec.Command("go", "list", "-json=ImportPath,Imports", "./cmd/...", "./internal/...", "./images/...")
	c.Dir = root(t)
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, "muster/")
		allowed, drawn := above[name]
		seen[name] = true
		if !drawn && !strings.HasPrefix(name, kit) {
			t.Errorf("package %s is not in the drawing", name)
		}
		for _, imported := range p.Imports {
			imported, ours := strings.CutPrefix(imported, "muster/")
			if ours && !slices.Contains(allowed, imported) && !strings.HasPrefix(imported, name+"/") && !strings.HasPrefix(imported, kit) {
				t.Errorf("%s imports %s: that arrow is not in the drawing", name, imported)
			}
		}
	}
	for name := range above {
		if !seen[name] {
			t.Errorf("the drawing has %s, which is no package", name)
		}
	}
}

// The scheduler's and its key's names stand in its driver's folder. Elsewhere code asks what a scheduler can, and what State a
// node has. What is listed here is said to people, or stands in what people and databases have already.
var namesAScheduler = map[string]string{
	"internal/noded/protocol/earlier.go": "what agents of older versions are told and say",
	"internal/api/alias.go":              "slurm in a node is a deprecated alias of scheduler",
	"internal/api/views.go":              "the same",
	"internal/apiv1/centres.go":          "an example in the document",
	"internal/apiv1/nodes.go":            "slurm in a node is a deprecated alias of scheduler",
	"internal/apiv1/site.go":             "the names of secrets, as the document says them",
	"internal/api/accounts.go":           "accounts of Debian's that no user may have",
	"internal/door/centre/ask.go":        "asks batch systems that others run",
	"internal/door/centre/slurm.go":      "the same",
	"internal/cli/cli.go":                "help",
	"internal/cli/clusters_register.go":  "help",
	"internal/cli/describe.go":           "help",
	"internal/cli/gpus.go":               "help",
	"internal/cli/images.go":             "help",
	"internal/cli/secrets.go":            "help",
	"internal/drivers/all.go":            "the list",
	"internal/boot/images/check.go":      "an example of a check's name",
	"internal/spec/fields.go":            "documentation of the cluster file",
	"internal/spec/types.go":             "the value in the cluster file",
	"internal/spec/resolve.go":           "it is the default",
	"internal/kinds/cluster/kind.go":     "columns of existing databases",
	"internal/kinds/cluster/rows.go":     "the same",
	"internal/kinds/node/rows.go":        "the same",
	"internal/kinds/node/observed.go":    "the same",
}

func TestASchedulerIsNamedInItsFolderAlone(t *testing.T) {
	word, seen := regexp.MustCompile(`(?i)slurm|munge`), map[string]bool{}
	for _, file := range tracked(t, "cmd/*.go", "internal/*.go", "images/*.go") {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "internal/drivers/scheduler/slurm/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			continue // deleted, not committed yet
		}
		for i, line := range strings.Split(string(text), "\n") {
			if !word.MatchString(line) {
				continue
			}
			if seen[file] = true; namesAScheduler[file] == "" {
				t.Errorf("%s:%d: %s", file, i+1, strings.TrimSpace(line))
			}
		}
	}
	for file := range namesAScheduler {
		if !seen[file] {
			t.Errorf("%s names no scheduler any more: it needs no leave to", file)
		}
	}
}

func TestFilesStaySmall(t *testing.T) {
	const limit = 600
	for _, file := range tracked(t, "*.go", "*.sh") {
		text, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			continue // deleted, not committed yet
		}
		if n := bytes.Count(text, []byte("\n")); n > limit {
			t.Errorf("%s has %d lines: a room to divide", file, n)
		}
	}
}

func TestTheTreeSpeaksOfItselfAlone(t *testing.T) {
	// The path of the tree on this machine, hosts of package registries, and marks that nobody will find again.
	bad := regexp.MustCompile(regexp.QuoteMeta(root(t)) + `\b|\b(proxy|registry|deb|files)\.[a-z]+\.org\b|\bpypi\.|\b(TODO|FIXME|XXX)\b`)
	for _, file := range tracked(t) {
		if strings.HasPrefix(file, "test/house/") || file == "go.sum" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			if found := bad.FindString(line); found != "" {
				t.Errorf("%s:%d: %q", file, i+1, found)
			}
		}
	}
}

// docs/security.md names, for each attack, the tests that hold its answer, and `make attack` runs them by these names.
func TestEveryAttackOfThePageHasItsTest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("`((?:internal|test)/[a-z0-9/]+)`((?: `Test[A-Za-z0-9]+`)+)").FindAllSubmatch(page, -1)
	if len(rows) < 20 {
		t.Fatalf("the page names the tests of %d attacks", len(rows))
	}
	for _, row := range rows {
		for _, name := range strings.Fields(strings.ReplaceAll(string(row[2]), "`", " ")) {
			held := false
			for _, file := range tracked(t, string(row[1])+"/*_test.go") {
				text, err := os.ReadFile(filepath.Join(root(t), file))
				if err != nil {
					t.Fatal(err)
				}
				held = held || bytes.Contains(text, []byte("\nfunc "+name+"(t *testing.T)"))
			}
			if !held {
				t.Errorf("docs/security.md: %s has no %s", row[1], name)
			}
		}
	}
}
