package words

import "testing"

func TestOneThingIsNotMany(t *testing.T) {
	for n, want := range map[int]string{0: "0 nodes", 1: "1 node", 2: "2 nodes"} {
		if got := Count(n, "node"); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestOfManyNamesThreeAreSaid(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string
	}{
		{nil, ""}, {[]string{"n1"}, "n1"}, {[]string{"n1", "n2", "n3", "n4"}, "n1, n2, n3, n4"},
		{[]string{"n1", "n2", "n3", "n4", "n5"}, "n1, n2, n3, and 2 more"},
	} {
		if got := Few(c.names); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestAmountsAreReadAtOnce(t *testing.T) {
	for _, c := range []struct {
		value      float64
		unit, want string
	}{{93, "%", "93 %"}, {12.5, "GiB", "12.5 GiB"}, {1234567, "", "1234567"}, {0.1 + 0.2, "s", "0.3 s"}} {
		if got := Amount(c.value, c.unit); got != c.want {
			t.Errorf("%v: %q, want %q", c.value, got, c.want)
		}
	}
}

func TestSizesInTheirUnit(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 195842048: "187 MiB", 4 << 30: "4.0 GiB"} {
		if got := Size(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
