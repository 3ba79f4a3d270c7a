package controller

import (
	"strings"
	"testing"

	"muster/internal/fabric"
	"muster/internal/store"
)

func TestDriversOfFabricsAreOpenedFromRows(t *testing.T) {
	row := store.Fabric{ID: "f1", Name: "ib0", Driver: "opensm", Managers: []fabric.GUID{1, 2}}
	for name, c := range map[string]struct {
		driver string
		config map[string]string
		wrong  string // "": nothing is
	}{
		"plain":          {"opensm", map[string]string{"hosts": "here,root@sm2"}, ""},
		"all":            {"opensm", map[string]string{"hosts": "here,root@sm2", "partitions": "/p", "log": "/l", "signal": "true", "options": "-C mlx5_1"}, ""},
		"too much":       {"opensm", map[string]string{"shell": "sh -s"}, `knows no "shell"; it is told hosts, log, options`},
		"ufm":            {"ufm", map[string]string{"url": "https://ufm.example.org", "token_file": "/nowhere"}, "no such file"},
		"ufm's reader":   {"ufm", map[string]string{"url": "https://ufm.example.org", "reader": "two words"}, `"two words" is no host`},
		"no reader":      {"ufm", map[string]string{"url": "https://ufm.example.org", "options": "-C mlx5_1"}, "no reader is named"},
		"ufm without":    {"ufm", nil, "told url, which is where UFM is"},
		"half a path":    {"ufm", map[string]string{"url": "https://ufm.example.org", "token_file": "secret"}, `token_file "secret" is not a whole path`},
		"unknown driver": {"subnet", nil, `there is no driver "subnet"; there are opensm, ufm`},
	} {
		t.Run(name, func(t *testing.T) {
			f := row
			f.Driver, f.Config = c.driver, c.config
			err := newFabrics(t.TempDir()).check(f)
			if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestADriverStaysUntilItsRowChanges(t *testing.T) {
	all := newFabrics(t.TempDir())
	row := store.Fabric{ID: "f1", Name: "ib0", Driver: "opensm", Managers: []fabric.GUID{1}}
	first, err := all.Driver(row)
	if err != nil {
		t.Fatal(err)
	}
	row.Revision, row.Reason = 7, "something else"
	if again, err := all.Driver(row); err != nil || again != first {
		t.Errorf("another one for the same: %v", err)
	}
	row.Config = map[string]string{"partitions": "/elsewhere"}
	if other, err := all.Driver(row); err != nil || other == first {
		t.Errorf("the same for another: %v", err)
	}
}
