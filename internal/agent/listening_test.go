package agent

import (
	"net"
	"testing"
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
