package netboot

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"muster/internal/inventory"
)

// Suboptions of option 175, where iPXE says what it can do and is told what to do.
const (
	ipxeHTTP        = 0x13
	ipxeNoProxyDHCP = 0xb0
)

// client is what a DHCP packet says of the program that sent it.
type client struct {
	pxe  bool // a PXE firmware, iPXE too
	http bool // a UEFI that boots by HTTP (UEFI 2.5, section 23.7)
	ipxe bool // iPXE that can fetch its script by HTTP
	arch iana.Arch
}

// boots says that the program wants something to boot, and not only an address.
func (c client) boots() bool { return c.pxe || c.http || c.ipxe }

// clientOf reads the options of RFC 4578 and RFC 3004. Firmware that does not say what it is, is taken for a BIOS's.
func clientOf(r request) client {
	class := r.ClassIdentifier()
	c := client{pxe: strings.HasPrefix(class, "PXEClient"), http: strings.HasPrefix(class, "HTTPClient")}
	if archs := r.ClientArch(); len(archs) > 0 {
		c.arch = archs[0]
	}
	if features := r.Options.Get(dhcpv4.OptionEtherboot); features != nil {
		if options := (dhcpv4.Options{}); options.FromBytes(features) == nil {
			_, c.ipxe = options[ipxeHTTP]
		}
	} else {
		c.ipxe = bytes.Contains(r.Options.Get(dhcpv4.OptionUserClassInformation), []byte("iPXE"))
	}
	return c
}

// bootOptions tells a booting machine what to load next, and from where: first iPXE, then its script.
func (s *server) bootOptions(r request, p *dhcpv4.DHCPv4) {
	c := clientOf(r)
	name := s.firmware.first(bootFile(c.arch))
	switch {
	case c.ipxe:
		p.BootFileName = s.scriptURL(r.mac)
		if s.Network.Mode == inventory.ModeOwn {
			// Else it waits 3 s for a proxy's offer.
			p.Options[dhcpv4.OptionEtherboot.Code()] = []byte{ipxeNoProxyDHCP, 1, 1}
		}
	case !c.boots() || name == "":
		return
	case c.http:
		p.BootFileName = s.base() + firmwarePath + name
		p.Options.Update(dhcpv4.OptClassIdentifier("HTTPClient")) // it takes no answer without
	default:
		p.BootFileName = name
	}
	p.ServerIPAddr = net.IP(s.address().AsSlice())
	copyOption(r, p, dhcpv4.OptionClientMachineIdentifier)
}

// scriptURL is where iPXE finds the script of a machine. The MAC is the one that asked for an address: a machine with more
// NICs need not know which it was.
func (s *server) scriptURL(mac net.HardwareAddr) string {
	return s.base() + scriptPath + "?mac=" + mac.String()
}

// proxyOffer answers beside the site's DHCP server, on port 67: an offer without an address (PXE 2.1, section 2.2.3).
func (s *server) proxyOffer(ctx context.Context, batch []request) []datagram {
	batch = slices.DeleteFunc(batch, func(r request) bool { return r.kind != dhcpv4.MessageTypeDiscover })
	return s.proxied(ctx, batch, dhcpv4.MessageTypeOffer, s.finish)
}

// proxyBoot answers on port 4011, where firmware that has its address asks again what to boot. The answer goes back to
// where the question came from, which is on the network.
func (s *server) proxyBoot(ctx context.Context, batch []request) []datagram {
	batch = slices.DeleteFunc(batch, func(r request) bool {
		return r.kind != dhcpv4.MessageTypeRequest && r.kind != dhcpv4.MessageTypeInform || !s.isNeighbour(r.peer.Addr())
	})
	return s.proxied(ctx, batch, dhcpv4.MessageTypeAck, func(r request, p *dhcpv4.DHCPv4) datagram {
		p.ClientIPAddr = r.ClientIPAddr
		return datagram{data: p.ToBytes(), peer: r.peer}
	})
}

// proxied are a proxy's answers to machines that the Controller knows, whether they have something to boot or not. Option 43 with
// PXE_DISCOVERY_CONTROL 8 says: ask no other server, load the file named here (PXE 2.1, table 2-1).
func (s *server) proxied(ctx context.Context, batch []request, kind dhcpv4.MessageType,
	to func(request, *dhcpv4.DHCPv4) datagram) []datagram {
	var asked []request
	var answers []*dhcpv4.DHCPv4
	var macs []net.HardwareAddr
	for _, r := range batch {
		p := s.reply(r, kind)
		if s.bootOptions(r, p); p.BootFileName != "" {
			asked, answers, macs = append(asked, r), append(answers, p), append(macs, r.mac)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	known, err := s.Controller.Known(ctx, s.Network.Name, macs)
	if err != nil {
		s.trouble("cannot look machines up", err)
		return nil
	}
	var replies []datagram
	for i, r := range asked {
		if !known[i] {
			continue
		}
		if clientOf(r).pxe {
			answers[i].Options.Update(dhcpv4.OptClassIdentifier("PXEClient"))
			answers[i].Options[dhcpv4.OptionVendorSpecificInformation.Code()] = []byte{6, 1, 8, 255}
		}
		replies = append(replies, to(r, answers[i]))
	}
	return replies
}
