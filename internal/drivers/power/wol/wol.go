// Package wol wakes machines by Wake-on-LAN, and sees by their silence that they are off.
//
// What enters: machines' MACs and networks. What leaves: magic packets, and whether a machine is off.
package wol

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/mdlayher/packet"

	"muster/internal/drivers/power"
	"muster/internal/inventory"
	"muster/internal/kit/netns"
)

// EtherTypes.
const (
	etherWake = 0x0842
	etherARP  = 0x0806
)

// discardPort is where magic packets go by custom: nothing listens there, and the NIC looks at any frame.
const discardPort = 9

// A probe of three requests: RFC 5227, section 2.1.1, has one to two seconds between them; on one segment, where no other host
// needs that courtesy, a second for all is enough.
const (
	probes   = 3
	between  = 300 * time.Millisecond
	lastWait = 400 * time.Millisecond
)

var everybody = &packet.Addr{HardwareAddr: net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}

// scheme is what controls begin with.
const scheme = "wol"

// Factory declares the driver. Nothing but a machine's agent can switch it off.
func Factory() power.Factory {
	return power.Factory{
		Scheme: scheme, Title: "Wake-on-LAN", Usage: scheme, Form: scheme,
		About: "Wake-on-LAN: it can be woken, and is switched off by its own agent",
		Parse: func(rest string) (power.Control, error) {
			if rest != "" {
				return nil, errors.New("nothing may follow; the magic packet goes to the machine's MACs on its network")
			}
			return control(scheme), nil
		},
	}
}

// control has nothing in it: the machine says all.
type control string

func (c control) String() string { return string(c) }
func (control) To() string       { return "" }

// Open needs the machine's MACs, and a network to wake it on.
func (control) Open(o power.Opening) (power.Driver, error) {
	if len(o.MACs) == 0 {
		return nil, errors.New("the machine has no MAC to wake")
	}
	if o.Network.Interface == "" || !o.Network.Address.IsValid() || !o.Network.Address.Addr().Is4() {
		return nil, errors.New("the machine has no network to wake it on")
	}
	w := wake{network: o.Network, address: o.Address.Unmap()}
	for _, text := range o.MACs {
		mac, err := net.ParseMAC(text)
		if err != nil || len(mac) != 6 {
			return nil, fmt.Errorf("MAC %q; six hex bytes are needed", text)
		}
		w.macs = append(w.macs, mac)
	}
	return w, nil
}

// wake switches a machine on by Wake-on-LAN. A machine that is off has nothing to ask, so its state is what its NICs show on the
// segment: it is on if one of its MACs answers for its address. A machine whose kernel hangs is as silent as one that is off, and
// so is one that is between power-on and its first address.
type wake struct {
	macs    []net.HardwareAddr
	network inventory.Network
	address netip.Addr
}

func (w wake) Off(context.Context) error             { return power.ErrUnsupported }
func (w wake) BootFromNetwork(context.Context) error { return power.ErrUnsupported }

// On sends each magic packet twice: as a frame of its own kind, which every switch of the segment floods, and as UDP to
// the segment's broadcast address, for NICs and filters that know that form only.
func (w wake) On(ctx context.Context) error {
	raw, err := w.listen(etherWake)
	if err != nil {
		return err
	}
	defer raw.Close()
	udp, err := w.listenUDP(ctx)
	if err != nil {
		return err
	}
	defer udp.Close()
	to := &net.UDPAddr{IP: broadcast(w.network.Address), Port: discardPort}
	for _, mac := range w.macs {
		magic := magicPacket(mac)
		if _, err := raw.WriteTo(magic, everybody); err != nil {
			return fmt.Errorf("send magic packet on %s: %w", w.network.Interface, err)
		}
		if _, err := udp.WriteTo(magic, to); err != nil {
			return fmt.Errorf("send magic packet on %s: %w", w.network.Interface, err)
		}
	}
	return nil
}

// magicPacket is six bytes FF and the MAC sixteen times (AMD publication 20213, "Magic Packet Technology").
func magicPacket(mac net.HardwareAddr) []byte {
	return append(bytes.Repeat([]byte{0xff}, 6), bytes.Repeat(mac, 16)...)
}

// broadcast is the last address of an IPv4 network.
func broadcast(network netip.Prefix) net.IP {
	address := network.Addr().As4()
	host := uint32(1)<<(32-network.Bits()) - 1 // of /0 it is all ones, too
	return binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(address[:])|host)
}

// State asks on the segment who has the machine's address, three times.
func (w wake) State(ctx context.Context) (power.State, error) {
	if !w.address.Is4() {
		return power.Unknown, nil
	}
	c, err := w.listen(etherARP)
	if err != nil {
		return power.Unknown, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.SetReadDeadline(time.Now()) })
	defer stop()
	request := arpProbe(c.LocalAddr().(*packet.Addr).HardwareAddr, w.address)
	for i := range probes {
		if _, err := c.WriteTo(request, everybody); err != nil {
			return power.Unknown, fmt.Errorf("probe %s on %s: %w", w.address, w.network.Interface, err)
		}
		wait := between
		if i == probes-1 {
			wait = lastWait
		}
		seen, err := w.hear(c, time.Now().Add(wait))
		if ctx.Err() != nil {
			return power.Unknown, ctx.Err()
		}
		if seen || err != nil {
			return power.On, err
		}
	}
	return power.Off, nil
}

// hear says whether the machine was heard on the segment by ARP until the deadline. Any word of its own will do: what it
// says when it asks for others is as good as an answer. Another's MAC with its address is another machine.
func (w wake) hear(c *packet.Conn, deadline time.Time) (bool, error) {
	c.SetReadDeadline(deadline)
	buffer := make([]byte, 128)
	for {
		n, _, err := c.ReadFrom(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("listen on %s: %w", w.network.Interface, err)
		}
		sender, ok := arpSender(buffer[:n])
		if ok && slices.ContainsFunc(w.macs, func(mac net.HardwareAddr) bool { return bytes.Equal(mac, sender) }) {
			return true, nil
		}
	}
}

// arpHeader is the start of all ARP packets for IPv4 over Ethernet (RFC 826): the kinds and lengths of both addresses.
var arpHeader = []byte{0, 1, 8, 0, 6, 4}

// arpProbe asks who has an address without telling anybody one of the sender's, so that no cache changes (RFC 5227,
// section 2.1.1).
func arpProbe(sender net.HardwareAddr, target netip.Addr) []byte {
	p := append(slices.Clone(arpHeader), 0, 1)
	p = append(p, sender...)
	p = append(p, make([]byte, 4+6)...)
	return append(p, target.AsSlice()...)
}

// arpSender is the hardware address that an ARP packet comes from.
func arpSender(p []byte) (net.HardwareAddr, bool) {
	if len(p) < 28 || !bytes.HasPrefix(p, arpHeader) {
		return nil, false
	}
	return net.HardwareAddr(p[8:14]), true
}

// listen opens a packet socket for an EtherType on the network's interface. The kernel makes the frame's header.
func (w wake) listen(etherType int) (c *packet.Conn, err error) {
	err = netns.Do(w.network.Namespace, func() error {
		i, err := net.InterfaceByName(w.network.Interface)
		if err != nil {
			return fmt.Errorf("interface %s: %w", w.network.Interface, err)
		}
		if len(i.HardwareAddr) != 6 {
			return fmt.Errorf("interface %s is no Ethernet", i.Name)
		}
		c, err = packet.Listen(i, packet.Datagram, etherType, nil)
		return err
	})
	return c, err
}

// listenUDP opens a socket that sends on the network's interface, whatever the routes say.
func (w wake) listenUDP(ctx context.Context) (c net.PacketConn, err error) {
	err = netns.Do(w.network.Namespace, func() error {
		c, err = netns.BoundTo(w.network.Interface, nil).ListenPacket(ctx, "udp4", ":0")
		return err
	})
	return c, err
}
