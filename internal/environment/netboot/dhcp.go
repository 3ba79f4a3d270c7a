package netboot

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"muster/internal/inventory"
)

const (
	// dhcpWorkers answer batches side by side: while one waits for the disk, the other is at work.
	dhcpWorkers = 2
	// dhcpBatch is the most packets of one batch, and so of one transaction.
	dhcpBatch = 64
	// dhcpQueue is how many packets of either kind wait for a worker, which is less than a second's work; what comes in
	// above is dropped, and its machine asks again.
	dhcpQueue = 1024
	// dhcpBuffer is how many bytes of packets the kernel keeps while nobody reads: some hundred packets.
	dhcpBuffer = 4 << 20
	// dhcpPacket is the most bytes of a packet that are read. The rest of a longer one is cut off, so that it has no end mark
	// and is thrown away.
	dhcpPacket = 1500
	// dhcpRead is how many packets are taken from the kernel at once.
	dhcpRead = 64
)

// datagram is a packet and who sent it, or who is to get it.
type datagram struct {
	data []byte
	peer netip.AddrPort
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

// dhcpQueues are packets that wait. Machines that have begun go before those that begin: under more load than there is
// power for, some machines are served wholly, rather than all of them by half.
type dhcpQueues struct{ begin, rest chan request }

// serveDHCP answers what comes in on a socket, batch by batch, until the socket is closed. A batch is what has come in
// while the last ones were answered: it grows with the load, and one transaction, durable on disk, serves all of it.
func (s *server) serveDHCP(ctx context.Context, conn *net.UDPConn, answer answerer) error {
	if err := growBuffer(conn, dhcpBuffer); err != nil {
		return err
	}
	packets, queues := ipv4.NewPacketConn(conn), dhcpQueues{make(chan request, dhcpQueue), make(chan request, dhcpQueue)}
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for range dhcpWorkers {
		workers.Go(func() {
			for batch := queues.next(ctx); batch != nil; batch = queues.next(ctx) {
				limited, done := context.WithTimeout(ctx, houseWait)
				s.sendDHCP(packets, answer(limited, batch))
				done()
			}
		})
	}
	in := make([]ipv4.Message, dhcpRead)
	for i := range in {
		in[i].Buffers = [][]byte{make([]byte, dhcpPacket)}
	}
	for {
		n, err := packets.ReadBatch(in, 0)
		if err != nil {
			return err
		}
		for _, m := range in[:n] {
			peer, ok := m.Addr.(*net.UDPAddr)
			if r, sound := parseRequest(datagram{m.Buffers[0][:m.N], peer.AddrPort()}); ok && sound {
				queues.put(r)
			}
		}
	}
}

// growBuffer gives a socket more room than the system allows everybody.
func growBuffer(conn *net.UDPConn, size int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	outer := raw.Control(func(fd uintptr) { inner = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size) })
	return errors.Join(outer, inner)
}

// put queues a packet, or drops it.
func (q dhcpQueues) put(r request) {
	queue := q.rest
	if r.kind == dhcpv4.MessageTypeDiscover {
		queue = q.begin
	}
	select {
	case queue <- r:
	default:
	}
}

// next waits for a batch of one kind; nil: ctx has ended.
func (q dhcpQueues) next(ctx context.Context) []request {
	if batch := drain(nil, q.rest); len(batch) > 0 {
		return batch
	}
	select {
	case r := <-q.rest:
		return drain([]request{r}, q.rest)
	case r := <-q.begin:
		return drain([]request{r}, q.begin)
	case <-ctx.Done():
		return nil
	}
}

// drain adds what waits in a queue to a batch.
func drain(batch []request, queue chan request) []request {
	for len(batch) < dhcpBatch {
		select {
		case r := <-queue:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// sendDHCP sends all that can be sent. A packet that the kernel refuses is left out: its machine asks again.
func (s *server) sendDHCP(conn *ipv4.PacketConn, replies []datagram) {
	from := (&ipv4.ControlMessage{Src: s.address().AsSlice()}).Marshal() // also where the interface has more addresses
	out := make([]ipv4.Message, len(replies))
	for i, reply := range replies {
		out[i] = ipv4.Message{Buffers: [][]byte{reply.data}, Addr: net.UDPAddrFromAddrPort(reply.peer), OOB: from}
	}
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
