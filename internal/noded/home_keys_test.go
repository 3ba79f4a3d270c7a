package noded

import (
	"os"
	"strings"
	"testing"

	"muster/internal/noded/protocol"
)

func TestAKeyThatCameWithAnotherClustersFilesIsReplaced(t *testing.T) {
	d := testDisk(t)
	alice := protocol.User{Name: "alice", UID: os.Geteuid() + 1000}
	files := func() (private, public, authorized string) {
		for name, text := range map[string]*string{"id_ed25519": &private, "id_ed25519.pub": &public,
			"authorized_keys": &authorized} {
			content, err := d.read("/home/alice/.ssh/" + name)
			must(t, err)
			*text = content
		}
		return private, public, authorized
	}
	must(t, homes{d, "c-origin"}.ensure(alice))
	oldPrivate, oldPublic, _ := files()
	must(t, homes{d, "c-copy"}.ensure(alice)) // on files that were copied
	private, public, authorized := files()
	if private == oldPrivate || public == oldPublic || strings.Contains(authorized, oldPublic) ||
		!strings.Contains(authorized, public) {
		t.Errorf("the copy's keys are\n%s%s", public, authorized)
	}
	if half, err := publicHalf(private, madeFor+"c-copy"); err != nil || half+"\n" != public {
		t.Error(half, public, err)
	}
	own := strings.ReplaceAll(public, madeFor+"c-copy", "alice@laptop") // a key that she brought
	must(t, os.WriteFile(d.path("/home/alice/.ssh/id_ed25519.pub"), []byte(own), 0o644))
	must(t, homes{d, "c-third"}.ensure(alice))
	if kept, _, _ := files(); kept != private {
		t.Error("the user's own key was replaced")
	}
}
