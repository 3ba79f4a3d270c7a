// Package house holds the tree to its own rules: who may import whom, how long a file may be, what must not stand in it.
package house

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kit holds what all packages share: any may import it, and it imports nothing of the house.
const kit = "internal/kit/"

// leaf is what programs of others may import: it imports nothing of the house, not even the kit.
const leaf = "api/v1"

// drawing reads from docs/architecture.md which packages of the house each package may import, itself, its own folders and the
// kit aside: arrows go down only. The page names packages below internal without that word in what others import.
func drawing(t *testing.T) map[string][]string {
	t.Helper()
	page := house(t).page(t, "docs/architecture.md")
	above := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:api|cmd|internal)/[a-z0-9/-]+|images|ui)` \\|.*\\| ?([^|]*)\\|$").
		FindAllStringSubmatch(page, -1) {
		name := row[1]
		if above[name] != nil {
			t.Errorf("docs/architecture.md has two rows of %s", name)
		}
		above[name] = []string{}
		for imported := range strings.SplitSeq(strings.TrimSpace(row[2]), ", ") {
			if imported != "" && imported != "images" && imported != "ui" && imported != leaf {
				imported = "internal/" + imported
			}
			above[name] = append(above[name], imported)
		}
	}
	return above
}

// imports are the packages of the house, by name, with those of ours that each imports.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	c := exec.Command("go", "list", "-json=ImportPath,Imports", "./api/v1", "./cmd/...", "./internal/...", "./images/...", "./ui")
	c.Dir = house(t).root
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, "muster/")
		all[name] = nil
		for _, imported := range p.Imports {
			if imported, ours := strings.CutPrefix(imported, "muster/"); ours {
				all[name] = append(all[name], imported)
			}
		}
	}
	return all
}

func TestImportsFollowTheDrawing(t *testing.T) {
	above, all := drawing(t), imports(t)
	for name, its := range all {
		allowed, drawn := above[name]
		if !drawn && !strings.HasPrefix(name, kit) {
			t.Errorf("package %s is not in the drawing", name)
		}
		for _, imported := range its {
			if !slices.Contains(allowed, imported) && !strings.HasPrefix(imported, name+"/") &&
				(!strings.HasPrefix(imported, kit) || name == leaf) {
				t.Errorf("%s imports %s: that arrow is not in the drawing", name, imported)
			}
		}
	}
	for name := range above {
		if _, is := all[name]; !is {
			t.Errorf("the drawing has %s, which is no package", name)
		}
	}
}

// TestRoomsStandAboveEachOther: a room is a folder of internal with all that is in it. Which of two imports the other is the same
// for all their packages, also by way of others.
func TestRoomsStandAboveEachOther(t *testing.T) {
	room := func(name string) string {
		name = strings.TrimPrefix(name, "internal/")
		if name != leaf {
			name, _, _ = strings.Cut(name, "/")
		}
		return name
	}
	below := map[string]map[string]string{} // of a room, those that it imports: by which packages
	for name, its := range imports(t) {
		for _, imported := range its {
			from, to := room(name), room(imported)
			if from == to {
				continue
			}
			if below[from] == nil {
				below[from] = map[string]string{}
			}
			below[from][to] = name + " → " + imported
		}
	}
	done := map[string]bool{}
	var visit func(name string, path []string)
	visit = func(name string, path []string) {
		if i := slices.Index(path, name); i >= 0 {
			var arrows []string
			for i, path := i, append(path, name); i+1 < len(path); i++ {
				arrows = append(arrows, below[path[i]][path[i+1]])
			}
			t.Errorf("rooms stand above themselves: %s", strings.Join(arrows, ", "))
			return
		}
		if done[name] {
			return
		}
		for to := range below[name] {
			visit(to, append(slices.Clone(path), name))
		}
		done[name] = true
	}
	for name := range below {
		visit(name, nil)
	}
}

// The scheduler's and its key's names stand in its driver's folder. Elsewhere code asks what a scheduler can, and what State a
// node has. What is listed here is said to people, or stands in what people and databases have already.
var namesAScheduler = map[string]string{
	"api/v1/external_clusters.go":       "an example in the document",
	"api/v1/site.go":                    "the names of secrets, as the document says them",
	"internal/api/accounts.go":          "accounts of Debian's that no user may have",
	"internal/door/external/ask.go":     "asks batch systems that others run",
	"internal/door/external/slurm.go":   "the same",
	"internal/cli/cli.go":               "help",
	"internal/cli/clusters_register.go": "help",
	"internal/cli/describe.go":          "help",
	"internal/cli/gpus.go":              "help",
	"internal/cli/images.go":            "help",
	"internal/cli/secrets.go":           "help",
	"internal/drivers/all.go":           "the list",
	"internal/boot/images/check.go":     "an example of a check's name",
	"internal/spec/fields.go":           "documentation of the cluster file",
	"internal/spec/types.go":            "the value in the cluster file",
	"internal/spec/resolve.go":          "it is the default",
}

func TestASchedulerIsNamedInItsFolderAlone(t *testing.T) {
	word, seen := regexp.MustCompile(`(?i)slurm|munge`), map[string]bool{}
	for f := range house(t).product() {
		if strings.HasPrefix(f.path, "internal/drivers/scheduler/slurm/") || !word.MatchString(f.text) {
			continue
		}
		if seen[f.path] = true; namesAScheduler[f.path] != "" {
			continue
		}
		for i, line := range strings.Split(f.text, "\n") {
			if word.MatchString(line) {
				t.Errorf("%s:%d: %s", f.path, i+1, strings.TrimSpace(line))
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
	for _, f := range house(t).files {
		if ext := path.Ext(f.path); ext != ".go" && ext != ".sh" {
			continue
		}
		if n := strings.Count(f.text, "\n"); n > limit {
			t.Errorf("%s has %d lines: a room to divide", f.path, n)
		}
	}
}

// Package serve is wiring: what grows there belongs to a package of its own.
func TestServeIsWiring(t *testing.T) {
	const limit = 900
	lines := 0
	for f := range house(t).product() {
		if path.Dir(f.path) == "internal/serve" {
			lines += strings.Count(f.text, "\n")
		}
	}
	if lines == 0 || lines > limit {
		t.Errorf("internal/serve has %d lines; at most %d are wiring", lines, limit)
	}
}

func TestTheTreeSpeaksOfItselfAlone(t *testing.T) {
	// The path of the tree on this machine, hosts of package registries, and marks that will not be found again.
	house := house(t)
	bad := regexp.MustCompile(regexp.QuoteMeta(house.root) +
		`\b|\b(proxy|registry|deb|files)\.[a-z]+\.org\b|\bpypi\.|\b(TODO|FIXME|XXX)\b`)
	for _, f := range house.files {
		if strings.HasPrefix(f.path, "test/house/") || strings.HasPrefix(f.path, "ui/dist/") || f.path == "go.sum" ||
			strings.HasSuffix(f.path, "package-lock.json") {
			continue
		}
		for _, found := range bad.FindAllStringIndex(f.text, -1) {
			t.Errorf("%s:%d: %q", f.path, 1+strings.Count(f.text[:found[0]], "\n"), f.text[found[0]:found[1]])
		}
	}
}

// docs/security.md names, for each attack, the tests that hold its answer, and `make attack` runs them by these names.
func TestEveryAttackOfThePageHasItsTest(t *testing.T) {
	house := house(t)
	page := house.page(t, "docs/security.md")
	rows := regexp.MustCompile("`((?:internal|test)/[a-z0-9/]+)`((?: `Test[A-Za-z0-9]+`)+)").FindAllStringSubmatch(page, -1)
	if len(rows) < 20 {
		t.Fatalf("the page names the tests of %d attacks", len(rows))
	}
	for _, row := range rows {
		for _, name := range strings.Fields(strings.ReplaceAll(row[2], "`", " ")) {
			held := slices.ContainsFunc(house.files, func(f file) bool {
				return strings.HasPrefix(f.path, row[1]+"/") && strings.HasSuffix(f.path, "_test.go") &&
					strings.Contains(f.text, "\nfunc "+name+"(t *testing.T)")
			})
			if !held {
				t.Errorf("docs/security.md: %s has no %s", row[1], name)
			}
		}
	}
}
