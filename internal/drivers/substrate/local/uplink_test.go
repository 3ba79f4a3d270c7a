package local

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/netns"
)

// networkOfMachines is a network of machines: a bridge in a namespace, which clusters are joined to.
type networkOfMachines struct{ dir, netns string }

func newNetworkOfMachines(t *testing.T) networkOfMachines {
	t.Helper()
	s := networkOfMachines{dir: t.TempDir()}
	s.netns = s.namespace(t, "shared")
	in(t, s.netns, "ip", "link", "add", "boot0", "type", "bridge")
	in(t, s.netns, "ip", "addr", "add", "10.78.0.1/16", "dev", "boot0")
	in(t, s.netns, "ip", "link", "set", "boot0", "up")
	return s
}

func (s networkOfMachines) network(segment int) substrate.Network {
	return substrate.Network{Segment: segment, Uplinks: []substrate.Uplink{{Namespace: s.netns, Interface: "boot0"}}}
}

func (s networkOfMachines) namespace(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	check(t, netns.New(path, func() error { return quiet("default") }))
	t.Cleanup(func() { check(t, unix.Unmount(path, unix.MNT_DETACH)) })
	return path
}

func (s networkOfMachines) macOf(t *testing.T, device string) (mac string) {
	t.Helper()
	check(t, netns.Links(s.netns, func(links *netlink.Handle) error {
		link, err := links.LinkByName(device)
		if err == nil {
			mac = link.Attrs().HardwareAddr.String()
		}
		return err
	}))
	return mac
}

// machine plugs a machine into the network, and lays the seat of a cluster's node over its NIC as an agent on metal
// does. At port 8000 it says who it is.
func (s networkOfMachines) machine(t *testing.T, name, address string, segment, slot int, peers ...int) string {
	t.Helper()
	path := s.namespace(t, name)
	in(t, s.netns, "ip", "link", "add", "p-"+name, "type", "veth", "peer", "name", "nic", "netns", path)
	in(t, s.netns, "ip", "link", "set", "p-"+name, "master", "boot0", "up")
	in(t, path, "ip", "addr", "add", address, "dev", "nic")
	in(t, path, "ip", "link", "set", "nic", "up")
	in(t, path, "ip", "link", "set", "lo", "up")
	in(t, path, "ip", "link", "add", "link", "nic", "name", "cluster0", "address", substrate.MAC(segment, slot).String(), "type",
		"macvlan", "mode", "bridge")
	in(t, path, "ip", "link", "set", "cluster0", "arp", "off", "up")
	in(t, path, "ip", "addr", "add", substrate.Address(slot).String(), "dev", "cluster0")
	meet(t, path, "cluster0", segment, append(peers, substrate.GatewaySlot)...)
	serve(t, path, "from "+name)
	return path
}

// meet makes the nodes of those seats permanent neighbours.
func meet(t *testing.T, path, device string, segment int, slots ...int) {
	t.Helper()
	for _, slot := range slots {
		in(t, path, "ip", "neigh", "replace", substrate.Address(slot).Addr().String(), "lladdr",
			substrate.MAC(segment, slot).String(), "dev", device, "nud", "permanent")
	}
}

// serve says the words to each client that connects to port 8000.
func serve(t *testing.T, path, words string) {
	t.Helper()
	listener, err := netns.Listen(path, "tcp", ":8000")
	if err != nil {
		t.Fatal(err)
	}
	answer(t, listener, words)
}

// answer says the words to each client that connects, until the test ends.
func answer(t *testing.T, l net.Listener, words string) {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			connection, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(connection, words)
			connection.Close()
		}
	}()
}

// in runs a command in a network namespace.
func in(t *testing.T, path, name string, arguments ...string) {
	t.Helper()
	if err := netns.Do(path, func() error {
		output, err := exec.Command(name, arguments...).CombinedOutput()
		return errors.Join(err, complaint(output, err))
	}); err != nil {
		t.Fatalf("%s %v: %v", name, arguments, err)
	}
}

func complaint(output []byte, err error) error {
	if err == nil {
		return nil
	}
	return errors.New(string(bytes.TrimSpace(output)))
}

// ask connects to port 8000 of a seat and returns what is said there; "" if there is no answer.
func ask(t *testing.T, path string, slot int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	connection, err := netns.Dial(ctx, path, "tcp", netip.AddrPortFrom(substrate.Address(slot).Addr(), 8000).String())
	if err != nil {
		return ""
	}
	defer connection.Close()
	text, _ := io.ReadAll(connection)
	return strings.TrimSpace(string(text))
}

const (
	local1, local2, metal = 257, 258, 512 // seats, the same in both clusters
	nobody                = 999
)

// TestClustersShareANetworkOfMachinesAndNeverMeet has two clusters with the same addresses, with nodes on this host and
// on machines, on one network.
func TestClustersShareANetworkOfMachinesAndNeverMeet(t *testing.T) {
	s, w := newNetworkOfMachines(t), open(t, site(t))
	t.Cleanup(func() { w.down(t) })
	segments := map[string]int{"a": 1, "b": 65535}
	at := map[string]string{} // namespaces by who lives there
	for cluster, segment := range segments {
		check(t, w.EnsureShared(t.Context(), cluster, s.network(segment)))
		for _, slot := range []int{local1, local2} {
			n := node(cluster, slot-256, 1, fmt.Sprintf("nc -ll -p 8000 -e echo from %s%d &", cluster, slot))
			n.Address, n.MAC = substrate.Address(slot), substrate.MAC(segment, slot)
			check(t, w.Ensure(t.Context(), n))
			at[fmt.Sprint(cluster, slot)] = w.bootOf(t, n.Ref).path("netns")
			meet(t, at[fmt.Sprint(cluster, slot)], "eth0", segment, local1, local2, metal)
		}
		name := fmt.Sprint(cluster, metal)
		at[name] = s.machine(t, name, fmt.Sprintf("10.78.0.%d/16", len(at)+10), segment, metal, local1, local2)
	}
	between := listen(t, s.netns)
	atNode := listen(t, at["a257"])

	for cluster := range segments {
		c, err := w.shared(cluster)
		check(t, err)
		at[cluster] = c.netns()
	}
	for who, path := range at {
		for _, slot := range []int{local1, local2, metal} {
			want := "from " + who[:1] + fmt.Sprint(slot)
			if who == want[len("from "):] {
				continue
			}
			eventually(t, who+" reaches "+want, func() bool {
				if len(who) > 1 {
					return ask(t, path, slot) == want
				}
				return dialled(t, w, who, slot) == want
			})
		}
		if got := ask(t, path, nobody); got != "" {
			t.Errorf("%s asks for an address that nobody has, and hears %q", who, got)
		}
	}
	// Root of a guest has any receiver in its frames.
	for _, foreign := range []string{s.macOf(t, "boot0"), substrate.MAC(segments["b"], metal).String()} {
		in(t, at["a257"], "ip", "neigh", "replace", substrate.Address(nobody).Addr().String(), "lladdr", foreign, "dev", "eth0",
			"nud", "permanent")
		if got := ask(t, at["a257"], nobody); got != "" {
			t.Errorf("%s hears, and says %q", foreign, got)
		}
	}

	// A node that goes leaves its address to no other.
	check(t, w.Remove(t.Context(), node("a", local2-256, 1, "").Ref))
	in(t, s.netns, "ip", "link", "del", "p-b512")
	for who, slot := range map[string]int{"a257": local2, "a512": local2, "b257": metal, "b258": metal} {
		if got := ask(t, at[who], slot); got != "" {
			t.Errorf("%s asks for a node that is gone, and hears %q", who, got)
		}
	}
	if got := dialled(t, w, "a", local2); got != "" {
		t.Errorf("the gateway asks for a node that is gone, and hears %q", got)
	}
	eventually(t, "there is ARP, of the machines' own", func() bool {
		return netns.Do(at["a512"], exec.Command("busybox", "ping", "-c1", "-W1", "10.78.0.1").Run) == nil
	})

	if atNode.broadcasts > 0 {
		t.Errorf("%d broadcasts came to a node", atNode.broadcasts)
	}
	for where, seen := range map[string]*traffic{"on the machines' network": between, "at a node": atNode} {
		seen.stop()
		for _, frame := range seen.wrong {
			t.Errorf("%s: % x", where, frame)
		}
		if seen.clusters == 0 {
			t.Errorf("%s: nothing was seen", where)
		}
	}
	if between.arps == 0 {
		t.Error("no ARP of the machines' own was seen")
	}
}

func TestUplinksComeAndGoWhileNodesRun(t *testing.T) {
	s, w := newNetworkOfMachines(t), open(t, site(t))
	t.Cleanup(func() { w.down(t) })
	networks := map[string]substrate.Network{"joined": s.network(7), "alone": {Segment: 7}}
	check(t, w.EnsureShared(t.Context(), "c1", networks["alone"]))
	n := node("c1", 1, 1, "nc -ll -p 8000 -e echo here &")
	n.Address, n.MAC = substrate.Address(local1), substrate.MAC(7, local1)
	check(t, w.Ensure(t.Context(), n))
	meet(t, w.bootOf(t, n.Ref).path("netns"), "eth0", 7, metal)
	machine := s.machine(t, "m", "10.78.0.11/16", 7, metal, local1)
	for _, name := range []string{"joined", "joined", "alone", "joined"} {
		check(t, w.EnsureShared(t.Context(), "c1", networks[name]))
		if seen, err := w.Observe(t.Context(), n.Ref); err != nil || !seen.Running {
			t.Errorf("%s: the node is %+v, %v", name, seen, err)
		}
		switch name {
		case "joined":
			eventually(t, "the machine reaches the node", func() bool { return ask(t, machine, local1) == "here" })
		case "alone":
			if ask(t, machine, local1) != "" || len(s.cables(t)) > 0 {
				t.Errorf("the uplink is still there: %v", s.cables(t))
			}
		}
	}

	// Somebody makes the machines' bridge again.
	in(t, s.netns, "ip", "link", "del", "boot0")
	in(t, s.netns, "ip", "link", "add", "boot0", "type", "bridge")
	in(t, s.netns, "ip", "link", "set", "p-m", "master", "boot0")
	in(t, s.netns, "ip", "link", "set", "boot0", "up")
	check(t, w.EnsureShared(t.Context(), "c1", networks["joined"]))
	eventually(t, "the machine reaches the node again", func() bool { return ask(t, machine, local1) == "here" })

	w.down(t)
	if left := s.cables(t); len(left) > 0 {
		t.Errorf("left on the machines' network: %v", left)
	}
}

// cables are the ends of clusters' uplinks there.
func (s networkOfMachines) cables(t *testing.T) []string {
	t.Helper()
	var names []string
	check(t, netns.Links(s.netns, func(links *netlink.Handle) error {
		all, err := links.LinkList()
		for _, link := range all {
			if strings.HasPrefix(link.Attrs().Name, uplinkPrefix) {
				names = append(names, link.Attrs().Name)
			}
		}
		return err
	}))
	return names
}

func TestAnUplinkHasToBeABridge(t *testing.T) {
	s, w := newNetworkOfMachines(t), open(t, site(t))
	t.Cleanup(func() { w.down(t) })
	in(t, s.netns, "ip", "link", "add", "eth1", "type", "veth", "peer", "name", "eth2")
	for name, want := range map[string]string{"eth1": "is no bridge (veth)", "eth9": "not found"} {
		err := w.EnsureShared(t.Context(), "c1",
			substrate.Network{Segment: 1, Uplinks: []substrate.Uplink{{Namespace: s.netns, Interface: name}}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name+" in "+s.netns) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.EnsureShared(t.Context(), "c1", substrate.Network{Uplinks: s.network(1).Uplinks}); err == nil {
		t.Error("a network without a segment number")
	}
}

// dialled is ask through the driver, as the gateway.
func dialled(t *testing.T, w fixture, cluster string, slot int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	connection, err := w.Dial(ctx, cluster, netip.AddrPortFrom(substrate.Address(slot).Addr(), 8000))
	if err != nil {
		return ""
	}
	defer connection.Close()
	text, _ := io.ReadAll(connection)
	return strings.TrimSpace(string(text))
}

// traffic is what was seen on a network.
type traffic struct {
	clusters, arps, broadcasts int      // frames of clusters; ARP and broadcasts of anybody
	wrong                      [][]byte // ARP for clusters' addresses; what clusters say to all, or to who is none of theirs
	stop                       func()
}

// listen looks at every frame that comes to an interface of a namespace, until stop.
func listen(t *testing.T, path string) *traffic {
	t.Helper()
	var socket int
	check(t, netns.Do(path, func() (err error) {
		socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC,
			int(binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))))
		return err
	}))
	check(t, unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}))
	seen, ended, done := &traffic{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		frame := make([]byte, 65536)
		for {
			n, from, err := unix.Recvfrom(socket, frame, 0)
			if err == nil {
				if link, ok := from.(*unix.SockaddrLinklayer); ok && link.Pkttype != unix.PACKET_OUTGOING {
					seen.add(frame[:n])
				}
				continue
			}
			select {
			case <-ended:
				return
			default:
			}
		}
	}()
	seen.stop = func() { close(ended); <-done; check(t, unix.Close(socket)) }
	return seen
}

// add judges a frame (IEEE 802.3; ARP: RFC 826).
func (s *traffic) add(frame []byte) {
	if len(frame) < 42 {
		return
	}
	ours := func(ip []byte) bool { return ip[0] == 10 && ip[1] == 77 }
	group, cluster := frame[0]&1 == 1, frame[6] == 0x02 && frame[7] == 0x4d
	arp := binary.BigEndian.Uint16(frame[12:]) == unix.ETH_P_ARP
	if arp {
		s.arps++
	}
	if cluster {
		s.clusters++
	}
	if group {
		s.broadcasts++
	}
	if arp && (ours(frame[28:]) || ours(frame[38:])) || cluster && !bytes.Equal(frame[:4], frame[6:10]) {
		s.wrong = append(s.wrong, slices.Clone(frame))
	}
}
