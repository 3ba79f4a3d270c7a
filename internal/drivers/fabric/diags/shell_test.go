package diags

import (
	"strings"
	"testing"
)

func TestAScriptThatIsCutOffDoesNothingFromThereOn(t *testing.T) {
	if out, err := (Shell{}).Run(t.Context(), "echo one\ncat <<'end'\ntwo\n"); err != nil || string(out) != "one\ntwo\n" {
		t.Errorf("%q, %v", out, err)
	}
	_, err := (Shell{}).Run(t.Context(), "echo ibwarn: [$$] why [a] >&2\nexit 3\n") // the same, whatever process says it
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 3: ibwarn: why [a]") {
		t.Error(err)
	}
	if _, err := (Shell{}).Run(t.Context(), "echo why >&2; exit 3\n"); err == nil ||
		err.Error() != "/bin/sh: exit status 3: why" {
		t.Errorf("%v", err)
	}
}
