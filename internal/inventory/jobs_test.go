package inventory

import (
	"strings"
	"testing"
	"time"
)

func TestASiteSaysWhatIsKeptOfJobs(t *testing.T) {
	for text, want := range map[string]Jobs{
		"":                                 {400 * 24 * time.Hour, 200_000},
		"jobs: {keep: 90d}":                {90 * 24 * time.Hour, 200_000},
		"jobs: {keep: 1d, per_project: 1}": {24 * time.Hour, 1},
	} {
		c, err := parseCatalogue([]byte(builtin + text + "\n"))
		if err != nil || c.Jobs != want {
			t.Errorf("%s: %+v, %v", text, c.Jobs, err)
		}
	}
	for text, want := range map[string]string{
		"jobs: {keep: 1h}": "jobs.keep", "jobs: {keep: soon}": "jobs.keep", "jobs: {per_project: 0}": "jobs.per_project",
		"jobs: {per_project: 200000000}": "from 1 to 100000000", "jobs: {most: 3}": "most",
	} {
		if _, err := parseCatalogue([]byte(builtin + text + "\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
