package onlink

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// writtenBy marks our entries in the kernel's table, so that they are told from those of the host's administrator (`ip neighbour`
// shows it as "proto 77").
const writtenBy = 77

// ndaProtocol is the attribute of the mark (linux/neighbour.h).
const ndaProtocol = 12

// fresh is how long a pin stays that Keep does not know of: an answer is on its way, and what is to be kept is not written yet.
const fresh = time.Minute

// request is one to the kernel about neighbours of the interface.
func (l *Link) request(kind, flags int) (*nl.NetlinkRequest, *netlink.Ndmsg) {
	r := nl.NewNetlinkRequest(kind, flags)
	r.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: l.socket}
	about := &netlink.Ndmsg{Family: unix.AF_INET, Index: uint32(l.index)}
	r.AddData(about)
	return r, about
}

// Pin has the kernel send what is for address to mac, whatever ARP says, until Keep or Forget takes the pin away. It may be
// repeated; the last mac counts.
func (l *Link) Pin(address netip.Addr, mac net.HardwareAddr) error {
	if len(mac) != 6 || !address.Is4() {
		return fmt.Errorf("pin %s to %s: an IPv4 address and a MAC are needed", address, mac)
	}
	l.mu.Lock()
	had, there := l.pinned[address]
	l.mu.Unlock()
	if there && had.mac == [6]byte(mac) && time.Since(had.at) < fresh/2 {
		return nil
	}
	return l.write(address, mac, time.Now())
}

// write writes a pin that Keep leaves alone for a while after at.
func (l *Link) write(address netip.Addr, mac net.HardwareAddr, at time.Time) error {
	r, about := l.request(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK)
	about.State = unix.NUD_PERMANENT
	r.AddData(nl.NewRtAttr(unix.NDA_DST, address.AsSlice()))
	r.AddData(nl.NewRtAttr(unix.NDA_LLADDR, mac))
	r.AddData(nl.NewRtAttr(ndaProtocol, []byte{writtenBy}))
	if _, err := r.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		l.forgetCached(address)
		return fmt.Errorf("pin %s to %s on %s: %w", address, mac, l.card, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pinned[address] = pin{[6]byte(mac), at}
	return nil
}

// Look is who the kernel sends to for an address at this moment; nil if it does not know. pinned: whatever ARP says of it.
func (l *Link) Look(address netip.Addr) (mac net.HardwareAddr, pinned bool, err error) {
	if !address.Is4() {
		return nil, false, nil
	}
	r, _ := l.request(unix.RTM_GETNEIGH, 0)
	r.AddData(nl.NewRtAttr(unix.NDA_DST, address.AsSlice()))
	found, err := r.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	if errors.Is(err, unix.ENOENT) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("look who has %s on %s: %w", address, l.card, err)
	}
	const unresolved = unix.NUD_INCOMPLETE | unix.NUD_FAILED
	for _, m := range found {
		if n, err := netlink.NeighDeserialize(m); err == nil && n.State&unresolved == 0 && len(n.HardwareAddr) == 6 {
			return n.HardwareAddr, n.State == unix.NUD_PERMANENT, nil
		}
	}
	return nil, false, nil
}

// Keep makes the pins be these, and those that Pin wrote a moment ago.
func (l *Link) Keep(wanted map[netip.Addr]net.HardwareAddr) error {
	there, err := l.ours()
	if err != nil {
		return err
	}
	var failed []error
	for address, mac := range wanted {
		if !bytes.Equal(there[address], mac) {
			l.forgetCached(address)
			failed = append(failed, l.write(address, mac, time.Time{}))
		}
	}
	for address := range there {
		if _, is := wanted[address]; !is && !l.young(address) {
			failed = append(failed, l.unpin(address))
		}
	}
	return errors.Join(failed...)
}

// Forget takes all pins away, for a network that was removed.
func (l *Link) Forget() error {
	there, err := l.ours()
	for address := range there {
		err = errors.Join(err, l.unpin(address))
	}
	return err
}

func (l *Link) forgetCached(address netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pinned, address)
}

func (l *Link) young(address netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ours := l.pinned[address]
	return ours && time.Since(p.at) < fresh
}

func (l *Link) unpin(address netip.Addr) error {
	l.forgetCached(address)
	r, _ := l.request(unix.RTM_DELNEIGH, unix.NLM_F_ACK)
	r.AddData(nl.NewRtAttr(unix.NDA_DST, address.AsSlice()))
	if _, err := r.Execute(unix.NETLINK_ROUTE, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("take the pin of %s on %s away: %w", address, l.card, err)
	}
	return nil
}

// ours are the pins that are in the kernel's table, also those of another process of this program.
func (l *Link) ours() (map[netip.Addr]net.HardwareAddr, error) {
	r, _ := l.request(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
	r.AddData(nl.NewRtAttr(unix.NDA_IFINDEX, nl.Uint32Attr(uint32(l.index))))
	found, err := r.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	if err != nil {
		return nil, fmt.Errorf("list the neighbours on %s: %w", l.card, err)
	}
	pins := map[netip.Addr]net.HardwareAddr{}
	for _, m := range found {
		n, err := netlink.NeighDeserialize(m)
		if err != nil || n.LinkIndex != l.index || n.State != unix.NUD_PERMANENT || !isOurs(m) {
			continue
		}
		if address, ok := netip.AddrFromSlice(n.IP.To4()); ok {
			pins[address] = n.HardwareAddr
		}
	}
	return pins, nil
}

// isOurs finds our mark among the attributes of an entry.
func isOurs(message []byte) bool {
	attributes, err := nl.ParseRouteAttr(message[unix.SizeofNdMsg:])
	return err == nil && slices.ContainsFunc(attributes, func(a syscall.NetlinkRouteAttr) bool {
		return a.Attr.Type == ndaProtocol && bytes.Equal(a.Value, []byte{writtenBy})
	})
}
