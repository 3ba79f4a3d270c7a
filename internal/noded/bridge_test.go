package noded

import (
	"strings"
	"testing"
	"time"

	"muster/internal/kit/netns"
	"muster/internal/protocol"
)

// TestAHypervisorsNICIsAPortOfABridge: the machine's own address and its routes go to the bridge, and it is heard there.
func TestAHypervisorsNICIsAPortOfABridge(t *testing.T) {
	path, segment := machine(t)
	inside(t, path, "ip route add default via 10.78.0.1 && ip route add 10.99.0.0/16 via 10.78.0.2 metric 7")
	for range 2 { // as after a start that was interrupted
		must(t, netns.Do(path, func() error { return bridgeOver("eth0") }))
	}
	must(t, netns.Do(path, func() error { return bridgeOver(protocol.HostBridge) })) // as when it has been noted
	nic, bridge := inside(t, path, "ip addr show eth0"), inside(t, path, "ip addr show "+protocol.HostBridge)
	if !strings.Contains(nic, "master "+protocol.HostBridge) || strings.Contains(nic, "inet ") {
		t.Errorf("the NIC:\n%s", nic)
	}
	if !strings.Contains(bridge, "inet 10.78.0.11/16") || !strings.Contains(bridge, nicMAC) {
		t.Errorf("the bridge:\n%s", bridge)
	}
	routes := inside(t, path, "ip route")
	for _, want := range []string{"default via 10.78.0.1 dev " + protocol.HostBridge,
		"10.99.0.0/16 via 10.78.0.2 dev " + protocol.HostBridge, "metric 7"} {
		if !strings.Contains(routes, want) {
			t.Errorf("no route %q in\n%s", want, routes)
		}
	}

	listener, err := netns.Listen(segment, "tcp", "10.78.0.1:8069")
	must(t, err)
	defer listener.Close()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		connection, err := netns.Dial(t.Context(), path, "tcp", "10.78.0.1:8069")
		if err == nil {
			_ = connection.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the controller is not reached over the bridge: %v", err)
		}
	}
}
