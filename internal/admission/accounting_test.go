package admission_test

import (
	"errors"
	"strings"
	"testing"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/machine"
)

func TestAccountsOfJobsAreRefusedWhereNothingWouldKeepThem(t *testing.T) {
	d := newFixture(t, farm(4, 0)...)
	for _, c := range []struct {
		file string
		mib  int
		code string // "": it is taken
	}{
		{"accounting: full", 0, ""},
		{"accounting: full", 511, "too-small"},
		{"accounting: full", 512, ""},
		{"accounting: none", 511, ""},
		{"accounting: full\nimage: no-database", 512, "image-without-accounting"},
		{"accounting: none\nimage: no-database", 512, ""},
		{"image: no-database", 512, ""},
		{"accounting: full\nsoftware: {scheduler: none}", 512, "no-accounting"},
		{"qos: [{name: short}]", 511, "too-small"},
		{"qos: [{name: short}]", 512, ""},
		{"qos: [{name: short}]\nimage: no-database", 512, "image-without-accounting"},
		{"accounting: none\nsoftware: {scheduler: none}", 512, ""},
	} {
		if err := d.db.Update(t.Context(), func(tx *core.Tx) error {
			for _, name := range []string{"s1", "s2", "s3", "s4"} {
				if err := machine.SaveFacts(t.Context(), tx, name, 1, inventory.Facts{CPUs: 8, Arch: "amd64",
					MemoryMiB: c.mib}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		var refusal *admission.Refusal
		_, err := d.plan("name: a\nnodes: 1\n" + c.file + "\n")
		switch {
		case c.code == "" && err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.code != "" && (!errors.As(err, &refusal) ||
			string(refusal.Diagnostics[0].Code) != c.code || !strings.HasPrefix(c.file, refusal.Diagnostics[0].Path+":")):
			t.Errorf("%+v: %v", c, err)
		}
	}
}
