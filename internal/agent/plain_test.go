package agent

import (
	"os"
	"strings"
	"testing"

	"muster/internal/agent/protocol"
)

func TestTheHostFileHasTheNodesThatMayBeUsed(t *testing.T) {
	d := testDisk(t)
	config := &protocol.Config{Plain: true, Network: "10.77.0.0/16", Self: protocol.Peer{Name: "head", Role: protocol.Head}, Peers: []protocol.Peer{
		{Name: "head", Role: protocol.Head, CPUs: 8, Ready: true},
		{Name: "n1", Role: protocol.Compute, CPUs: 4, Ready: true},
		{Name: "n2", Role: protocol.Compute, CPUs: 4},
		{Name: "n3", Role: protocol.Compute, Ready: true},
	}}
	for range 2 { // the second time on top of the first
		_, err := system{disk: d}.apply(config, daemonAccounts{}, "")
		must(t, err)
	}
	text, err := d.read(sharedHostFile)
	must(t, err)
	if _, got, _ := strings.Cut(text, "\n"); got != "n1 slots=4\nn3 slots=1\n" {
		t.Errorf("%q", text)
	}
	if to, err := os.Readlink(d.path(hostFile)); err != nil || to != sharedHostFile {
		t.Error(to, err)
	}
	mpi, err := d.read(mpiFile)
	must(t, err)
	if strings.Count(mpi, "orte_default_hostfile = "+hostFile+"\n") != 1 {
		t.Error(mpi)
	}
	for _, name := range []string{mungeKeyFile, slurmFile, clientFile} {
		if d.exists(name) {
			t.Errorf("%s is of no use there", name)
		}
	}
}

func TestAClusterWithSlurmHasNoHostFileByWhichMPIWouldPassTheQueueBy(t *testing.T) {
	d := testDisk(t)
	config := &protocol.Config{Self: protocol.Peer{Name: "n1", Role: protocol.Compute}, Peers: []protocol.Peer{{Name: "head", Role: protocol.Head, Address: "10.77.0.2"}}}
	_, err := system{disk: d}.apply(config, daemonAccounts{}, "")
	must(t, err)
	mpi, err := d.read(mpiFile)
	must(t, err)
	if _, err := os.Lstat(d.path(hostFile)); err == nil || strings.Contains(mpi, "hostfile") {
		t.Error(mpi)
	}
}

func TestAKeyThatCameWithAnotherClustersFilesIsReplaced(t *testing.T) {
	d := testDisk(t)
	alice := protocol.User{Name: "alice", UID: os.Geteuid() + 1000}
	files := func() (private, public, authorized string) {
		for name, text := range map[string]*string{"id_ed25519": &private, "id_ed25519.pub": &public, "authorized_keys": &authorized} {
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
	if private == oldPrivate || public == oldPublic || strings.Contains(authorized, oldPublic) || !strings.Contains(authorized, public) {
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
