package wol_test

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/mdlayher/packet"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"

	"muster/internal/drivers/power"
	"muster/internal/drivers/power/powertest"
	"muster/internal/drivers/power/wol"
	"muster/internal/inventory"
	"muster/internal/kit/netns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, target power.Target) power.Driver {
	t.Helper()
	return powertest.Open(t, wol.Factory(), "", target)
}

// TestItKeepsTheContract with two namespaces and a machine between them.
func TestItKeepsTheContract(t *testing.T) { powertest.Test(t, wol.Factory(), peer) }

// segment is an Ethernet between two namespaces: ours and the machine's.
type segment struct {
	ours, theirs string
	network      inventory.Network
	mac          net.HardwareAddr // of the machine
	address      netip.Addr
}

func newSegment(t *testing.T) segment {
	t.Helper()
	s := segment{
		ours: powertest.Namespace(t), theirs: powertest.Namespace(t),
		mac: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}, address: netip.MustParseAddr("10.79.3.4"),
	}
	s.network = inventory.Network{Name: "rack", Namespace: s.ours, Interface: "rack0",
		Address: netip.MustParsePrefix("10.79.0.1/16")}
	within(t, s.theirs, func() error {
		// The pair is made in the machine's namespace; our end moves.
		pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "nic", HardwareAddr: s.mac}, PeerName: "rack0"}
		if err := netlink.LinkAdd(pair); err != nil {
			return err
		}
		end, err := netlink.LinkByName("rack0")
		if err != nil {
			return err
		}
		file, err := openNamespace(t, s.ours)
		if err != nil {
			return err
		}
		return netlink.LinkSetNsFd(end, file)
	})
	within(t, s.theirs, func() error { return up("nic", "") })
	within(t, s.ours, func() error { return up("rack0", "10.79.0.1/16") })
	return s
}

func (s segment) target() power.Target {
	return power.Target{
		Machine: "n1", Power: inventory.Power{Control: "wol"}, MACs: []string{s.mac.String()}, Network: s.network,
		Address: s.address,
	}
}

// boot gives the machine its address: from then on its kernel answers.
func (s segment) boot() error {
	return netns.Do(s.theirs, func() error { return up("nic", s.address.String()+"/16") })
}

func (s segment) unplug() error {
	return netns.Do(s.theirs, func() error {
		nic, err := netlink.LinkByName("nic")
		if err != nil {
			return err
		}
		addresses, err := netlink.AddrList(nic, netlink.FAMILY_V4)
		for _, address := range addresses {
			err = netlink.AddrDel(nic, &address)
		}
		return err
	})
}

// peer is a machine that gets its address when it hears both forms of its magic packet.
func peer(t *testing.T) powertest.Peer {
	s := newSegment(t)
	frames, datagrams := s.listen(t)
	go func() {
		for range frames {
			if _, ok := <-datagrams; ok && s.boot() != nil {
				return
			}
		}
	}()
	dead := s.target()
	dead.Address = netip.MustParseAddr("10.79.3.5")
	dead.MACs = []string{"52:54:00:00:00:02"}
	return powertest.Peer{
		Target: s.target(), Dead: dead,
		Unplug: func() {
			if err := s.unplug(); err != nil {
				t.Error(err)
			}
		},
	}
}

// listen tells of the magic packets that reach the machine, as frames and as datagrams. Both end with the test.
func (s segment) listen(t *testing.T) (frames, datagrams chan []byte) {
	t.Helper()
	var raw *packet.Conn
	var udp net.PacketConn
	within(t, s.theirs, func() (err error) {
		i, err := net.InterfaceByName("nic")
		if err != nil {
			return err
		}
		if raw, err = packet.Listen(i, packet.Raw, 0x0842, nil); err != nil {
			return err
		}
		// The machine has no address yet: all IP is read as frames, too.
		udp, err = packet.Listen(i, packet.Raw, 0x0800, nil)
		return err
	})
	frames, datagrams = make(chan []byte, 64), make(chan []byte, 64)
	magic := append(bytes.Repeat([]byte{0xff}, 6), bytes.Repeat(s.mac, 16)...)
	hear := func(c net.PacketConn, heard chan []byte) {
		defer close(heard)
		for {
			buffer := make([]byte, 2048)
			n, _, err := c.ReadFrom(buffer)
			if err != nil {
				return
			}
			if bytes.HasSuffix(bytes.TrimRight(buffer[:n], "\x00"), bytes.TrimRight(magic, "\x00")) {
				heard <- buffer[:n]
			}
		}
	}
	go hear(raw, frames)
	go hear(udp, datagrams)
	t.Cleanup(func() { raw.Close(); udp.Close() })
	return frames, datagrams
}

func TestAMagicPacketArrivesInBothForms(t *testing.T) {
	t.Parallel()
	s := newSegment(t)
	frames, datagrams := s.listen(t)
	if err := open(t, s.target()).On(t.Context()); err != nil {
		t.Fatal(err)
	}
	frame, datagram := receive(t, frames), receive(t, datagrams)
	everybody := bytes.Repeat([]byte{0xff}, 6)
	if !bytes.HasPrefix(frame, everybody) || !bytes.Equal(frame[12:14], []byte{0x08, 0x42}) {
		t.Errorf("the frame is % x", frame[:14])
	}
	// IPv4 to the segment's broadcast address, UDP to port 9.
	if !bytes.HasPrefix(datagram, everybody) || !bytes.Equal(datagram[30:34], []byte{10, 79, 255, 255}) ||
		!bytes.Equal(datagram[36:38], []byte{0, 9}) {
		t.Errorf("the datagram is % x", datagram[:42])
	}
}

func TestTheStateIsTheMachinesOwn(t *testing.T) {
	t.Parallel()
	s := newSegment(t)
	sees := func(what string, wanted power.State, target power.Target) {
		t.Helper()
		if state, err := open(t, target).State(t.Context()); err != nil || state != wanted {
			t.Errorf("%s: %s, %v; not %s", what, state, err, wanted)
		}
	}
	unknown, other := s.target(), s.target()
	unknown.Address = netip.Addr{}
	other.MACs = []string{"52:54:00:00:00:02"}
	sees("no address", power.Unknown, unknown)
	began := time.Now()
	sees("silence", power.Off, s.target())
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("silence was found out in %v, before a machine had its second to answer", took)
	}
	if err := s.boot(); err != nil {
		t.Fatal(err)
	}
	powertest.Becomes(t, open(t, s.target()), power.On)
	sees("an answer of somebody else", power.Off, other)
	down := s.target()
	down.Network.Interface = "nowhere"
	if _, err := open(t, down).State(t.Context()); err == nil {
		t.Error("an interface that is not there was asked")
	}
}

func receive(t *testing.T, from chan []byte) []byte {
	t.Helper()
	select {
	case b := <-from:
		return b
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing arrived")
		return nil
	}
}

// within runs do inside a namespace.
func within(t *testing.T, space string, do func() error) {
	t.Helper()
	if err := netns.Do(space, do); err != nil {
		t.Fatal(err)
	}
}

// up brings a link up, with an address if there is one.
func up(name, address string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if address != "" {
		parsed, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}
		if err := netlink.AddrReplace(link, parsed); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(link)
}

func openNamespace(t *testing.T, path string) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	t.Cleanup(func() { file.Close() })
	return int(file.Fd()), nil
}
