package noded

import (
	"os"
	"strings"
	"testing"

	"muster/internal/protocol"
)

func TestAKeyThatCameWithAnotherClustersFilesIsReplaced(t *testing.T) {
	d := testDisk(t)
	alice := protocol.User{Name: "alice", UID: os.Geteuid() + 1000}
	files := func() (private, public, authorized string) {
		for name, text := range map[string]*string{"id_muster": &private, "id_muster.pub": &public,
			"authorized_keys": &authorized} {
			content, err := d.read("/home/alice/.ssh/" + name)
			must(t, err)
			*text = content
		}
		return private, public, authorized
	}
	must(t, homes{d, "c-origin"}.ensure(alice))
	oldPrivate, oldPublic, _ := files()
	// By the name of a key that its user brought.
	must(t, os.WriteFile(d.path("/home/alice/.ssh/id_ed25519"), []byte(oldPrivate), 0o600))
	must(t, os.WriteFile(d.path("/home/alice/.ssh/id_ed25519.pub"), []byte(oldPublic), 0o644))
	must(t, homes{d, "c-copy"}.ensure(alice)) // on files that were copied
	private, public, authorized := files()
	if private == oldPrivate || public == oldPublic || strings.Contains(authorized, strings.Fields(oldPublic)[1]) ||
		!strings.Contains(authorized, public) {
		t.Errorf("the copy's keys are\n%s%s", public, authorized)
	}
	if half, err := publicHalf(private, madeFor+"c-copy"); err != nil || half+"\n" != public {
		t.Error(half, public, err)
	}
}

// A key that a user brought may have a passphrase, or no public half: programs that go from node to node use the cluster's.
func TestAKeyThatAUserBroughtStaysBesideTheClusters(t *testing.T) {
	d := testDisk(t)
	alice := protocol.User{Name: "alice", UID: os.Geteuid() + 1000}
	must(t, homes{d, "c-1"}.ensure(alice))
	own, line, err := sshKey("alice@laptop")
	must(t, err)
	must(t, os.WriteFile(d.path("/home/alice/.ssh/id_ed25519"), own, 0o600))
	for _, public := range []string{"", line + "\n"} {
		if public != "" {
			must(t, os.WriteFile(d.path("/home/alice/.ssh/id_ed25519.pub"), []byte(public), 0o644))
		}
		for _, cluster := range []string{"c-1", "c-copy"} {
			must(t, homes{d, cluster}.ensure(alice))
			kept, err := d.read("/home/alice/.ssh/id_ed25519")
			must(t, err)
			authorized, err := d.read("/home/alice/.ssh/authorized_keys")
			must(t, err)
			made, err := d.read("/home/alice/.ssh/id_muster.pub")
			must(t, err)
			if kept != string(own) || !strings.Contains(authorized, made) || !strings.Contains(made, madeFor+cluster) ||
				strings.Contains(authorized, strings.Fields(line)[1]) != (public != "") {
				t.Errorf("of cluster %s, with %q beside her own key: %s\n%s", cluster, public, made, authorized)
			}
		}
	}
	peers := []protocol.Peer{{Name: "head", Address: "10.77.0.2"}, {Name: "n1", Address: "10.77.0.3"}}
	if text := sshClient(peers); !strings.Contains(text, "Host head 10.77.0.2 n1 10.77.0.3\n\tIdentityFile ~/.ssh/id_muster\n") {
		t.Error(text)
	}
}
