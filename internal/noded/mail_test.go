package noded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
)

func TestLettersAreDeliveredInOrderUntilTheyAreTaken(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	put := func(name, text string, age time.Duration) {
		t.Helper()
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		must(t, os.Chtimes(path, now.Add(-age), now.Add(-age)))
	}
	var posted []string
	takes, fails := 100, error(nil)
	d := &mailDuty{dir: dir, console: &console{out: io.Discard},
		post: func(_ context.Context, l protocol.Letters) (protocol.Posted, error) {
			posted = nil
			for _, letter := range l.Letters {
				posted = append(posted, letter.To+" "+letter.User+" "+letter.Subject)
			}
			return protocol.Posted{Done: min(takes, len(l.Letters))}, fails
		}}
	once := func(what string, left int, want ...string) {
		t.Helper()
		err := d.once(t.Context(), now)
		if (err != nil) != (fails != nil) || !slices.Equal(posted, want) {
			t.Errorf("%s: %q, %v", what, posted, err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != left {
			t.Errorf("%s: %d files are left: %v", what, len(entries), entries)
		}
	}
	put("a.letter", "ada\nada\nsecond\n", time.Minute)
	put("b.letter", "eve@example.org\nada\nfirst\n", time.Hour)
	put(".half", "ada\n", 0)
	put("c.letter", "too few", 0)
	put("d.letter", "ada\nada\ntoo old\n", 25*time.Hour)
	put(".halves", "", 25*time.Hour)
	must(t, os.Symlink("/etc/shadow", filepath.Join(dir, "e.letter")))
	fails = errors.New("nobody is there")
	once("while the controller is away", 3, "eve@example.org ada first", "ada ada second")
	fails, takes = nil, 1
	once("one is taken", 2, "eve@example.org ada first", "ada ada second")
	takes = 100
	once("the other, too", 1, "ada ada second")
	for i := range 120 {
		put(fmt.Sprintf("%03d.letter", i), "ada\nada\n"+strings.Repeat("x", 9000), time.Hour-time.Duration(i)*time.Second)
	}
	must(t, d.once(t.Context(), now))
	if len(posted) != protocol.MostLetters || len(posted[0]) > mostLetter {
		t.Errorf("%d at a time, of %d bytes", len(posted), len(posted[0]))
	}
	d.dir = filepath.Join(dir, "gone")
	must(t, d.once(t.Context(), now))
}
