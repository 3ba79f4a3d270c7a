package diags

import "testing"

func TestAScriptThatIsCutOffDoesNothingFromThereOn(t *testing.T) {
	if out, err := (Shell{}).Run(t.Context(), "echo one\ncat <<'end'\ntwo\n"); err != nil || string(out) != "one\ntwo\n" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := (Shell{}).Run(t.Context(), "echo why >&2; exit 3\n"); err == nil ||
		err.Error() != "/bin/sh: exit status 3: why" {
		t.Errorf("%v", err)
	}
}
