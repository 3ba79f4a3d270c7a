package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/kit/netns"
)

const bridgeName = "br0"

// quiet keeps an interface in this thread's namespace, or with "default" those made from now on, free of IPv6, whose duplicate
// detection and multicast would be the only traffic that no program asked for.
func quiet(name string) error { return netns.Sysctl("ipv6", name, "disable_ipv6", "1") }

// pings lets everybody in this thread's namespace ask for echoes. Programs then need no raw socket for it.
func pings() error {
	return os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 2147483647"), 0)
}

func up(links *netlink.Handle, name string) error {
	link, err := links.LinkByName(name)
	if err != nil {
		return err
	}
	return links.LinkSetUp(link)
}

// ensureBridge makes the current namespace a cluster's network; it keeps what is there. Uplinks come later, and with the
// spanning tree off (the kernel's default) a port forwards from its first moment, whatever the forward delay.
func ensureBridge(links *netlink.Handle, n substrate.Network) error {
	if err := quiet("default"); err != nil {
		return err
	}
	// A new namespace forwards packets if the host does, and would send one node's to another as if from the gateway.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0); err != nil {
		return err
	}
	mac := substrate.MAC(n.Segment, substrate.GatewaySlot)
	if n.Away { // frames for the gateway are for others
		mac = substrate.MAC(n.Segment, substrate.NobodySlot)
	}
	bridge, err := netns.Find(links, bridgeName)
	if err == nil && bridge == nil {
		attributes := netlink.NewLinkAttrs()
		attributes.Name, attributes.HardwareAddr = bridgeName, mac
		err = links.LinkAdd(&netlink.Bridge{LinkAttrs: attributes, MulticastSnooping: new(bool)})
	}
	if err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	if bridge, err = links.LinkByName(bridgeName); err != nil {
		return err
	}
	if !n.Away {
		if err := links.AddrReplace(bridge, &netlink.Addr{IPNet: netns.IPNet(substrate.Gateway())}); err != nil {
			return fmt.Errorf("address of the bridge: %w", err)
		}
	}
	if err := links.LinkSetARPOff(bridge); err != nil { // see introduce
		return fmt.Errorf("switch ARP off: %w", err)
	}
	if err := up(links, "lo"); err != nil {
		return err
	}
	return links.LinkSetUp(bridge) // the last step: a bridge that is up is complete
}

// introduce tells the gateway which node has an address. It neither asks nor learns, since another cluster's node of the
// same address may be within hearing.
func introduce(links *netlink.Handle, address netip.Addr) error {
	bridge, err := links.LinkByName(bridgeName)
	if err != nil {
		return err
	}
	slot, ok := substrate.Slot(address)
	if !ok {
		return fmt.Errorf("%s is no address of a cluster's network, %s", address, substrate.Gateway().Masked())
	}
	return links.NeighSet(&netlink.Neigh{LinkIndex: bridge.Attrs().Index, Family: unix.AF_INET, State: unix.NUD_PERMANENT,
		IP: address.AsSlice(), HardwareAddr: substrate.MAC(substrate.Segment(bridge.Attrs().HardwareAddr), slot)})
}

// plug makes the node's network namespace, with eth0 cabled to the cluster's bridge. Nothing of the node's may be left.
func (d *Driver) plug(ctx context.Context, cluster string, b boot, n substrate.Node) error {
	port, create := substrate.PortName(n.Node), netns.New
	if d.mapsUsers(n) {
		create = func(path string, do func() error) error {
			if err := numbersOf(n).namespaces(path, b.path("userns")); err != nil {
				return err
			}
			return netns.Do(path, do)
		}
	}
	cable := func() error {
		return netns.Links("", func(l *netlink.Handle) error { return addNIC(l, cluster, port, n) })
	}
	if err := create(b.path("netns"), cable); err != nil {
		return err
	}
	// no frame comes from another's address
	if err := fence(cluster, n, map[int]bool{nl.IFLA_BRPORT_LOCKED: true}); err != nil {
		return err
	}
	return errors.Join(netns.AwaitCarrier(ctx, b.path("netns"), "eth0"), netns.AwaitCarrier(ctx, cluster, port))
}

// fence makes the node's port one of the cluster's bridge, with these flags (IFLA_BRPORT_…) beside the usual ones. It goes
// up last.
func fence(cluster string, n substrate.Node, more map[int]bool) error {
	// The bridge knows where the node is, and sends it what is for it alone: no broadcast, hence no ARP.
	flags := map[int]bool{nl.IFLA_BRPORT_LEARNING: false, nl.IFLA_BRPORT_UNICAST_FLOOD: false, nl.IFLA_BRPORT_BCAST_FLOOD: false,
		nl.IFLA_BRPORT_MCAST_FLOOD: false}
	maps.Copy(flags, more)
	port := substrate.PortName(n.Node)
	return netns.Links(cluster, func(links *netlink.Handle) error {
		bridge, err := links.LinkByName(bridgeName)
		if err != nil {
			return err
		}
		link, err := links.LinkByName(port)
		if err != nil {
			return err
		}
		// Frames to a bridge's own group addresses (01:80:c2:00:00:0e) come to the port itself, which would answer questions and
		// keep who asks in the table of neighbours that all networks of the host share.
		if err := links.LinkSetARPOff(link); err != nil {
			return fmt.Errorf("switch ARP off: %w", err)
		}
		if err := enslave(links, port, bridge, flags); err != nil {
			return err
		}
		if err := links.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_MASTER,
			State: netlink.NUD_NOARP, HardwareAddr: n.MAC}); err != nil {
			return err
		}
		return introduce(links, n.Address.Addr()) // a node that asks whether its gateway is there wants an answer
	})
}

// PlugPort moves an interface that is called PortName from another network namespace into the node's cluster and makes it
// the node's port of the bridge: the NIC of a guest, whose kernel is its own and may send whatever it likes. It is let
// through with the node's MAC as sender and no other (ip-link(8), "locked"). It may be called again.
func (d *Driver) PlugPort(ctx context.Context, n substrate.Node, from string) error {
	c, err := d.shared(n.Cluster)
	if err != nil {
		return err
	}
	unlock, err := onhost.Shared(ctx, d.lockPath("cluster", n.Cluster))
	if err != nil {
		return err
	}
	defer unlock()
	if !c.ready() {
		return fmt.Errorf("the shared parts of cluster %s are not there", n.Cluster)
	}
	if err := c.bring(substrate.PortName(n.Node), from); err != nil {
		return fmt.Errorf("bring port %s into the cluster's network: %w", substrate.PortName(n.Node), err)
	}
	return fence(c.netns(), n, map[int]bool{nl.IFLA_BRPORT_LOCKED: true})
}

// bring moves an interface into the cluster's network, where it has nothing to say of its own.
func (c shared) bring(name, from string) error {
	to, err := os.Open(c.netns())
	if err != nil {
		return err
	}
	defer to.Close()
	if err := netns.Links(from, func(links *netlink.Handle) error {
		link, err := netns.Find(links, name)
		if err != nil || link == nil { // it was brought before, or is missed below
			return err
		}
		return links.LinkSetNsFd(link, int(to.Fd()))
	}); err != nil {
		return err
	}
	return netns.Do(c.netns(), func() error { return quiet(name) })
}

// DropPort takes a node's port away, if it is there.
func (d *Driver) DropPort(_ context.Context, cluster, node string) error {
	c, err := d.shared(cluster)
	if err != nil {
		return err
	}
	return netns.Drop(c.netns(), substrate.PortName(node))
}

// addNIC makes eth0 in the current namespace and its other end, named port, directly in the cluster's: not for a moment
// is there an interface in the host's.
func addNIC(links *netlink.Handle, cluster, port string, n substrate.Node) error {
	if err := errors.Join(quiet("default"), pings()); err != nil {
		return err
	}
	far, err := os.Open(cluster)
	if err != nil {
		return err
	}
	defer far.Close()
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.HardwareAddr = "eth0", n.MAC
	nic := &netlink.Veth{LinkAttrs: attributes, PeerName: port, PeerNamespace: netlink.NsFd(far.Fd())}
	if err := links.LinkAdd(nic); err != nil {
		return fmt.Errorf("make eth0: %w", err)
	}
	if err := links.AddrAdd(nic, &netlink.Addr{IPNet: netns.IPNet(n.Address)}); err != nil {
		return fmt.Errorf("address of eth0: %w", err)
	}
	// ARP is not answered here, and a question that waits for an answer has a place in a table that all networks of the host
	// share, its own first of all: a node that asks for addresses without an owner would fill it.
	if err := errors.Join(links.LinkSetARPOff(nic), up(links, "lo"), links.LinkSetUp(nic)); err != nil {
		return err
	}
	// Who is a neighbour later is for the node's agent to write. But others speak to it before that, and an answer to whom it
	// does not know is lost: it would be missed for a second.
	for slot := substrate.GatewaySlot; slot < substrate.HeadSlot+min(n.Seats, mostSeats); slot++ {
		neighbour := &netlink.Neigh{LinkIndex: nic.Attrs().Index, Family: unix.AF_INET, State: unix.NUD_PERMANENT,
			IP: substrate.Address(slot).Addr().AsSlice(), HardwareAddr: substrate.MAC(substrate.Segment(n.MAC), slot)}
		if err := links.NeighSet(neighbour); err != nil {
			return fmt.Errorf("neighbour %s: %w", neighbour.IP, err)
		}
	}
	return nil
}

// mostSeats are known to a node from its first packet on.
const mostSeats = 1024

// ports are the nodes' on the cluster's bridge.
func (c shared) ports() ([]string, error) {
	ports, err := c.linksNamed(substrate.PortPrefix)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // and so is no network
	}
	return ports, err
}

// linksNamed are the interfaces of the cluster's network whose names begin so.
func (c shared) linksNamed(prefix string) (names []string, err error) {
	err = netns.Links(c.netns(), func(links *netlink.Handle) error {
		all, err := links.LinkList()
		for _, link := range all {
			if name := link.Attrs().Name; strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
		return err
	})
	return names, err
}
