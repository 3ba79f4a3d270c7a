// Package api_test keeps api/openapi.yaml equal to what the controller serves.
package api_test

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/api"
	"muster/internal/drivers"
)

var update = flag.Bool("update", false, "write openapi.yaml again")

// The document's version is the contract's, not the program's.
func TestOpenAPIDocumentIsThatOfTheTypes(t *testing.T) {
	const file = "openapi.yaml"
	now, err := api.OpenAPI(api.Drivers{Power: drivers.Power(), Switches: drivers.Switches(), Substrates: drivers.Substrates()})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, now, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(kept), string(now)); diff != "" {
		t.Errorf("the API has changed; `make openapi` writes the document again (-kept +now):\n%s", diff)
	}
}
