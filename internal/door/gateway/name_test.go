package gateway

import (
	"strings"
	"testing"
)

func TestUserNamesSayWhoAndWhere(t *testing.T) {
	for user, want := range map[string]login{
		"cfd": {"", "cfd"}, "aero/cfd": {"", "aero/cfd"}, "cfd.aero": {"", "aero/cfd"}, "alice+cfd": {"alice", "cfd"},
		"alice+aero/cfd": {"alice", "aero/cfd"},
		"":               {}, "a b": {}, "+cfd": {}, "alice+": {"alice", ""}, "a/b/c": {}, "../etc": {},
		strings.Repeat("x", 300): {},
		"a+b+c":                  {"a", ""}, "ä": {},
	} {
		if got := parseLogin(user); got != want {
			t.Errorf("%q: %+v, want %+v", user, got, want)
		}
	}
}

func TestHostNamesSayWhichNode(t *testing.T) {
	for host, want := range map[string][]jump{
		"n3.cfd": {{"n3", "cfd"}, {"", "cfd/n3"}}, "n3.cfd.aero": {{"n3", "aero/cfd"}, {"", "cfd.aero/n3"}}, "cfd": {{"", "cfd"}},
		"N3.cfd.muster": {{"n3", "cfd"}, {"", "cfd/n3"}}, "cfd.muster.": {{"", "cfd"}}, "": nil, "10.77.0.1:22": nil,
		"a/b": {{"", "a/b"}},
	} {
		got := parseJump(host)
		if len(got) != len(want) {
			t.Errorf("%q: %+v, want %+v", host, got, want)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%q: %+v, want %+v", host, got, want)
			}
		}
	}
}

// Names come from strangers' hands as they are.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"cfd", "alice+aero/cfd", "n3.cfd.aero.muster", "..", "a/b/c", "+", "\x00", "n3.cfd\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l := parseLogin(text)
		refs := []string{l.ref}
		for _, j := range parseJump(text) {
			if j.ref == "" || strings.ContainsAny(j.node, "./ ") {
				t.Errorf("%q: %+v", text, j)
			}
			refs = append(refs, j.ref)
		}
		for _, ref := range refs {
			if strings.Count(ref, "/") > 1 || strings.ContainsAny(ref, " \n\x00") || len(ref) > maxName {
				t.Errorf("%q: %q", text, ref)
			}
		}
	})
}
