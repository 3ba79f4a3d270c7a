package hostlist

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestHostListsExpand(t *testing.T) {
	for list, want := range map[string]string{
		"":                    "",
		"n1":                  "n1",
		"n[1-3]":              "n1 n2 n3",
		"n[08-11,3],gpu-1":    "n08 n09 n10 n11 n3 gpu-1",
		"rack[1-2]n[1-2]":     "rack1n1 rack1n2 rack2n1 rack2n2",
		"a[1]b,c":             "a1b c",
		"cpu-[1-2],gpu-[1,3]": "cpu-1 cpu-2 gpu-1 gpu-3",
	} {
		got, err := Expand(list, Most)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q %v", list, got, err)
		}
	}
	for _, bad := range []string{"n[", "n]", "n[[1]]", "n[2-1]", "n[a]", "n[1-99999999]", "a[1-9999]b[1-9999]",
		"n[1-40000],m[1-40000]"} {
		if got, err := Expand(bad, Most); err == nil {
			t.Errorf("%q: accepted as %d names", bad, len(got))
		}
	}
}

func TestNamesWithoutBracketsExpandToThemselves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringMatching(`[a-z][a-z0-9-]{0,9}`), 1, 20).Draw(t, "names")
		got, err := Expand(strings.Join(names, ","), Most)
		if err != nil || !cmp.Equal(names, got) {
			t.Fatalf("%q %v", got, err)
		}
	})
}

func TestNoMoreNamesThanAreWanted(t *testing.T) {
	for list, fits := range map[string]bool{"n[1-3]": true, "n[1-4]": false, "a,b,c": true, "a,b,c,d": false,
		"a[1-2]b[1-2]": false, "[1][1][1][1]": true, "[1][1][1][1][1]": false} {
		if got, err := Expand(list, 3); (err == nil) != fits {
			t.Errorf("%q: %q %v", list, got, err)
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("n[08-11,3],gpu-1")
	f.Add("rack[1-2]n[1-2]")
	f.Fuzz(func(t *testing.T, list string) {
		if got, err := Expand(list, 100); err == nil && len(got) > 100 {
			t.Errorf("%q: %d names", list, len(got))
		}
	})
}
