package switchtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/drivers/switch/uplink"
	"muster/internal/kit/lists"
	"muster/internal/kit/netns"
)

// CommonBridge is the one of the common segment, where the controller is.
const CommonBridge = "br0"

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// needRoot skips, with its reason, where no network namespace can be made.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes network namespaces")
	}
}

// heard is a frame of ours that came in somewhere.
type heard struct {
	mark string // "who/what."
	at   time.Time
}

// station is a machine with one NIC, or the controller at the common bridge.
type station struct {
	name, port string
	namespace  string
	mac        net.HardwareAddr
	address    netip.Addr
	fd, index  int

	mu     sync.Mutex
	frames []heard
}

const mark = "muster-frame:"

// Testbed is a network namespace with a bridge, and stations cabled to it by ports that are in no segment yet.
type Testbed struct {
	Namespace  string
	Controller *station
	Stations   []*station
}

// NewTestbed makes stations with these names. Their ports are called "p-NAME".
func NewTestbed(t *testing.T, names ...string) *Testbed {
	t.Helper()
	needRoot(t)
	y := &Testbed{Namespace: namespace(t, "switch")}
	check(t, netns.Do(y.Namespace, func() error {
		// A host that forwards is the worst one to be.
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
			return err
		}
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: CommonBridge,
			HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 1, 0}}, MulticastSnooping: new(bool)}
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		address, err := netlink.ParseAddr("10.99.0.1/24")
		return errors.Join(err, netlink.AddrAdd(bridge, address), netlink.LinkSetUp(bridge))
	}))
	y.Controller = &station{name: "controller", mac: net.HardwareAddr{2, 0, 0, 0, 1, 0},
		address: netip.MustParseAddr("10.99.0.1")}
	y.Controller.listen(t, y.Namespace, CommonBridge)
	for _, name := range names {
		y.cable(t, name)
	}
	return y
}

// cable adds a station whose port is not yet a port of anything.
func (y *Testbed) cable(t *testing.T, name string) {
	t.Helper()
	number := byte(10 + len(y.Stations))
	s := &station{name: name, port: "p-" + name, mac: net.HardwareAddr{2, 0, 0, 0, 0, number},
		address: netip.AddrFrom4([4]byte{10, 99, 0, number}), namespace: namespace(t, name)}
	check(t, netns.Do(s.namespace, func() error {
		there, err := os.Open(y.Namespace)
		if err != nil {
			return err
		}
		defer there.Close()
		nic := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0", HardwareAddr: s.mac}, PeerName: s.port,
			PeerNamespace: netlink.NsFd(there.Fd())}
		if err := netlink.LinkAdd(nic); err != nil {
			return err
		}
		address, err := netlink.ParseAddr(s.address.String() + "/24")
		// a cable is no hardware
		return errors.Join(err, netlink.AddrAdd(nic, address), netlink.LinkSetUp(nic), uplink.Checksums("eth0"))
	}))
	check(t, netns.Do(y.Namespace, func() error {
		link, err := netlink.LinkByName(s.port)
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	}))
	s.listen(t, s.namespace, "eth0")
	y.Stations = append(y.Stations, s)
}

// enslave makes a port one of the common bridge, as the host's own tools do: not isolated.
func (y *Testbed) enslave(t *testing.T, port string) {
	t.Helper()
	check(t, netns.Do(y.Namespace, func() error {
		return exec.Command("ip", "link", "set", port, "master", CommonBridge).Run()
	}))
}

// Ports are the stations' ports.
func (y *Testbed) Ports() []string {
	return lists.Map(y.Stations, func(s *station) string { return s.port })
}

// namespace makes a network namespace that ends with the test.
func namespace(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	check(t, netns.New(path, func() error { return nil }))
	t.Cleanup(func() { check(t, unix.Unmount(path, unix.MNT_DETACH)) })
	return path
}

// listen hears every frame that comes to an interface, with the kernel's time of it.
func (s *station) listen(t *testing.T, namespace, name string) {
	t.Helper()
	const all = unix.ETH_P_ALL&0xff<<8 | unix.ETH_P_ALL>>8
	check(t, netns.Do(namespace, func() (err error) {
		link, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		s.index = link.Index
		if s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return errors.Join(
			unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
			unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
			unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20),
			unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20_000}),
			unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}))
	}))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				s.hear()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
		check(t, unix.Close(s.fd))
	})
}

func (s *station) hear() {
	frame, control := make([]byte, 1<<16), make([]byte, 256)
	n, m, _, _, err := unix.Recvmsg(s.fd, frame, control, 0)
	if err != nil {
		return // nothing was said for a while
	}
	i := bytes.Index(frame[:n], []byte(mark))
	if i < 0 {
		return
	}
	text, _, whole := strings.Cut(string(frame[i+len(mark):n]), ".")
	at := time.Now()
	messages, err := unix.ParseSocketControlMessage(control[:m])
	for _, c := range messages {
		if err == nil && c.Header.Level == unix.SOL_SOCKET && c.Header.Type == unix.SO_TIMESTAMPNS && len(c.Data) >= 16 {
			at = time.Unix(int64(binary.NativeEndian.Uint64(c.Data)), int64(binary.NativeEndian.Uint64(c.Data[8:])))
		}
	}
	if whole {
		s.mu.Lock()
		s.frames = append(s.frames, heard{text, at})
		s.mu.Unlock()
	}
}

// take is what was heard since the last time.
func (s *station) take() []heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.frames
	s.frames = nil
	return all
}

// hears says whether such a frame was heard since take.
func (s *station) hears(is func(heard) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.frames, is)
}

// send puts a frame on the cable. A port that is being moved takes none, and it is lost.
func (s *station) send(frame []byte) {
	_ = unix.Sendto(s.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: s.index})
}

func ethernetFrame(to, from net.HardwareAddr, kind uint16, payload ...[]byte) []byte {
	return slices.Concat(append([][]byte{to, from, binary.BigEndian.AppendUint16(nil, kind)}, payload...)...)
}

// ipv4 is a packet with a checksum, as routers ask for.
func ipv4(from, to netip.Addr, payload []byte) []byte {
	// protocol 253: for experiments (RFC 3692)
	h := slices.Concat([]byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 253, 0, 0}, from.AsSlice(), to.AsSlice())
	binary.BigEndian.PutUint16(h[2:], uint16(len(h)+len(payload)))
	sum := uint32(0)
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum))
	return append(h, payload...)
}

// broadcast is the frame that all in the same segment hear.
const broadcast = "raw, to everybody"

// say sends all that root on a machine could try, towards one victim. Each frame carries who sent it and what it is.
func (s *station) say(victim, controller *station) {
	everybody, group := net.HardwareAddr{255, 255, 255, 255, 255, 255}, net.HardwareAddr{1, 0, 0x5e, 0, 0, 0xfb}
	const typeIPv4, typeARP, typeVLAN, typeIPv6, typeQinQ, typeLLDP, typeOwn = 0x0800, 0x0806, 0x8100, 0x86dd, 0x88a8, 0x88cc,
		0x88b5
	arp := func(operation byte, mac net.HardwareAddr, is, asks netip.Addr) []byte {
		return slices.Concat([]byte{0, 1, 8, 0, 6, 4, 0, operation}, mac, is.AsSlice(), make([]byte, 6), asks.AsSlice())
	}
	discovery := func(kind byte) []byte { // RFC 4861, to all nodes
		h := slices.Concat([]byte{0x60, 0, 0, 0, 0, 28, 58, 255}, netip.MustParseAddr("fe80::bad").AsSlice(),
			netip.MustParseAddr("ff02::1").AsSlice())
		return append(append(h, kind, 0, 0, 0), make([]byte, 20)...)
	}
	tag := func(vlan int, kind uint16) []byte {
		return binary.BigEndian.AppendUint16([]byte{byte(vlan >> 8), byte(vlan)}, kind)
	}
	sealed := func(what string) []byte {
		return append([]byte(mark+s.name+"/"+what+"."), make([]byte, 40)...)
	}
	send := func(what string, to, from net.HardwareAddr, kind uint16, payload ...[]byte) {
		s.send(append(ethernetFrame(to, from, kind, payload...), sealed(what)...))
	}
	send(broadcast, everybody, s.mac, typeOwn)
	send("raw, to the victim", victim.mac, s.mac, typeOwn)
	send("raw, to a group", group, s.mac, typeOwn)
	send("ARP: who has the victim's address", everybody, s.mac, typeARP, arp(1, s.mac, s.address, victim.address))
	send("ARP: the controller is here", everybody, s.mac, typeARP, arp(2, s.mac, controller.address, controller.address))
	send("IPv6: a neighbour is sought", net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, s.mac, typeIPv6, discovery(135))
	send("IPv6: here is the router", net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, s.mac, typeIPv6, discovery(134))
	send("as the victim, to everybody", everybody, victim.mac, typeOwn)
	send("as the controller, to the victim", victim.mac, controller.mac, typeOwn)
	send("as everybody, to the victim", victim.mac, everybody, typeOwn)
	send("LLDP", net.HardwareAddr{1, 0x80, 0xc2, 0, 0, 0xe}, s.mac, typeLLDP)
	send("a bridge's hello", net.HardwareAddr{1, 0x80, 0xc2, 0, 0, 0}, s.mac, 38, []byte{0x42, 0x42, 3, 0, 0, 0, 0})
	for _, vlan := range []int{0, 1, 5, 7, 4093, 4094, 4095} {
		send(fmt.Sprintf("in VLAN %d, to the victim", vlan), victim.mac, s.mac, typeVLAN, tag(vlan, typeOwn))
		send(fmt.Sprintf("in VLAN %d, to everybody", vlan), everybody, s.mac, typeVLAN, tag(vlan, typeOwn))
		for _, outer := range []int{0, 5, 7, 4094} {
			send(fmt.Sprintf("in VLAN %d within VLAN %d, to everybody", vlan, outer), everybody, s.mac, typeVLAN,
				tag(outer, typeVLAN), tag(vlan, typeOwn))
			send(fmt.Sprintf("in VLAN %d within the provider's VLAN %d, to the victim", vlan, outer), victim.mac, s.mac, typeQinQ,
				tag(outer, typeVLAN), tag(vlan, typeOwn))
		}
	}
	s.send(ethernetFrame(controller.mac, s.mac, typeIPv4,
		ipv4(s.address, victim.address, sealed("by way of the controller, to the victim"))))
	send("raw, to everybody, jumbo", everybody, s.mac, typeOwn, make([]byte, 8000))
}
