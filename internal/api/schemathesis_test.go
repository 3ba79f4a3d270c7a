package api_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/kit/testall"
)

// Schemathesis reads the served OpenAPI document and calls every operation with data that fits it and data that does
// not. The API must never fail with 5xx, answer only as documented, refuse what is wrong and take what is right.
func TestTheAPIKeepsWhatItsDocumentPromises(t *testing.T) {
	testall.Only(t)
	program, err := filepath.Abs("../../build/venv/bin/schemathesis")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("the API is not tried by schemathesis: it is not installed; `make test-all` does that")
	}
	s, _ := server(t, 6)
	examples := "8"
	if n := os.Getenv("MUSTER_SCHEMATHESIS_EXAMPLES"); n != "" {
		examples = n
	}
	c := exec.Command(program, "run", s.URL+"/openapi.yaml", "--header", "Authorization: Bearer "+token,
		"--seed", "1", "--max-examples", examples, "--phases", "examples,coverage,fuzzing",
		// How fast it answers is not what is tried here, and the machine may be busy.
		"--request-timeout", "120",
		// The watch never ends by itself.
		"--exclude-path-regex", "events$",
		// A cluster file has rules that a schema cannot express, so not all that fits the schema is accepted. And huma
		// takes an empty query parameter, or null for an optional field, as not given, where the schema is stricter.
		"--exclude-checks", "positive_data_acceptance,negative_data_rejection",
		"--suppress-health-check", "all", "--no-color")
	c.Dir = t.TempDir()
	c.Env = append(os.Environ(), "HOME="+c.Dir)
	out, err := c.CombinedOutput()
	text := string(out)
	if err != nil {
		if i := strings.Index(text, "====="); i >= 0 { // what it did before it tells what is wrong
			text = text[i:]
		}
		t.Fatalf("schemathesis: %v\n%s", err, text)
	}
	if i := strings.Index(text, "SUMMARY"); i >= 0 {
		t.Log(text[i:])
	}
}
