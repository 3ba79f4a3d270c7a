package netboot

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"muster/internal/protocol"
)

const (
	// leaseFor is long for the sake of machines that never renew: an init that was told its address, a disk image that is
	// still being written.
	leaseFor   = 24 * time.Hour
	leaseLeast = time.Minute // told to a machine whatever clocks say
	declineFor = time.Hour   // an address that another host has is given to no machine for that long
)

// lease answers a batch as the segment's DHCP server (RFC 2131, section 4.3), with one call of the Controller for all.
func (s *server) lease(ctx context.Context, batch []request) []datagram {
	requests, asks := make([]request, 0, len(batch)), make([]Ask, 0, len(batch))
	for _, r := range batch {
		if r.kind == dhcpv4.MessageTypeRelease {
			s.release(ctx, r)
		} else if ask, ok := s.ask(r); ok {
			requests, asks = append(requests, r), append(asks, ask)
		}
	}
	if len(asks) == 0 {
		return nil
	}
	granted, err := s.Controller.Leases(ctx, s.Network.Name, asks)
	if err != nil || len(granted) != len(asks) {
		s.trouble("cannot give addresses", err, "machines", len(asks))
		return nil
	}
	replies := make([]datagram, 0, len(requests))
	for i, r := range requests {
		s.hold(asks[i], granted[i])
		s.Telemetry.Lease(s.Network.Name, asks[i].came(granted[i].Err))
		if p := s.answer(r, asks[i], granted[i]); p != nil {
			replies = append(replies, s.finish(r, p))
		}
	}
	return replies
}

// hold has the kernel know who has an address before its machine is told of it.
func (s *server) hold(ask Ask, g Granted) {
	if g.Err != nil || !g.Lease.Known || !ask.Commit || ask.Decline || s.Link == nil {
		return
	}
	if err := s.Link.Pin(g.Lease.Address, g.Lease.MAC); err != nil {
		s.trouble("cannot keep who has an address", err)
	}
}

// came says in a word how an ask was answered, to be counted.
func (a Ask) came(err error) string {
	switch {
	case errors.Is(err, ErrKept):
		return "kept"
	case a.Decline:
		return "declined"
	case errors.Is(err, ErrUnknown):
		return "unknown"
	case errors.Is(err, ErrTaken):
		return "taken"
	case errors.Is(err, ErrFull):
		return "full"
	case err != nil:
		return "failed"
	case a.Commit:
		return "granted"
	}
	return "offered"
}

// ask is what the Controller is asked for a request; false: it is for another server, or makes no sense.
func (s *server) ask(r request) (Ask, bool) {
	ask := Ask{MAC: r.mac, For: leaseFor}
	for _, a := range []netip.Addr{r.wanted(), r.current()} {
		if a.IsValid() && s.Network.Address.Contains(a) {
			ask.Want = a
		}
	}
	chosen := asAddr(r.ServerIdentifier())
	ours := !chosen.IsValid() || chosen == s.address()
	switch r.kind {
	case dhcpv4.MessageTypeDiscover:
		return ask, true
	case dhcpv4.MessageTypeRequest:
		// Without an address of this network it is refused, but that only a known machine is told: nothing is committed.
		ask.Commit = ask.Want.IsValid()
		return ask, ours && (r.wanted().IsValid() || r.current().IsValid())
	case dhcpv4.MessageTypeDecline:
		ask.Decline, ask.For = true, declineFor
		return ask, ours && chosen.IsValid() && ask.Want.IsValid()
	case dhcpv4.MessageTypeInform:
		ask.Want = netip.Addr{} // it has its address from elsewhere
		return ask, r.current().IsValid() && s.Network.Address.Contains(r.current())
	}
	return ask, false
}

// answer makes the packet that tells what was granted; nil: silence.
func (s *server) answer(r request, ask Ask, g Granted) *dhcpv4.DHCPv4 {
	switch {
	case ask.Decline && errors.Is(g.Err, ErrKept):
		s.tell(r.mac.String(), "an enrolled machine says that another host has its address; it keeps it: find the other one, "+
			"and change its address",
			"address", ask.Want, "mac", r.mac.String())
		return nil
	case ask.Decline:
		s.tell(r.mac.String(), "another host has an address of a machine; it is set aside", "address", ask.Want, "mac",
			r.mac.String())
		return nil
	case errors.Is(g.Err, ErrFull):
		s.Log.Warn("no address is free", "network", s.Network.Name, "mac", r.mac.String())
		return nil
	case errors.Is(g.Err, ErrUnknown):
		return nil
	case g.Err != nil && !errors.Is(g.Err, ErrTaken):
		s.trouble("cannot give an address", g.Err, "mac", r.mac.String())
		return nil
	}
	switch r.kind {
	case dhcpv4.MessageTypeDiscover:
		if g.Err != nil {
			return nil
		}
		return s.grant(r, dhcpv4.MessageTypeOffer, g.Lease)
	case dhcpv4.MessageTypeInform:
		p := s.reply(r, dhcpv4.MessageTypeAck)
		p.ClientIPAddr = r.ClientIPAddr
		s.networkOptions(p)
		s.bootOptions(r, p)
		return p
	}
	if g.Err != nil || !ask.Commit || g.Lease.Address != ask.Want {
		return s.reply(r, dhcpv4.MessageTypeNak)
	}
	if clientOf(r).boots() {
		s.note(r.mac, protocol.StepAddress, g.Lease.Address.String())
	}
	p := s.grant(r, dhcpv4.MessageTypeAck, g.Lease)
	p.ClientIPAddr = r.ClientIPAddr
	return p
}

// grant is an answer with an address. The machine is to ask again after half of its time, and anybody after seven eighths.
func (s *server) grant(r request, kind dhcpv4.MessageType, l Lease) *dhcpv4.DHCPv4 {
	p := s.reply(r, kind)
	p.YourIPAddr = net.IP(l.Address.AsSlice())
	lasts := max(time.Until(l.Until), leaseLeast)
	p.Options.Update(dhcpv4.OptIPAddressLeaseTime(lasts))
	p.Options.Update(dhcpv4.OptRenewTimeValue(lasts / 2))
	p.Options.Update(dhcpv4.OptRebindingTimeValue(lasts * 7 / 8))
	s.networkOptions(p)
	s.bootOptions(r, p)
	return p
}

// networkOptions says what the network is like. There is no name server to tell of.
func (s *server) networkOptions(p *dhcpv4.DHCPv4) {
	p.Options.Update(dhcpv4.OptSubnetMask(net.CIDRMask(s.Network.Address.Bits(), 32)))
	if s.Network.Gateway.IsValid() {
		p.Options.Update(dhcpv4.OptRouter(s.Network.Gateway.AsSlice()))
	}
}

// release gives an address back. A failure is told to no client; the lease ends by itself.
func (s *server) release(ctx context.Context, r request) {
	if asAddr(r.ServerIdentifier()) != s.address() || !r.current().IsValid() {
		return
	}
	if err := s.Controller.Release(ctx, s.Network.Name, r.mac, r.current()); err != nil && !errors.Is(err, ErrUnknown) &&
		!errors.Is(err, ErrKept) {
		s.trouble("cannot release an address", err, "mac", r.mac.String())
	}
}
