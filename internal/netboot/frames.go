package netboot

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"muster/internal/inventory"
)

// DHCP packets are read as frames, since nothing in the packet says who has sent it: what it says of its machine (chaddr) is
// believed only if the frame comes from there, or from a relay that the network names.

// frames is a packet socket that hears UDP to one port of an interface.
type frames struct {
	conn *packet.Conn
	raw  syscall.RawConn
}

// hearPort makes a socket's filter: IPv4, UDP, no fragment, to that port. The first byte is that of the IP header.
func hearPort(port uint16) ([]bpf.RawInstruction, error) {
	return bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.IPPROTO_UDP, SkipFalse: 6},
		bpf.LoadAbsolute{Off: 6, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x3fff, SkipTrue: 4}, // more fragments, or not the first
		bpf.LoadMemShift{Off: 0},
		bpf.LoadIndirect{Off: 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(port), SkipFalse: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	})
}

// listenFrames opens one, in the namespace of the current thread.
func listenFrames(card *net.Interface, port uint16) (*frames, error) {
	filter, err := hearPort(port)
	if err != nil {
		return nil, err
	}
	conn, err := packet.Listen(card, packet.Datagram, unix.ETH_P_IP, &packet.Config{Filter: filter})
	if err != nil {
		return nil, err
	}
	f := &frames{conn: conn} // it hears that port alone already, and gets its larger buffer now
	if f.raw, err = conn.SyscallConn(); err == nil {
		var failed error
		err = f.raw.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, dhcpBuffer)
		})
		err = errors.Join(err, failed)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return f, nil
}

// deaf makes a UDP socket hear nothing: it keeps the port, and answers are sent by it.
func deaf(conn *net.UDPConn) error {
	filter, err := bpf.Assemble([]bpf.Instruction{bpf.RetConstant{Val: 0}})
	if err != nil {
		return err
	}
	return ipv4.NewPacketConn(conn).SetBPF(filter)
}

// read passes on up to n packets that are there. If it is to wait, it waits for the first.
func (f *frames) read(n int, wait bool, take func(frame)) error {
	var inner error
	buffer := make([]byte, dhcpPacket)
	outer := f.raw.Read(func(fd uintptr) bool {
		for got := 0; got < n; got++ {
			length, from, err := unix.Recvfrom(int(fd), buffer, unix.MSG_DONTWAIT)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case errors.Is(err, unix.EAGAIN):
				return got > 0 || !wait
			case err != nil:
				inner = err
				return true
			}
			link, ok := from.(*unix.SockaddrLinklayer)
			if !ok || link.Halen != 6 || link.Pkttype != unix.PACKET_HOST && link.Pkttype != unix.PACKET_BROADCAST {
				continue
			}
			if d, sound := parseUDP(buffer[:length]); sound {
				take(frame{datagram: d, sender: net.HardwareAddr(append([]byte{}, link.Addr[:6]...))})
			}
		}
		return true
	})
	return errors.Join(inner, outer)
}

func (f *frames) close() { _ = f.conn.Close() }

// frame is a UDP packet, with who sent the frame that it came in, and to whom.
type frame struct {
	datagram
	sender net.HardwareAddr
}

// parseUDP reads an IPv4 packet with a whole UDP packet in it. What it returns is a copy.
func parseUDP(text []byte) (d datagram, sound bool) {
	const least, udpHeader = 20, 8
	if len(text) < least+udpHeader || text[0]>>4 != 4 || text[9] != unix.IPPROTO_UDP ||
		binary.BigEndian.Uint16(text[6:])&0x3fff != 0 {
		return d, false
	}
	header, total := int(text[0]&15)*4, int(binary.BigEndian.Uint16(text[2:]))
	if header < least || total > len(text) || total < header+udpHeader {
		return d, false
	}
	udp := text[header:total]
	length := int(binary.BigEndian.Uint16(udp[4:]))
	if length < udpHeader || length > len(udp) {
		return d, false
	}
	from := netip.AddrFrom4([4]byte(text[12:]))
	d.peer = netip.AddrPortFrom(from, binary.BigEndian.Uint16(udp))
	d.to = netip.AddrFrom4([4]byte(text[16:]))
	d.data = append([]byte{}, udp[udpHeader:length]...)
	return d, true
}

// isFor says that a packet is for this network's server: sent to it, or to everybody.
func isFor(n inventory.Network, to netip.Addr) bool {
	return to == n.Address.Addr() || to == netip.AddrFrom4([4]byte{255, 255, 255, 255}) || to == lastOf(n.Address)
}

// lastOf is the address for everybody of a network.
func lastOf(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().As4()
	number := binary.BigEndian.Uint32(a[:]) | uint32(uint64(1)<<(32-p.Bits())-1)
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, number)))
}
