package round

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// looked is what a job has written that looked at its nodes twice.
func looked(before, after string) []byte {
	text := ""
	for _, look := range []string{before, after} {
		text += "\n@m4rkm4rk look " + base64.StdEncoding.EncodeToString([]byte(look)) + "\n"
	}
	return []byte(text)
}

// TestCausesOutsideAValueDisturbARound: each cause is one that has been seen, and none of them is the value.
func TestCausesOutsideAValueDisturbARound(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"n1 stat cpu 100 0 100 700 0 0 0 0 0 0", "n1 stat cpu 200 0 200 1500 0 0 0 9 0 0", ""},
		{"n1 stat cpu 100 0 100 700 0 0 0 0 0 0", "n1 stat cpu 200 0 200 1480 0 0 0 20 0 0",
			"n1: 2.0 % of its CPU time were given to others by the hypervisor"},
		{"n1 stat cpu 100 0 100 700 0 0 0 0 0 0", "n1 stat cpu 110 0 110 750 0 0 0 9 0 0", ""},
		{"n1 throttled 3\nn2 throttled 3", "n1 throttled 3\nn2 throttled 5", "n2 was throttled 2 times"},
		{"n1 link.mlx5_0.ports.1.counters.symbol_error 7", "n1 link.mlx5_0.ports.1.counters.symbol_error 8",
			"n1 has 1 errors more at mlx5_0.ports.1.counters.symbol_error"},
		{"", "n1 throttled 5", ""},
		{"n1 throttled 9", "n1 throttled 5", ""},
		{"n1 stat cpu x", "n1 stat cpu 1 2 3 4 5 6 7 8", ""},
		{"n1 load 0.1 0.1 0.1 1/2 3", "n1 load 90 90 90 1/2 3", ""}, // which may be the steps themselves
	} {
		if got := Read("m4rkm4rk", looked(c.before, c.after)).Disturbed(); got != c.want {
			t.Errorf("%s, then %s: %q, not %q", c.before, c.after, got, c.want)
		}
	}
}

func TestALookIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "n%d kernel %s\n", i, strings.Repeat("x", 1000))
	}
	for i := range 200 {
		fmt.Fprintf(&b, "n0 key%d \xff\n", i)
	}
	b.WriteString("no value\n\n   \n")
	look := Read("m4rkm4rk", looked(b.String(), "")).Before
	if len(look) != mostNodes || len(look["n0"]) != mostKeys || len(look["n0"]["kernel"]) != mostValue ||
		look["n0"]["key1"] != "" {
		t.Errorf("%d nodes, %d keys, %d bytes", len(look), len(look["n0"]), len(look["n0"]["kernel"]))
	}
}
