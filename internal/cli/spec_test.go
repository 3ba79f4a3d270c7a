package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/spec"
)

// TestThePageOnClusterFilesHasTheFieldsThatThereAre holds the tables of docs/cluster-file.md to the fields.
func TestThePageOnClusterFilesHasTheFieldsThatThereAre(t *testing.T) {
	now := "| field | type | default | effect of a change | meaning |\n| --- | --- | --- | --- | --- |\n"
	later := "| field | type | later |\n| --- | --- | --- |\n"
	for _, f := range spec.Fields() {
		kind := strings.ReplaceAll(fieldType(f), "|", `\|`)
		if f.Available() {
			now += fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", f.Path, kind, fieldDefault(f), fieldEffect(f), fieldMeaning(f))
		} else {
			later += fmt.Sprintf("| `%s` | %s | %s |\n", f.Path, kind, f.NotYet)
		}
	}
	path := filepath.Join("..", "..", "docs", "cluster-file.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for _, table := range []string{now, later} {
		head, _, _ := strings.Cut(table, "\n")
		written := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(head) + `\n(\|.*\n)+`)
		if !written.MatchString(want) {
			t.Fatalf("%s has no table %s", path, head)
		}
		want = written.ReplaceAllLiteralString(want, table)
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("%s differs from the fields (go test -update writes it again):\n%s", path, diff)
	}
}
