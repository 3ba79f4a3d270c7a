package netboot

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"golang.org/x/net/ipv4"

	"muster/internal/inventory"
	"muster/internal/kit/lists"
)

const (
	// dhcpBatch is the most packets of one batch, and so of one transaction. More would make bursts of answers that relays
	// and clients have no room for.
	dhcpBatch = 128
	// dhcpQueue is how many packets of either kind wait, which is less than a second's work; what comes in above is dropped,
	// and its machine asks again.
	dhcpQueue = 1024
	// dhcpBuffer is how many bytes of packets the kernel keeps while a batch is answered.
	dhcpBuffer = 4 << 20
	// dhcpPacket is the most bytes of a packet that are read. The rest of a longer one is cut off, so that it has no end mark
	// and is thrown away.
	dhcpPacket = 1500
)

// datagram is a packet and who sent it, or who is to get it.
type datagram struct {
	data []byte
	peer netip.AddrPort
	to   netip.Addr // that it was sent to
}

// answerer makes the answers to a batch of DHCP packets: at most one for each.
type answerer func(context.Context, []request) []datagram

// answerer is how packets to port 67 are answered.
func (s *server) answerer() answerer {
	if s.Network.Mode == inventory.ModeProxy {
		return s.proxyOffer
	}
	return s.lease
}

// serveDHCP answers what comes in as frames, batch by batch, until they are closed. A batch is what has come in while the
// last one was answered: it grows with the load, and one transaction, durable on disk, serves all of it.
func (s *server) serveDHCP(ctx context.Context, conn *net.UDPConn, in *frames, answer answerer) error {
	packets, q := ipv4.NewPacketConn(conn), dhcpQueues{}
	who := &senders{relays: s.Network.RelayMACs()}
	for {
		err := in.read(2*dhcpQueue, q.empty(), func(f frame) {
			if isFor(s.Network, f.to) {
				s.hear(&q, who, f)
			}
		})
		if err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, houseWait)
		s.sendDHCP(packets, answer(limited, q.batch()))
		cancel()
	}
}

// hear queues a packet that was sent by the machine that it is about, or by its relay.
func (s *server) hear(q *dhcpQueues, who *senders, f frame) {
	if len(*q.of(kindOf(f.data))) >= dhcpQueue {
		return
	}
	r, sound := parseRequest(f.datagram)
	if !sound {
		return
	}
	switch why := who.believe(r, f.sender); why {
	case "":
		q.put(r)
	case often:
		s.Telemetry.Lease(s.Network.Name, "limited")
	default:
		s.Telemetry.Lease(s.Network.Name, "forged")
		s.tell(f.sender.String(), "a DHCP packet is not believed", "mac", r.mac.String(), "from", f.sender.String(), "kind",
			r.kind.String(), "why", why)
	}
}

// senders says whose DHCP packets are trusted.
type senders struct {
	relays []string // MACs
	second int64
	heard  map[[6]byte]int // packets of each, in this second
}

const (
	sendersRate  = 32    // packets of one sender in a second; firmware sends one or two
	sendersLimit = 10000 // senders that are counted at once; more are one flood anyway
)

// often is why a packet is dropped in silence.
const often = "too many packets"

// believe says why a packet is not trusted; "" if it is.
func (w *senders) believe(r request, sender net.HardwareAddr) string {
	relay := slices.Contains(w.relays, sender.String())
	relayed := asAddr(r.GatewayIPAddr).IsValid()
	if relay && relayed {
		return ""
	}
	if now := time.Now().Unix(); now != w.second || w.heard == nil {
		w.second, w.heard = now, map[[6]byte]int{}
	}
	if key := [6]byte(sender); w.heard[key] > 0 || len(w.heard) < sendersLimit {
		if w.heard[key]++; w.heard[key] > sendersRate {
			return often
		}
	}
	switch {
	case relayed:
		return "it says that it is relayed, and the network names no such relay"
	case !bytes.Equal(sender, r.mac):
		return "another NIC has sent it"
	}
	return ""
}

// dhcpQueues are packets that wait. Machines that have begun go before those that begin: under more load than there is
// power for, some machines are served wholly, rather than all of them by half.
type dhcpQueues struct{ begin, rest []request }

func (q *dhcpQueues) empty() bool { return len(q.begin)+len(q.rest) == 0 }

// of is the queue of a kind.
func (q *dhcpQueues) of(kind dhcpv4.MessageType) *[]request {
	if kind == dhcpv4.MessageTypeDiscover {
		return &q.begin
	}
	return &q.rest
}

// put queues a packet, or drops it.
func (q *dhcpQueues) put(r request) {
	if queue := q.of(r.kind); len(*queue) < dhcpQueue {
		*queue = append(*queue, r)
	}
}

// kindOf finds the kind of message without reading the rest of a packet, which is dropped cheaply if it has to be.
func kindOf(packet []byte) dhcpv4.MessageType {
	const options = 240 // RFC 2131, figure 1, and the magic cookie
	for i := options; i+2 < len(packet); {
		switch packet[i] {
		case dhcpv4.OptionPad.Code():
			i++
		case dhcpv4.OptionDHCPMessageType.Code():
			return dhcpv4.MessageType(packet[i+2])
		case dhcpv4.OptionEnd.Code():
			return dhcpv4.MessageTypeNone
		default:
			i += 2 + int(packet[i+1])
		}
	}
	return dhcpv4.MessageTypeNone
}

// batch takes the next packets, all of one kind; nil: there is none.
func (q *dhcpQueues) batch() []request {
	queue := &q.rest
	if len(q.rest) == 0 {
		queue = &q.begin
	}
	n := min(len(*queue), dhcpBatch)
	batch := slices.Clone((*queue)[:n])
	*queue = slices.Delete(*queue, 0, n)
	return batch
}

// sendDHCP sends all that can be sent. A packet that the kernel refuses is left out: its machine asks again.
func (s *server) sendDHCP(conn *ipv4.PacketConn, replies []datagram) {
	from := (&ipv4.ControlMessage{Src: s.address().AsSlice()}).Marshal() // also where the interface has more addresses
	out := lists.Map(replies, func(reply datagram) ipv4.Message {
		return ipv4.Message{Buffers: [][]byte{reply.data}, Addr: net.UDPAddrFromAddrPort(reply.peer), OOB: from}
	})
	for len(out) > 0 {
		n, err := conn.WriteBatch(out, 0)
		if err != nil {
			s.Log.Debug("cannot send a DHCP answer", "to", out[0].Addr, "error", err)
			n = 1 // an error is always that of the first
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
		copyOption(r, p, code)
	}
	return p
}

// copyOption echoes an option, if it is one of a sound length: the answer must fit into one packet.
func copyOption(r request, p *dhcpv4.DHCPv4, code dhcpv4.OptionCode) {
	if value := r.Options.Get(code); value != nil && len(value) <= 255 {
		p.Options[code.Code()] = value
	}
}

// finish addresses an answer as RFC 2131, section 4.1, says. Machines that have no address yet, or say that they have one of
// another network, are answered by broadcast, which that section allows: no host could answer an ARP request for them.
func (s *server) finish(r request, p *dhcpv4.DHCPv4) datagram {
	const server, client = 67, 68
	broadcast := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	to := netip.AddrPortFrom(broadcast, client)
	if relay := asAddr(r.GatewayIPAddr); relay.IsValid() {
		if p.MessageType() == dhcpv4.MessageTypeNak {
			p.SetBroadcast()
		}
		to = netip.AddrPortFrom(relay, server)
	} else if current := r.current(); s.isNeighbour(current) && p.MessageType() != dhcpv4.MessageTypeNak {
		to = netip.AddrPortFrom(current, client)
	}
	return datagram{data: p.ToBytes(), peer: to}
}

// isNeighbour says that an address can be a machine's on the network: none of its ends, which stand for all, and not our own.
func (s *server) isNeighbour(a netip.Addr) bool {
	on := s.Network.Address
	return on.Contains(a) && a != on.Addr() && a != on.Masked().Addr() && on.Contains(a.Next())
}
