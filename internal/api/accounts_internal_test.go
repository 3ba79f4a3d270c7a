package api

import (
	"strings"
	"testing"
)

func TestANameThatCannotBeAnAccountIsToldWhyAndWhatWouldWork(t *testing.T) {
	for name, want := range map[string][2]string{
		"alice": {"", "alice"}, "a-b_c9": {"", "a-b_c9"}, "Alice": {"capital letters", "alice"},
		"ALICE": {"capital letters", "alice"},
		"":      {"it is empty", "NAME"}, "root": {"systems have a user", "NAME"}, "systemd-x": {"systems have a user", "NAME"},
		"1st": {"does not begin with a letter", "st"}, "_x": {"does not begin with a letter", "x"},
		"alice@example.org": {`it has "@"`, "alice"}, "ada.lovelace": {`it has "."`, "ada-lovelace"},
		"Ada Lovelace": {`it has "A"`, "ada-lovelace"}, "zoë": {`it has "ë"`, "zo"}, "михаил": {`it has "м"`, "NAME"},
		strings.Repeat("x", 33): {"33 characters", strings.Repeat("x", 32)},
		"a\x1b[31m":             {`it has "\x1b"`, "a--31m"},
	} {
		why, like := noAccount(name), accountLike(name)
		if want[0] == "" && why != "" || !strings.Contains(why, want[0]) || like != want[1] {
			t.Errorf("%q: %q, and like %q; want %q", name, why, like, want)
		}
		if noAccount(like) != "" && like != "NAME" {
			t.Errorf("%q, which was proposed for %q, cannot be one either", like, name)
		}
	}
}
