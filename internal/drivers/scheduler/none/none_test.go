package none

import (
	"os"
	"strings"
	"testing"

	"muster/internal/drivers/scheduler/schedulertest"
	"muster/internal/protocol"
)

func TestTheHostFileHasTheNodesThatMayBeUsed(t *testing.T) {
	files := schedulertest.NewFiles(t)
	config := &protocol.Config{Self: protocol.Peer{Name: "head", Role: protocol.Head}, Peers: []protocol.Peer{
		{Name: "head", Role: protocol.Head, CPUs: 8, Ready: true},
		{Name: "n1", Role: protocol.Compute, CPUs: 4, Ready: true},
		{Name: "n2", Role: protocol.Compute, CPUs: 4},
		{Name: "n3", Role: protocol.Compute, Ready: true},
	}}
	f := Factory()
	if restart, err := f.Open(schedulertest.Host(files)).Apply(config); err != nil || len(restart) > 0 {
		t.Fatal(restart, err)
	}
	text, err := files.Read(sharedHostFile)
	if _, got, _ := strings.Cut(text, "\n"); err != nil || got != "n1 slots=4\nn3 slots=1\n" {
		t.Errorf("%q, %v", text, err)
	}
	if to, err := os.Readlink(files.Path(hostFile)); err != nil || to != sharedHostFile {
		t.Error(to, err)
	}
}
