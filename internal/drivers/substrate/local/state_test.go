package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnlyTheHeadSeesItsStateWhichOutlivesIt(t *testing.T) {
	w := open(t, site(t))
	look := "ls() { for f in /var/lib/muster/*; do echo saw $f; done; }; ls; echo kept > /var/lib/muster/jobs 2>/dev/null; ls"
	saw := func(number int, head bool) string {
		n := node("c1", number, 1, look)
		n.KeepsState = head
		b := w.up(t, n)
		var text []byte
		eventually(t, "the node has looked twice", func() bool {
			text, _ = os.ReadFile(b.console())
			return strings.Count(string(text), "saw ") >= 2
		})
		check(t, w.Remove(t.Context(), n.Ref))
		return string(text)
	}
	for _, c := range []struct {
		who   string
		head  bool
		keeps bool // from before
	}{{"the first head", true, false}, {"a compute node", false, false}, {"the second head", true, true}} {
		seen := strings.Count(saw(len(c.who), c.head), "saw /var/lib/muster/jobs")
		if want := map[bool]int{true: 1}[c.head] + map[bool]int{true: 1}[c.keeps]; seen != want {
			t.Errorf("%s saw the file %d times, want %d", c.who, seen, want)
		}
	}
	info, err := os.Stat(filepath.Join(w.config.Dir, "clusters"))
	check(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("on this host everybody may look for the state: %v", info.Mode())
	}
}
