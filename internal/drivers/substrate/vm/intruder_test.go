package vm

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/netns"
	"muster/internal/protocol"
)

// What a tenant's root can send from a guest: any bytes at all, from a socket of its kernel's that adds nothing.

// said is one frame, with a mark in it by which it is known wherever it arrives.
type said struct {
	what  string
	frame []byte
	// neighbour says that the cluster's other node may have it. No other interface ever may.
	neighbour bool
	// gateway says that it comes as far as the bridge itself, which has no use for it and answers nothing.
	gateway bool
}

const mark = "a-tenants-root-"

// Kinds of Ethernet's payloads.
const (
	typeIPv4, typeARP, typeVLAN, typeIPv6, typeLLDP, typeOwn = 0x0800, 0x0806, 0x8100, 0x86dd, 0x88cc, 0x88b5
)

func ethernet(to, from net.HardwareAddr, kind uint16, payload ...[]byte) []byte {
	return slices.Concat(append([][]byte{to, from, binary.BigEndian.AppendUint16(nil, kind)}, payload...)...)
}

func ipv4(from, to netip.Addr, protocol byte, payload []byte) []byte {
	h := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0}
	h = slices.Concat(h, from.AsSlice(), to.AsSlice())
	binary.BigEndian.PutUint16(h[2:], uint16(len(h)+len(payload)))
	sum := uint32(0)
	for i := 0; i < len(h); i += 2 {
		sum += uint32(h[i])<<8 | uint32(h[i+1])
	}
	for sum>>16 > 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum))
	return append(h, payload...)
}

func udp(from, to uint16, payload []byte) []byte {
	h := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, from), to)
	return append(binary.BigEndian.AppendUint16(h, uint16(8+len(payload))), append([]byte{0, 0}, payload...)...)
}

func arp(operation byte, mac net.HardwareAddr, is, asks netip.Addr) []byte {
	return slices.Concat([]byte{0, 1, 8, 0, 6, 4, 0, operation}, mac, is.AsSlice(), make([]byte, 6), asks.AsSlice())
}

// neighbourDiscovery is a message of ICMPv6 (RFC 4861) to all nodes.
func neighbourDiscovery(kind byte, body []byte) []byte {
	h := []byte{0x60, 0, 0, 0, 0, byte(4 + len(body)), 58, 255}
	h = append(h, netip.MustParseAddr("fe80::bad").AsSlice()...)
	return slices.Concat(h, netip.MustParseAddr("ff02::1").AsSlice(), []byte{kind, 0, 0, 0}, body)
}

func mac(text string) net.HardwareAddr {
	m, err := net.ParseMAC(text)
	if err != nil {
		panic(err)
	}
	return m
}

// everything is what own tries. The last is what a node may send, to its neighbour.
func everything(own, neighbour, stranger substrate.Node) []said {
	everybody, gateway := mac("ff:ff:ff:ff:ff:ff"), substrate.MAC(substrate.Segment(own.MAC), substrate.GatewaySlot)
	me, his, door := own.Address.Addr(), neighbour.Address.Addr(), substrate.Gateway().Addr()
	here := []byte(marked(0)) // in packets that know their length: a bridge may cut off what is behind it
	offer := slices.Concat([]byte{2, 1, 6, 0}, make([]byte, 232), []byte{99, 130, 83, 99, 53, 1, 2, 255}, here)
	vlan := func(id byte, kind uint16) []byte {
		return append([]byte{0, id}, binary.BigEndian.AppendUint16(nil, kind)...)
	}
	advertisement := slices.Concat([]byte{64, 0, 7, 8}, make([]byte, 8), here)
	list := []said{
		{what: "as its neighbour, to the gateway", frame: ethernet(gateway, neighbour.MAC, typeOwn)},
		{what: "as the gateway, to its neighbour", frame: ethernet(neighbour.MAC, gateway, typeOwn)},
		{what: "as nobody, to its neighbour", frame: ethernet(neighbour.MAC, mac("52:54:00:12:34:56"), typeOwn)},
		{what: "as another cluster's node, to its neighbour", frame: ethernet(neighbour.MAC, stranger.MAC, typeOwn)},
		{what: "as everybody, to its neighbour", frame: ethernet(neighbour.MAC, everybody, typeOwn)},
		{what: "to another cluster's node", frame: ethernet(stranger.MAC, own.MAC, typeOwn)},
		{what: "to another cluster's gateway",
			frame: ethernet(substrate.MAC(substrate.Segment(stranger.MAC), substrate.GatewaySlot), own.MAC, typeOwn)},
		{what: "to another cluster's node, in VLAN 2", frame: ethernet(stranger.MAC, own.MAC, typeVLAN, vlan(2, typeOwn))},
		{what: "to everybody, in VLAN 2", frame: ethernet(everybody, own.MAC, typeVLAN, vlan(2, typeOwn)), gateway: true},
		{what: "to everybody, in VLAN 2 within VLAN 1", frame: ethernet(everybody, own.MAC, typeVLAN, vlan(1, typeVLAN),
			vlan(2, typeOwn)), gateway: true},
		{what: "raw, to everybody", frame: ethernet(everybody, own.MAC, typeOwn), gateway: true},
		{what: "raw, to a group", frame: ethernet(mac("01:00:5e:00:00:fb"), own.MAC, typeOwn), gateway: true},
		{what: "ARP: who has its neighbour's address", frame: ethernet(everybody, own.MAC, typeARP, arp(1, own.MAC, me, his)),
			gateway: true},
		{what: "ARP: who has the gateway's address", frame: ethernet(everybody, own.MAC, typeARP, arp(1, own.MAC, me, door)),
			gateway: true},
		{what: "ARP: the gateway is here", frame: ethernet(everybody, own.MAC, typeARP, arp(2, own.MAC, door, door)),
			gateway: true},
		{what: "IPv6: a neighbour is sought", frame: ethernet(mac("33:33:00:00:00:01"), own.MAC, typeIPv6,
			neighbourDiscovery(135, append(make([]byte, 20), here...))), gateway: true},
		{what: "IPv6: here is the router", frame: ethernet(mac("33:33:00:00:00:01"), own.MAC, typeIPv6,
			neighbourDiscovery(134, advertisement)), gateway: true},
		{what: "DHCP: an offer", frame: ethernet(everybody, own.MAC, typeIPv4,
			ipv4(door, netip.MustParseAddr("255.255.255.255"), 17, udp(67, 68, offer))), gateway: true},
		{what: "through the gateway, to its neighbour",
			frame: ethernet(gateway, own.MAC, typeIPv4, ipv4(me, his, 17, udp(9, 9, here))), gateway: true},
		{what: "a bridge's hello", frame: ethernet(mac("01:80:c2:00:00:00"), own.MAC, 38, []byte{0x42, 0x42, 3, 0, 0, 0, 0}),
			gateway: true},
		{what: "LLDP", frame: ethernet(mac("01:80:c2:00:00:0e"), own.MAC, typeLLDP)},
		{what: "ARP, to the nearest bridge: who has the gateway's address",
			frame: ethernet(mac("01:80:c2:00:00:0e"), own.MAC, typeARP, arp(1, own.MAC, me, door))},
		{what: "jumbo, to its neighbour", frame: ethernet(neighbour.MAC, own.MAC, typeOwn, make([]byte, 8000))},
		{what: "plain, to its neighbour", frame: ethernet(neighbour.MAC, own.MAC, typeOwn), neighbour: true},
	}
	for i := range list {
		f := &list[i].frame
		if *f = bytes.Replace(*f, here, []byte(marked(i)), 1); !bytes.Contains(*f, []byte(mark)) {
			*f = slices.Concat(*f, []byte(marked(i)), make([]byte, 64))
		}
	}
	return list
}

func marked(i int) string { return fmt.Sprintf("%s%02d.", mark, i) }

// frameListener hears all frames of a network namespace.
type frameListener struct {
	fd    int
	names map[int]string // of interfaces
	done  chan struct{}

	lock   sync.Mutex
	heard  map[string]map[string]bool // interface, and whether in or out → the marks
	others map[string][]byte          // interface, and whether in or out → a frame that is neither marked nor TCP
}

func listen(t *testing.T, namespace string) *frameListener {
	t.Helper()
	e := &frameListener{names: map[int]string{}, done: make(chan struct{}), heard: map[string]map[string]bool{},
		others: map[string][]byte{}}
	err := netns.Do(namespace, func() (err error) {
		const all = unix.ETH_P_ALL&0xff<<8 | unix.ETH_P_ALL>>8
		if e.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		interfaces, err := net.Interfaces()
		for _, i := range interfaces {
			e.names[i.Index] = i.Name
		}
		return errors.Join(err, unix.SetsockoptTimeval(e.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}))
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	go func() {
		defer close(e.done)
		for {
			select {
			case <-stop:
				return
			default:
				e.hear()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-e.done
		check(t, unix.Close(e.fd))
	})
	return e
}

func (e *frameListener) hear() {
	frame := make([]byte, 1<<16)
	n, from, err := unix.Recvfrom(e.fd, frame, 0)
	if err != nil {
		return // nothing was said for a while
	}
	link, _ := from.(*unix.SockaddrLinklayer)
	at := e.names[link.Ifindex] + " in"
	if link.Pkttype == unix.PACKET_OUTGOING {
		at = e.names[link.Ifindex] + " out"
	}
	frame = frame[:n]
	e.lock.Lock()
	defer e.lock.Unlock()
	if i := bytes.Index(frame, []byte(mark)); i >= 0 {
		if e.heard[at] == nil {
			e.heard[at] = map[string]bool{}
		}
		e.heard[at][string(frame[i:i+len(marked(0))])] = true
	} else if n > 23 && !(binary.BigEndian.Uint16(frame[12:]) == typeIPv4 && frame[23] == unix.IPPROTO_TCP) {
		e.others[at] = frame
	}
}

// has says whether a mark was heard at an interface.
func (e *frameListener) has(at, mark string) bool {
	e.lock.Lock()
	defer e.lock.Unlock()
	return e.heard[at][mark]
}

// plugged is a port of a cluster's bridge with a tap that somebody has open, as a guest's is.
func (w fixture) plugged(t *testing.T, n substrate.Node) {
	t.Helper()
	check(t, makeTap(w.netns(), substrate.PortName(n.Node), 1))
	check(t, netns.Do(w.netns(), func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		t.Cleanup(func() { check(t, unix.Close(fd)) })
		request, err := unix.NewIfreq(substrate.PortName(n.Node))
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}))
	check(t, w.shared.PlugPort(t.Context(), n, w.netns()))
	t.Cleanup(func() { check(t, w.shared.DropPort(context.Background(), n.Cluster, n.Node)) })
}

// wantKeptIn has a guest of cluster c1 do what it can against its neighbours and its host.
func (w fixture) wantKeptIn(t *testing.T, own substrate.Node) {
	neighbour, stranger := node("c1", 2, 1), node("c2", 1, 1)
	stranger.MAC = substrate.MAC(2, 257)
	check(t, w.shared.EnsureShared(t.Context(), "c2", substrate.Network{Segment: 2}))
	t.Cleanup(func() { check(t, w.shared.RemoveShared(context.Background(), "c2")) })
	w.plugged(t, neighbour)
	w.plugged(t, stranger)
	host, err := net.Listen("tcp", ":0") // the host's own door, and all other doors of a controller
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	frames := everything(own, neighbour, stranger)
	inside, outside, around := listen(t, w.clusterNamespace("c1")), listen(t, w.clusterNamespace("c2")), listen(t, "")
	done := w.order(t, "c1", frames, targets(t, host))
	for _, failed := range done.Failed {
		t.Error("the guest could not send: ", failed)
	}
	last := marked(len(frames) - 1)
	his, mine := substrate.PortName(neighbour.Node), substrate.PortName(own.Node)
	eventually(t, "its neighbour hears it", func() bool { return inside.has(his+" out", last) })
	time.Sleep(100 * time.Millisecond) // what should not arrive would have come before
	for i, f := range frames {
		m := marked(i)
		if !inside.has(mine+" in", m) {
			t.Errorf("%s: it did not leave the guest, which proves nothing", f.what)
		}
		if got := inside.has(his+" out", m); got != f.neighbour {
			t.Errorf("%s: its neighbour hears it: %v", f.what, got)
		}
		if got := inside.has("br0 in", m); got != f.gateway {
			t.Errorf("%s: the gateway hears it: %v", f.what, got)
		}
		for where, e := range map[string]*frameListener{"another cluster": outside, "the host": around} {
			e.lock.Lock()
			for at, heard := range e.heard {
				if heard[m] {
					t.Errorf("%s: heard in %s at %s", f.what, where, at)
				}
			}
			e.lock.Unlock()
		}
	}
	inside.lock.Lock()
	defer inside.lock.Unlock()
	for at, frame := range inside.others {
		if strings.HasSuffix(at, " out") {
			t.Errorf("at %s something was answered: % x", at, frame[:min(len(frame), 80)])
		}
	}
	if want := []string{net.JoinHostPort(substrate.Gateway().Addr().String(),
		strconv.Itoa(protocol.AgentPort))}; !slices.Equal(done.Open, want) {
		t.Errorf("from inside %v answer, want %v", done.Open, want)
	}
}

// targets are the ports to try: at the gateway the usual ones and those around the agents', and the host's door at each of its
// addresses.
func targets(t *testing.T, host net.Listener) []string {
	t.Helper()
	_, open, err := net.SplitHostPort(host.Addr().String())
	check(t, err)
	gateway := substrate.Gateway().Addr().String()
	found := map[string]bool{net.JoinHostPort(gateway, open): true}
	for port := range 1024 {
		found[net.JoinHostPort(gateway, strconv.Itoa(port+1))] = true
		found[net.JoinHostPort(gateway, strconv.Itoa(7000+port))] = true
	}
	addresses, err := net.InterfaceAddrs()
	check(t, err)
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Is4() && !prefix.Addr().IsLoopback() {
			found[net.JoinHostPort(prefix.Addr().String(), open)] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// done is what a guest says of an order.
type done struct{ Failed, Open []string }

// order waits for the guest's next call and has it send frames and try addresses.
func (w fixture) order(t *testing.T, cluster string, frames []said, targets []string) (all done) {
	t.Helper()
	connection, listener, _ := w.heard(t, cluster)
	defer listener.Close()
	defer connection.Close()
	var send [][]byte
	for _, f := range frames {
		send = append(send, f.frame)
	}
	check(t, json.NewEncoder(connection).Encode(map[string]any{"Send": send, "Dial": targets}))
	check(t, json.NewDecoder(connection).Decode(&all))
	return all
}
