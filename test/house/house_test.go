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

// above lists, for every package, which packages of the house it may import, itself, its own folders and the kit aside. It is
// the drawing of docs/architecture.md as data: arrows go down only.
var above = map[string][]string{
	"cmd/muster":                               {"internal/cli"},
	"cmd/muster-init":                          {"internal/environment/firststage"},
	"internal/cli":                             {"images", "internal/acceptance", "internal/access", "internal/agent", "internal/agent/protocol", "internal/apiv1", "internal/controller", "internal/drivers", "internal/environment/images", "internal/fabric", "internal/gpus", "internal/hardware", "internal/inventory", "internal/printable", "internal/private", "internal/rack", "internal/spec", "internal/store"},
	"internal/controller":                      {"internal/admission", "internal/agent/protocol", "internal/api", "internal/apiv1", "internal/centre", "internal/drivers", "internal/drivers/fabric", "internal/drivers/power", "internal/drivers/substrate", "internal/drivers/substrate/remote", "internal/drivers/switch", "internal/environment/identity", "internal/environment/images", "internal/environment/initramfs", "internal/environment/netboot", "internal/environment/onlink", "internal/fabric", "internal/gateway", "internal/inventory", "internal/lifecycle", "internal/limit", "internal/login", "internal/monitor", "internal/private", "internal/rotation", "internal/sealing", "internal/store", "internal/telemetry", "internal/webdoor"},
	"internal/api":                             {"internal/acceptance", "internal/access", "internal/admission", "internal/agent/protocol", "internal/apiv1", "internal/centre", "internal/elastic", "internal/environment/identity", "internal/environment/images", "internal/drivers/power", "internal/fabric", "internal/drivers/switch", "internal/fabric/topology", "internal/inventory", "internal/limit", "internal/login", "internal/placement", "internal/rotation", "internal/spec", "internal/store", "internal/drivers/substrate", "internal/telemetry", "internal/usage", "internal/webdoor"},
	"internal/apiv1":                           {"internal/access", "internal/agent/protocol", "internal/fabric", "internal/inventory", "internal/placement", "internal/spec", "internal/usage"},
	"internal/rotation":                        {"internal/environment/identity", "internal/store"},
	"internal/gateway":                         {"internal/access", "internal/agent/protocol", "internal/centre", "internal/environment/identity", "internal/printable", "internal/store", "internal/drivers/substrate", "internal/telemetry"},
	"internal/acceptance":                      {"internal/agent/protocol", "internal/inventory"},
	"internal/lifecycle":                       {"internal/acceptance", "internal/admission", "internal/agent/protocol", "internal/drivers/power", "internal/drivers/scheduler", "internal/drivers/substrate", "internal/elastic", "internal/environment/identity", "internal/fabric", "internal/inventory", "internal/printable", "internal/spec", "internal/store", "internal/telemetry", "internal/usage"},
	"internal/monitor":                         {"internal/access", "internal/agent/protocol", "internal/drivers/scheduler", "internal/environment/identity", "internal/environment/netboot", "internal/environment/onlink", "internal/inventory", "internal/limit", "internal/placement", "internal/printable", "internal/spec", "internal/store", "internal/drivers/substrate", "internal/telemetry"},
	"internal/admission":                       {"internal/agent/protocol", "internal/calendar", "internal/drivers/scheduler", "internal/fabric", "internal/fabric/topology", "internal/inventory", "internal/placement", "internal/spec", "internal/store", "internal/drivers/substrate", "internal/usage"},
	"internal/webdoor":                         {"internal/access", "internal/limit", "internal/printable", "internal/spec", "internal/store", "internal/drivers/substrate"},
	"internal/placement":                       {"internal/fabric/topology", "internal/inventory"},
	"internal/elastic":                         {"internal/agent/protocol"},
	"internal/calendar":                        {"internal/inventory"},
	"internal/store":                           {"internal/access", "internal/agent/protocol", "internal/fabric", "internal/fabric/topology", "internal/inventory", "internal/placement", "internal/printable", "internal/sealing", "internal/spec", "internal/telemetry", "internal/usage"},
	"internal/sealing":                         {},
	"internal/telemetry":                       {},
	"internal/store/storetest":                 {"internal/sealing", "internal/store", "internal/telemetry", "internal/usage"},
	"internal/drivers":                         {"internal/drivers/scheduler", "internal/drivers/scheduler/none", "internal/drivers/scheduler/slurm", "internal/drivers/substrate/vm", "internal/drivers/substrate", "internal/drivers/substrate/local", "internal/drivers/substrate/metal"},
	"internal/drivers/substrate/local":         {"internal/agent/protocol", "internal/drivers/substrate", "internal/drivers/substrate/onhost", "internal/hardware", "internal/inventory", "internal/netns", "internal/tree"},
	"internal/drivers/substrate/onhost":        {"internal/drivers/substrate"},
	"internal/drivers/substrate/vm":            {"internal/agent/protocol", "internal/drivers/substrate", "internal/drivers/substrate/onhost", "internal/environment/initramfs", "internal/hardware", "internal/inventory", "internal/netns", "internal/placement"},
	"internal/drivers/substrate/vm/domain":     {"internal/inventory", "internal/placement"},
	"internal/drivers/substrate/remote":        {"internal/agent/protocol", "internal/drivers/substrate", "internal/fabric", "internal/placement"},
	"internal/drivers/substrate/metal":         {"internal/agent/protocol", "internal/drivers/power", "internal/drivers/substrate", "internal/drivers/switch", "internal/inventory"},
	"internal/drivers/substrate/fake":          {"internal/drivers/substrate"},
	"internal/drivers/substrate/substratetest": {"internal/drivers/substrate"},
	"internal/agent":                           {"internal/agent/accelerators", "internal/agent/hosting", "internal/agent/inspection", "internal/agent/jail", "internal/agent/longpoll", "internal/agent/measure", "internal/agent/protocol", "internal/drivers/scheduler", "internal/hardware", "internal/inventory"},
	"internal/agent/hosting":                   {"internal/agent/inspection", "internal/agent/longpoll", "internal/agent/protocol", "internal/drivers/substrate", "internal/drivers/substrate/local", "internal/drivers/substrate/remote", "internal/drivers/substrate/vm", "internal/drivers/substrate/vm/devices", "internal/environment/firststage", "internal/environment/initramfs", "internal/hardware", "internal/inventory"},
	"internal/agent/accelerators":              {"internal/agent/protocol", "internal/hardware", "internal/inventory", "internal/kmod"},
	"internal/agent/inspection":                {"internal/agent/measure", "internal/agent/protocol", "internal/hardware", "internal/inventory"},
	"internal/drivers/scheduler":               {"internal/agent/protocol"},
	"internal/drivers/scheduler/slurm":         {"internal/agent/protocol", "internal/drivers/scheduler", "internal/hardware", "internal/inventory"},
	"internal/drivers/scheduler/none":          {"internal/agent/protocol", "internal/drivers/scheduler"},
	"internal/drivers/scheduler/schedulertest": {"internal/agent/protocol", "internal/drivers/scheduler"},
	"internal/gpus":                            {"internal/drivers/scheduler"},
	"internal/agent/jail":                      {"internal/agent/protocol"},
	"internal/agent/longpoll":                  {},
	"internal/agent/measure":                   {},
	"internal/agent/protocol":                  {},
	"internal/netns":                           {},
	"internal/tree":                            {},
	"internal/rack":                            {"internal/inventory", "internal/netns"},
	"internal/environment/netboot":             {"internal/agent/protocol", "internal/environment/onlink", "internal/inventory", "internal/netns", "internal/telemetry"},
	"internal/environment/onlink":              {"internal/netns"},
	"internal/environment/identity":            {},
	"internal/gateway/target":                  {},
	"internal/fabric":                          {},
	"internal/fabric/topology":                 {"internal/fabric"},
	"internal/fabric/fabrictest":               {"internal/fabric"},
	"internal/centre":                          {"internal/environment/identity", "internal/gateway/target", "internal/store"},
	"internal/environment/images":              {"internal/environment/initramfs", "internal/inventory", "internal/kmod"},
	"internal/environment/firststage":          {"internal/agent/protocol", "internal/kmod"},
	"internal/environment/initramfs":           {},
	"internal/kmod":                            {},
	"internal/usage":                           {"internal/inventory"},
	"internal/inventory":                       {},
	"internal/inventory/shapes":                {"internal/inventory"},
	"internal/hardware":                        {"internal/inventory"},
	"internal/login":                           {"internal/inventory"},
	"internal/login/logintest":                 {},
	"internal/limit":                           {},
	"internal/access":                          {},
	"internal/printable":                       {},
	"internal/private":                         {},
	"internal/spec":                            {},
	"internal/drivers/substrate":               {"internal/agent/protocol", "internal/drivers/power", "internal/drivers/switch", "internal/fabric", "internal/inventory", "internal/placement"},
	"images":                                   {},

	"internal/drivers/power":                    {"internal/inventory", "internal/netns", "internal/private"},
	"internal/drivers/power/ipmi":               {"internal/drivers/power"},
	"internal/drivers/power/powertest":          {"internal/drivers/power", "internal/inventory", "internal/netns", "internal/private"},
	"internal/drivers/power/powertest/toy":      {"internal/drivers/power"},
	"internal/drivers/power/program":            {"internal/drivers/power", "internal/netns", "internal/private"},
	"internal/drivers/power/redfish":            {"internal/drivers/power"},
	"internal/drivers/power/wol":                {"internal/drivers/power", "internal/inventory", "internal/netns"},
	"internal/drivers/switch":                   {"internal/inventory"},
	"internal/drivers/switch/bridge":            {"internal/drivers/switch", "internal/drivers/switch/uplink", "internal/inventory"},
	"internal/drivers/switch/fake":              {"internal/drivers/switch"},
	"internal/drivers/switch/none":              {"internal/drivers/switch", "internal/inventory"},
	"internal/drivers/switch/ovs":               {"internal/drivers/switch", "internal/drivers/switch/uplink", "internal/inventory"},
	"internal/drivers/switch/switchtest":        {"internal/drivers/switch", "internal/drivers/switch/uplink", "internal/netns"},
	"internal/drivers/switch/uplink":            {"internal/drivers/switch", "internal/netns"},
	"internal/drivers/fabric":                   {"internal/fabric", "internal/private"},
	"internal/drivers/fabric/fake":              {"internal/fabric"},
	"internal/drivers/fabric/opensm":            {"internal/drivers/fabric", "internal/fabric", "internal/private"},
	"internal/drivers/fabric/opensm/ibsim":      {"internal/fabric"},
	"internal/drivers/fabric/opensm/opensmtest": {"internal/drivers/fabric/opensm/ibsim", "internal/fabric", "internal/fabric/fabrictest"},
	"internal/drivers/fabric/ufm":               {"internal/drivers/fabric", "internal/drivers/fabric/opensm", "internal/fabric"},
	"internal/drivers/fabric/ufm/ufmtest":       {"internal/drivers/fabric/fake", "internal/fabric"},

	"internal/drivers/substrate/vm/devices":             {"internal/agent/inspection", "internal/fabric", "internal/inventory"},
	"internal/drivers/substrate/vm/devices/fake":        {},
	"internal/drivers/substrate/vm/devices/devicestest": {"internal/drivers/substrate/vm/devices"},
}

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

func TestImportsFollowTheDrawing(t *testing.T) {
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
}

// The scheduler's and its key's names stand in its driver's folder. Elsewhere code asks what a scheduler can, and what State a
// node has. What is listed here is said to people, or stands in what people and databases have already.
var namesAScheduler = map[string]string{
	"internal/agent/protocol/earlier.go":   "what agents of older versions are told and say",
	"internal/api/alias.go":                "slurm in a node is a deprecated alias of scheduler",
	"internal/api/views.go":                "the same",
	"internal/apiv1/centres.go":            "an example in the document",
	"internal/apiv1/nodes.go":              "slurm in a node is a deprecated alias of scheduler",
	"internal/apiv1/site.go":               "the names of secrets, as the document says them",
	"internal/api/accounts.go":             "accounts of Debian's that no user may have",
	"internal/centre/ask.go":               "asks batch systems that others run",
	"internal/centre/slurm.go":             "the same",
	"internal/cli/cli.go":                  "help",
	"internal/cli/clusters_register.go":    "help",
	"internal/cli/describe.go":             "help",
	"internal/cli/gpus.go":                 "help",
	"internal/cli/images.go":               "help",
	"internal/cli/secrets.go":              "help",
	"internal/drivers/all.go":              "the list",
	"internal/environment/images/check.go": "an example of a check's name",
	"internal/spec/fields.go":              "documentation of the cluster file",
	"internal/spec/types.go":               "the value in the cluster file",
	"internal/spec/resolve.go":             "it is the default",
	"internal/store/authority.go":          "columns of existing databases",
	"internal/store/cluster.go":            "the same",
	"internal/store/node.go":               "the same",
	"internal/store/observed.go":           "the same",
	"internal/store/secret.go":             "the same",
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
