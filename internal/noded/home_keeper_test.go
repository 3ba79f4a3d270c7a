package noded

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/protocol"
)

// TestAHomeThatCouldNotBeMadeIsTriedAgainAndTold: what is in the way may go, as room comes, and nothing asks again then.
func TestAHomeThatCouldNotBeMadeIsTriedAgainAndTold(t *testing.T) {
	d := testDisk(t)
	s := system{disk: d}
	uid := firstUID + os.Geteuid()
	users := []protocol.User{{Name: "alice", UID: uid, Keys: []string{"ssh-ed25519 AAAA laptop"}}, {Name: "bob", UID: uid + 1},
		{Name: "munge", UID: uid + 2}} // whose name the image has
	_, _, err := s.users(users, accountFiles{})
	must(t, err)
	must(t, os.MkdirAll(d.path("/home/alice/.ssh"), 0o700))
	link := d.path("/home/alice/.ssh/authorized_keys")
	must(t, os.Symlink("keys", link))

	told := make(chan []protocol.Undone, 10)
	next := func() []protocol.Undone {
		t.Helper()
		select {
		case undone := <-told:
			return undone
		case <-time.After(2 * time.Minute):
			t.Fatal("nothing is told")
		}
		return nil
	}
	k := newHomeKeeper(s, func(undone []protocol.Undone) { told <- undone })
	k.again = 5 * time.Millisecond
	var follows sync.WaitGroup
	follows.Go(func() { k.follow(t.Context()) })
	t.Cleanup(follows.Wait) // before the folder goes in which it makes homes
	k.want(users, "c-1")
	k.want(users, "c-1") // again, which is no news
	first := next()
	if len(first) != 2 || first[0].User != "alice" || !strings.Contains(first[0].Text, "authorized_keys is not a plain file") ||
		first[1].User != "munge" || !strings.Contains(first[1].Text, "no account: the image uses the name") {
		t.Errorf("undone: %+v", first)
	}
	if !d.exists("/home/bob/.ssh/authorized_keys") {
		t.Error("bob suffers from what alice did")
	}
	must(t, os.Remove(link))
	if second := next(); len(second) != 1 || second[0].User != "munge" {
		t.Errorf("once the link is gone: %+v", second)
	}
	if text, err := d.read("/home/alice/.ssh/authorized_keys"); err != nil || !strings.Contains(text, "laptop") {
		t.Errorf("%v: %q", err, text)
	}
	k.want(users[:2], "c-1")
	if third := next(); len(third) != 0 {
		t.Errorf("without the third: %+v", third)
	}
}
