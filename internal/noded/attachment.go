package noded

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/kit/netns"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// clusterDevice is the cluster's network on a machine.
const clusterDevice = "cluster0"

// attach lays the cluster's network over a NIC: an interface of its own MAC and address, which neither asks nor answers
// by ARP. Frames go out as they are, at the NIC's full speed. What is there of an earlier try is made again.
func attach(a protocol.Attachment) error {
	return wrap.Errorf(lay(a), "attach the cluster's network")
}

func lay(a protocol.Attachment) error {
	mac, err := net.ParseMAC(a.MAC)
	if err != nil {
		return err
	}
	address, err := netlink.ParseAddr(a.Address)
	if err != nil {
		return fmt.Errorf("address %q: %w", a.Address, err)
	}
	if old, err := netlink.LinkByName(clusterDevice); err == nil {
		if err := netlink.LinkDel(old); err != nil {
			return err
		}
	}
	nic, err := linkOf(a.NIC)
	if err != nil {
		return err
	}
	if a.NIC == a.MAC {
		return settle(nic, address, a.Gateway)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.HardwareAddr, attributes.ParentIndex = clusterDevice, mac, nic.Attrs().Index
	cluster := &netlink.Macvlan{LinkAttrs: attributes, Mode: netlink.MACVLAN_MODE_BRIDGE}
	if err := netlink.LinkAdd(cluster); err != nil {
		return fmt.Errorf("make %s on %s: %w", clusterDevice, nic.Attrs().Name, err)
	}
	if err := quiet(cluster, address); err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetUp(nic), netlink.LinkSetUp(cluster))
}

// quiet gives a link its address, from which it neither asks nor answers by ARP, and keeps IPv6 from speaking there: it would, by
// multicast to all at once.
func quiet(link netlink.Link, address *netlink.Addr) error {
	if err := netns.Sysctl("ipv6", link.Attrs().Name, "disable_ipv6", "1"); err != nil {
		return err
	}
	if err := netlink.LinkSetARPOff(link); err != nil {
		return fmt.Errorf("switch ARP off: %w", err)
	}
	return wrap.Errorf(netlink.AddrReplace(link, address), "address %s", address)
}

// settle is lay for a guest, whose NIC is on the cluster's network already. It knows its gateway before it speaks, since ARP is
// not answered there.
func settle(nic netlink.Link, address *netlink.Addr, gateway protocol.Neighbour) error {
	ip := net.ParseIP(gateway.Address).To4()
	mac, err := net.ParseMAC(gateway.MAC)
	if ip == nil || err != nil {
		return fmt.Errorf("gateway: bad address %q or MAC %q", gateway.Address, gateway.MAC)
	}
	if err := quiet(nic, address); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(nic); err != nil {
		return err
	}
	return netlink.NeighSet(&netlink.Neigh{LinkIndex: nic.Attrs().Index, Family: unix.AF_INET, State: unix.NUD_PERMANENT, IP: ip,
		HardwareAddr: mac})
}
