package vm

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
)

func TestALibvirtThatHangsFailsTheCall(t *testing.T) {
	t.Chdir(t.TempDir()) // a socket's path is short
	listener, err := net.Listen("unix", socketFile)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	v, err := dial(t.Context(), ".", 50*time.Millisecond)
	if err == nil {
		v.close()
	}
	if err == nil || !strings.Contains(err.Error(), "has not answered for 50ms") {
		t.Error(err)
	}
}

// A call that starts a guest has libvirt's lock, for minutes if its devices take so long.
func TestAGuestGoesWhileAnotherOneStarts(t *testing.T) {
	d := &Driver{config: Config{Dir: t.TempDir()}}
	if err := os.MkdirAll(filepath.Join(d.guests(), "c1.n2", "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(d.config.Dir, "locks"), 0o700); err != nil {
		t.Fatal(err)
	}
	unlock, err := onhost.Shared(t.Context(), d.lockPath("libvirt"))
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- d.Remove(t.Context(), substrate.Ref{Cluster: "c1", Node: "n1"}) }()
	select {
	case err := <-gone:
		if err != nil {
			t.Error(err)
		}
		unlock()
	case <-time.After(2 * time.Minute):
		t.Error("it waits for the other one's start")
		unlock()
		<-gone
	}
}
