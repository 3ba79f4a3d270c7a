package netboot

import (
	"context"
	"encoding/binary"
	"net"

	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
)

// Firmware that speaks IPv6 too waits for a router's advertisement and for DHCPv4 at once: iPXE's network card ROM stands
// still for 13 s if none comes. So every caller is sent one: "there are no addresses here, and I am no router". It is
// built by hand and sent as a frame, so that the host needs no IPv6.

// Lengths and fields of Ethernet, IPv6 (RFC 8200) and neighbour discovery (RFC 4861) headers.
const (
	ethernetHeader   = 14
	ipv6Header       = 40
	etherTypeIPv6    = 0x86dd
	protocolICMPv6   = 58
	solicitation     = 133
	advertisement    = 134
	sourceLinkOption = 1
	hopLimit         = 255 // a packet that was forwarded has less, and does not count (section 6.1)
)

// listenNDP opens a socket that hears router solicitations only. It is called in the network's namespace.
func listenNDP(card *net.Interface) (*packet.Conn, error) {
	filter, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: ethernetHeader + 6, Size: 1}, // next header
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: protocolICMPv6, SkipFalse: 3},
		bpf.LoadAbsolute{Off: ethernetHeader + ipv6Header, Size: 1}, // type
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: solicitation, SkipFalse: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return nil, err
	}
	conn, err := packet.Listen(card, packet.Raw, etherTypeIPv6, &packet.Config{Filter: filter})
	if err != nil {
		return nil, err
	}
	// A card lets multicast in only if somebody wants it: this is ff02::2, all routers.
	if err := conn.JoinGroup(net.HardwareAddr{0x33, 0x33, 0, 0, 0, 2}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// serveNDP answers solicitations until the socket is closed, or the interface goes down.
func (s *server) serveNDP(context.Context) error {
	buffer := make([]byte, 1500)
	for {
		n, _, err := s.ndp.ReadFrom(buffer)
		if err != nil {
			return err
		}
		if answer := advertise(buffer[:n], s.hardware); answer != nil {
			if _, err := s.ndp.WriteTo(answer, &packet.Addr{HardwareAddr: answer[:6]}); err != nil {
				s.Log.Debug("cannot answer a router solicitation", "error", err)
			}
		}
	}
}

// advertise makes the answer to a frame with a router solicitation, from a card; nil if it is none. It goes to the asking
// machine alone, whose address may be unspecified yet: then the packet is for all nodes, the frame still for it.
func advertise(frame []byte, card net.HardwareAddr) []byte {
	const least = ethernetHeader + ipv6Header + 8
	if len(frame) < least || len(card) != 6 || !isMachine(frame[6:12]) ||
		binary.BigEndian.Uint16(frame[12:]) != etherTypeIPv6 || frame[ethernetHeader]>>4 != 6 ||
		frame[ethernetHeader+6] != protocolICMPv6 || frame[ethernetHeader+7] != hopLimit ||
		frame[ethernetHeader+ipv6Header] != solicitation {
		return nil
	}
	to := [16]byte{0xff, 0x02, 15: 1} // all nodes
	if asking := [16]byte(frame[ethernetHeader+8:]); asking[0] == 0xfe && asking[1]&0xc0 == 0x80 {
		to = asking
	}
	message := make([]byte, 24) // what is zero in it says: not specified (section 4.2)
	message[0] = advertisement
	message[16], message[17] = sourceLinkOption, 1
	copy(message[18:], card)

	ip := make([]byte, ipv6Header, ipv6Header+len(message))
	ip[0] = 6 << 4
	binary.BigEndian.PutUint16(ip[4:], uint16(len(message)))
	ip[6], ip[7] = protocolICMPv6, hopLimit
	from := linkLocal(card)
	copy(ip[8:], from[:])
	copy(ip[24:], to[:])
	binary.BigEndian.PutUint16(message[2:], checksum(from, to, message))

	answer := append(append([]byte{}, frame[6:12]...), card...)
	answer = binary.BigEndian.AppendUint16(answer, etherTypeIPv6)
	return append(append(answer, ip...), message...)
}

// linkLocal is the address that a card gives itself (RFC 4291, appendix A).
func linkLocal(card net.HardwareAddr) [16]byte {
	return [16]byte{0: 0xfe, 1: 0x80, 8: card[0] ^ 2, 9: card[1], 10: card[2], 11: 0xff, 12: 0xfe, 13: card[3], 14: card[4],
		15: card[5]}
}

// checksum is that of ICMPv6 (RFC 4443, section 2.3; RFC 8200, section 8.1), with its field still zero. The message has an
// even length.
func checksum(from, to [16]byte, message []byte) uint16 {
	sum := uint32(len(message)) + protocolICMPv6
	for _, part := range [][]byte{from[:], to[:], message} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
