package noded

import (
	"net"
	"sync"
	"testing"

	"muster/internal/kit/netns"
)

func TestAListeningPortIsSeenBothWays(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	connected, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connected.Close() }()
	client := connected.LocalAddr().(*net.TCPAddr).Port
	for name, see := range map[string]func(int) bool{"sock_diag": listening, "table": listeningByTable} {
		if !see(port) {
			t.Errorf("%s: the listener is not seen", name)
		}
		if see(client) {
			t.Errorf("%s: a connection's port passes for a listener", name)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if listening(port) || listeningByTable(port) {
		t.Error("a closed listener is seen")
	}
}

// TestWhoAsksInANetworkHearsOfItsListeners asks from two threads at once. At most one of them is the process's first.
func TestWhoAsksInANetworkHearsOfItsListeners(t *testing.T) {
	one, other := machine(t)
	var there, done sync.WaitGroup
	there.Add(2)
	for _, path := range []string{one, other} {
		l, err := netns.Listen(path, "tcp4", ":0")
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		port := l.Addr().(*net.TCPAddr).Port
		done.Go(func() {
			err := netns.Do(path, func() error {
				there.Done()
				there.Wait()
				for name, see := range map[string]func(int) bool{"sock_diag": listening, "table": listeningByTable} {
					if !see(port) {
						t.Errorf("%s: the listener is not seen", name)
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
				there.Done() // it was not there
			}
		})
	}
	done.Wait()
}
