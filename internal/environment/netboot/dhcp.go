package netboot

import (
	"context"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"golang.org/x/net/ipv4"

	"muster/internal/inventory"
)

const (
	// dhcpLoops read one socket in turn: while one batch is being written to disk, the next one is read.
	dhcpLoops = 2
	// dhcpBatch is the most packets of one batch, and so of one transaction.
	dhcpBatch = 256
	// dhcpPacket is the most bytes of a packet that are read. The rest of a longer one is cut off, so that it has no end mark
	// and is thrown away.
	dhcpPacket = 1500
	// dhcpQueue is how many bytes of packets the kernel keeps for us; it drops what comes in above.
	dhcpQueue = 4 << 20
)

// datagram is a packet and who sent it, or who is to get it.
type datagram struct {
	data []byte
	peer netip.AddrPort
}

// answerer makes the answers to a batch of DHCP packets: at most one for each.
type answerer func(context.Context, []datagram) []datagram

// answerer is how packets to port 67 are answered.
func (s *server) answerer() answerer {
	if s.Network.Mode == inventory.ModeProxy {
		return s.proxyOffer
	}
	return s.lease
}

// serveDHCP answers what has queued up in the socket, batch by batch, until the socket is closed. The socket's buffer is
// the only queue: a batch is what came in while the last one was answered, so it grows with the load, and a transaction
// that is durable costs all of its machines together one wait for the disk.
func (s *server) serveDHCP(ctx context.Context, conn *net.UDPConn, answer answerer) error {
	if err := conn.SetReadBuffer(dhcpQueue); err != nil {
		return err
	}
	packets := ipv4.NewPacketConn(conn)
	in, batch := buffers(dhcpBatch, dhcpPacket), make([]datagram, 0, dhcpBatch)
	out := make([]ipv4.Message, 0, dhcpBatch)
	from := (&ipv4.ControlMessage{Src: s.address().AsSlice()}).Marshal() // also where the interface has more addresses
	for {
		n, err := packets.ReadBatch(in, 0)
		if err != nil {
			return err
		}
		batch, out = batch[:0], out[:0]
		for _, m := range in[:n] {
			if peer, ok := m.Addr.(*net.UDPAddr); ok {
				batch = append(batch, datagram{m.Buffers[0][:m.N], peer.AddrPort()})
			}
		}
		limited, cancel := context.WithTimeout(ctx, houseWait)
		for _, reply := range answer(limited, batch) {
			out = append(out, ipv4.Message{Buffers: [][]byte{reply.data}, Addr: net.UDPAddrFromAddrPort(reply.peer), OOB: from})
		}
		cancel()
		s.send(packets, out)
	}
}

// buffers makes room for n packets of at most size bytes.
func buffers(n, size int) []ipv4.Message {
	messages := make([]ipv4.Message, n)
	for i := range messages {
		messages[i].Buffers = [][]byte{make([]byte, size)}
	}
	return messages
}

// send sends all that can be sent. A packet that the kernel refuses is left out: its machine asks again.
func (s *server) send(conn *ipv4.PacketConn, out []ipv4.Message) {
	for len(out) > 0 {
		n, err := conn.WriteBatch(out, 0)
		if err != nil {
			s.Log.Debug("cannot send a DHCP answer", "to", out[n].Addr, "error", err)
			n++
		}
		out = out[n:]
	}
}

// request is a DHCP packet of a machine, with what counts in it.
type request struct {
	*dhcpv4.DHCPv4
	kind dhcpv4.MessageType
	mac  net.HardwareAddr
	peer netip.AddrPort
}

// parseRequest reads a packet that a DHCP client or a relay sent; false: it is none that anybody answers.
func parseRequest(d datagram) (request, bool) {
	p, err := dhcpv4.FromBytes(d.data)
	if err != nil || p.OpCode != dhcpv4.OpcodeBootRequest || p.HWType != iana.HWTypeEthernet || !isMachine(p.ClientHWAddr) {
		return request{}, false
	}
	return request{p, p.MessageType(), p.ClientHWAddr, d.peer}, true
}

// isMachine says that a MAC can be one machine's: six bytes, no group, not zero.
func isMachine(mac net.HardwareAddr) bool {
	return len(mac) == 6 && mac[0]&1 == 0 && [6]byte(mac) != [6]byte{}
}

// wanted is option 50, the address asked for; zero if there is none.
func (r request) wanted() netip.Addr { return asAddr(r.RequestedIPAddress()) }

// current is the address that the machine says it has; zero if it has none.
func (r request) current() netip.Addr { return asAddr(r.ClientIPAddr) }

func asAddr(ip net.IP) netip.Addr {
	a, ok := netip.AddrFromSlice(ip.To4())
	if !ok || a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// reply begins an answer: what RFC 2131, table 3, copies from the request, the relay's option 82 (RFC 3046) and the client
// identifier (RFC 6842).
func (s *server) reply(r request, kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	p := &dhcpv4.DHCPv4{
		OpCode: dhcpv4.OpcodeBootReply, HWType: r.HWType, TransactionID: r.TransactionID, Flags: r.Flags,
		GatewayIPAddr: r.GatewayIPAddr, ClientHWAddr: r.ClientHWAddr, Options: dhcpv4.Options{},
	}
	p.Options.Update(dhcpv4.OptMessageType(kind))
	p.Options.Update(dhcpv4.OptServerIdentifier(s.address().AsSlice()))
	for _, code := range []dhcpv4.OptionCode{dhcpv4.OptionRelayAgentInformation, dhcpv4.OptionClientIdentifier} {
		if value := r.Options.Get(code); value != nil {
			p.Options[code.Code()] = value
		}
	}
	return p
}

// finish addresses an answer as RFC 2131, section 4.1, says. Machines that have no address yet are answered by broadcast,
// which that section allows: there is nobody who could answer an ARP request for them.
func (r request) finish(p *dhcpv4.DHCPv4) datagram {
	const server, client = 67, 68
	broadcast := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	to := netip.AddrPortFrom(broadcast, client)
	if relay := asAddr(r.GatewayIPAddr); relay.IsValid() {
		if p.MessageType() == dhcpv4.MessageTypeNak {
			p.SetBroadcast()
		}
		to = netip.AddrPortFrom(relay, server)
	} else if current := r.current(); current.IsValid() && p.MessageType() != dhcpv4.MessageTypeNak {
		to = netip.AddrPortFrom(current, client)
	}
	return datagram{p.ToBytes(), to}
}
