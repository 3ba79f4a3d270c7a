package local

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/netns"
)

// TestAClusterGoesOnAtAHostThatIsAway has a cluster's gateway on this host, and a guest on another one, where no interface has
// the gateway's address.
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

// TestAPortKeepsNobodyWhoAsksIt has a guest ask for the gateway at a bridge's own group address, which comes to the guest's port
// itself, on behalf of ever new neighbours.
func TestAPortKeepsNobodyWhoAsksIt(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: networks need root")
	}
	s, dir := newNetworkOfMachines(t), filepath.Join(t.TempDir(), "cables")
	cables, err := NewCables(dir)
	check(t, err)
	check(t, cables.EnsureShared(t.Context(), "c1", s.network(7)))
	t.Cleanup(func() { check(t, cables.RemoveShared(context.Background(), "c1")) })
	n, guest := s.guest(t, cables, "c1", 7, local1)
	gateway := substrate.Gateway().Addr().AsSlice()
	const asks = 20
	ask := func() error {
		link, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(socket)
		for i := range asks {
			question := slices.Concat([]byte{0x01, 0x80, 0xc2, 0, 0, 0x0e}, n.MAC, []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 1}, n.MAC,
				substrate.Address(1000+i).Addr().AsSlice(), make([]byte, 6), gateway)
			if err := unix.Sendto(socket, question, 0, &unix.SockaddrLinklayer{Ifindex: link.Index}); err != nil {
				return err
			}
		}
		return nil
	}
	var heard uint64
	var kept []netlink.Neigh
	look := func() bool {
		check(t, netns.Do(guest, ask)) // again each time: the kernel drops what is sent before it has noticed that the link is up
		check(t, netns.Links(filepath.Join(dir, "clusters/c1/netns"), func(links *netlink.Handle) error {
			port, err := links.LinkByName(substrate.PortName(n.Node))
			if err != nil {
				return err
			}
			heard = port.Attrs().Statistics.RxPackets
			kept, err = links.NeighList(port.Attrs().Index, unix.AF_INET)
			return err
		}))
		return heard >= asks
	}
	eventually(t, "the port hears all questions", look)
	time.Sleep(100 * time.Millisecond) // who is kept is kept by then
	if look(); len(kept) > 0 {
		t.Errorf("the host keeps %d neighbours of a guest's making, as %v", len(kept), kept[0])
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
