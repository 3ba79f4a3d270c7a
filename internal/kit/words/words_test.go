package words

import "testing"

func TestOneThingIsNotMany(t *testing.T) {
	for n, want := range map[int]string{0: "0 nodes", 1: "1 node", 2: "2 nodes"} {
		if got := Count(n, "node"); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
