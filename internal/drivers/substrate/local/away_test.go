package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/netns"
)

// TestAClusterGoesOnAtAHostThatIsAway has a cluster's gateway on this host, and a guest on another one, where nobody has the
// gateway's address.
func TestAClusterGoesOnAtAHostThatIsAway(t *testing.T) {
	s, here := newNetworkOfMachines(t), open(t, site(t))
	t.Cleanup(func() { here.down(t) })
	away, err := NewCables(filepath.Join(t.TempDir(), "cables"))
	check(t, err)
	network := s.network(7)
	check(t, here.EnsureShared(t.Context(), "c1", network))
	host := s.namespace(t, "host") // the other one, whose NIC is a port of its own bridge
	in(t, host, "ip", "link", "add", "muster0", "type", "bridge")
	in(t, s.netns, "ip", "link", "add", "p-host", "type", "veth", "peer", "name", "nic", "netns", host)
	in(t, s.netns, "ip", "link", "set", "p-host", "master", "boot0", "up")
	in(t, host, "ip", "link", "set", "nic", "master", "muster0", "up")
	in(t, host, "ip", "link", "set", "muster0", "up")
	network.Away, network.Uplinks = true, []substrate.Uplink{{Namespace: host, Interface: "muster0"}}
	for range 2 { // it may be called again
		check(t, away.EnsureShared(t.Context(), "c1", network))
	}
	t.Cleanup(func() { check(t, away.RemoveShared(context.Background(), "c1")) })

	n, guest := s.guest(t, away, "c1", 7, local1)
	meet(t, guest, "eth0", 7, substrate.GatewaySlot, metal)

	listener, err := here.Listen(t.Context(), "c1", 8000)
	if err != nil {
		t.Fatal(err)
	}
	answer(t, listener, "from the gateway")
	check(t, here.Introduce(t.Context(), "c1", n.Address.Addr()))
	s.machine(t, "machine", "10.78.0.9/16", 7, metal, local1)
	serve(t, guest, "from the guest")
	eventually(t, "the guest reaches the gateway", func() bool {
		return ask(t, guest, substrate.GatewaySlot) == "from the gateway"
	})
	eventually(t, "the gateway reaches the guest", func() bool { return dialled(t, here, "c1", local1) == "from the guest" })
	eventually(t, "the guest reaches a machine", func() bool { return ask(t, guest, metal) == "from machine" })

	if err := away.RemoveShared(t.Context(), "c1"); err == nil {
		t.Error("a network with a guest's port in it was removed")
	}

	other := network
	other.Segment = 8
	check(t, away.EnsureShared(t.Context(), "c2", other))
	t.Cleanup(func() { check(t, away.RemoveShared(context.Background(), "c2")) })
	_, stranger := s.guest(t, away, "c2", 8, local2)
	meet(t, stranger, "eth0", 7, local1) // its kernel is its own, and may say what it likes
	before := received(t, guest)
	if before == "" {
		t.Error("nothing is known of what a guest has heard")
	}
	if got := ask(t, stranger, local1); got != "" || received(t, guest) != before {
		t.Errorf("another cluster's guest on the same host says something to this one's, and hears %q", got)
	}
}

// guest plugs a namespace into a cluster's network as a hypervisor does with a guest.
func (s networkOfMachines) guest(t *testing.T, on Cables, cluster string, segment, slot int) (substrate.Node, string) {
	t.Helper()
	n := node(cluster, slot-256, 1, "")
	n.Address, n.MAC = substrate.Address(slot), substrate.MAC(segment, slot)
	from, guest := s.namespace(t, cluster+"-from"), s.namespace(t, cluster+"-guest")
	in(t, from, "ip", "link", "add", substrate.PortName(n.Node), "type", "veth", "peer", "name", "eth0", "address",
		n.MAC.String(), "netns", guest)
	in(t, guest, "ip", "addr", "add", n.Address.String(), "dev", "eth0")
	in(t, guest, "ip", "link", "set", "eth0", "arp", "off", "up")
	check(t, on.PlugPort(t.Context(), n, from))
	t.Cleanup(func() { check(t, on.DropPort(context.Background(), n.Cluster, n.Node)) })
	return n, guest
}

// received is how many packets have come to a guest.
func received(t *testing.T, path string) string {
	t.Helper()
	var text []byte
	check(t, netns.Do(path, func() (err error) {
		text, err = exec.Command("ip", "-s", "link", "show", "eth0").Output()
		return err
	}))
	_, after, _ := strings.Cut(string(text), "RX:")
	lines := strings.Split(after, "\n")
	if len(lines) < 2 {
		return ""
	}
	return strings.TrimSpace(lines[1])
}

// TestCablesNeedNoRunc: a host that only holds guests has none.
func TestCablesNeedNoRunc(t *testing.T) {
	t.Setenv("PATH", "")
	if _, err := NewCables(filepath.Join(t.TempDir(), "cables")); err != nil {
		t.Error(err)
	}
	if _, err := NewCables(strconv.Quote(os.TempDir())); err == nil {
		t.Error("a path that is not absolute was taken")
	}
}
