package kinds_test

import (
	"regexp"
	"strings"
	"testing"

	"muster/internal/kinds/kindstest"
)

// TestDefinitionsAreWhatTheDatabaseTakes compares the phases of each kind with the constraint of its table.
func TestDefinitionsAreWhatTheDatabaseTakes(t *testing.T) {
	path := t.TempDir() + "/db"
	s := kindstest.Open(t, path)
	raw := kindstest.RawDatabase(t, path)
	defer raw.Close()
	for _, d := range s.Living() {
		var sql string
		if err := raw.QueryRowContext(t.Context(), `SELECT sql FROM sqlite_master WHERE type = 'table' AND name = $1`,
			string(d.Kind)).Scan(&sql); err != nil {
			t.Fatal(err)
		}
		constraint := regexp.MustCompile(`CHECK \(phase IN \(([^)]*)\)\)`).FindStringSubmatch(sql)
		if constraint == nil {
			t.Errorf("table %s takes any phase", d.Kind)
			continue
		}
		var phases []string
		for _, p := range append(d.Phases, d.End) {
			phases = append(phases, "'"+string(p)+"'")
		}
		if got := strings.Join(phases, ", "); got != constraint[1] {
			t.Errorf("%s: defined are %s, its table takes %s", d.Kind, got, constraint[1])
		}
	}
}
