package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"muster/internal/netns"
	"muster/internal/substrate"
)

const bridgeName = "br0"

// withLinks is netns.Do with a netlink connection there.
func withLinks(path string, do func(*netlink.Handle) error) error {
	return netns.Do(path, func() error { return connected(do) })
}

func connected(do func(*netlink.Handle) error) error {
	links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer links.Close()
	return do(links)
}

// quiet keeps interfaces made from now on in this thread's namespace free of IPv6, whose duplicate detection and
// multicast would be the only traffic nobody asked for. Hosts without IPv6 have nothing to switch off.
func quiet() error {
	err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
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
func ensureBridge(links *netlink.Handle, segment int) error {
	if err := quiet(); err != nil {
		return err
	}
	address, mac := substrate.Gateway(), substrate.MAC(segment, substrate.GatewaySlot)
	_, err := links.LinkByName(bridgeName)
	if notFound := (netlink.LinkNotFoundError{}); errors.As(err, &notFound) {
		attributes := netlink.NewLinkAttrs()
		attributes.Name, attributes.HardwareAddr = bridgeName, mac
		err = links.LinkAdd(&netlink.Bridge{LinkAttrs: attributes, MulticastSnooping: new(bool)})
	}
	if err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	bridge, err := links.LinkByName(bridgeName)
	if err != nil {
		return err
	}
	if err := links.AddrReplace(bridge, &netlink.Addr{IPNet: ipNet(address)}); err != nil {
		return fmt.Errorf("address of the bridge: %w", err)
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
func plug(cluster, own string, n substrate.Node) error {
	port := portName(n.Node)
	if err := netns.New(own, func() error { return connected(func(l *netlink.Handle) error { return addNIC(l, cluster, port, n) }) }); err != nil {
		return err
	}
	return withLinks(cluster, func(links *netlink.Handle) error {
		bridge, err := links.LinkByName(bridgeName)
		if err != nil {
			return err
		}
		// The bridge knows where the node is, and sends it what is for it alone: no broadcast, hence no ARP.
		if err := enslave(links, port, bridge, map[int]bool{nl.IFLA_BRPORT_LEARNING: false, nl.IFLA_BRPORT_UNICAST_FLOOD: false,
			nl.IFLA_BRPORT_BCAST_FLOOD: false, nl.IFLA_BRPORT_MCAST_FLOOD: false}); err != nil {
			return err
		}
		link, err := links.LinkByName(port)
		if err != nil {
			return err
		}
		if err := links.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_MASTER,
			State: netlink.NUD_NOARP, HardwareAddr: n.MAC}); err != nil {
			return err
		}
		return introduce(links, n.Address.Addr()) // a node that asks whether its gateway is there wants an answer
	})
}

// addNIC makes eth0 in the current namespace and its other end, named port, directly in the cluster's: not for a moment
// is there an interface in the host's.
func addNIC(links *netlink.Handle, cluster, port string, n substrate.Node) error {
	if err := quiet(); err != nil {
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
	if err := links.AddrAdd(nic, &netlink.Addr{IPNet: ipNet(n.Address)}); err != nil {
		return fmt.Errorf("address of eth0: %w", err)
	}
	if err := errors.Join(up(links, "lo"), links.LinkSetUp(nic)); err != nil {
		return err
	}
	// The gateway answers no ARP. Other neighbours are for the node's agent to write.
	gateway := &netlink.Neigh{LinkIndex: nic.Attrs().Index, Family: unix.AF_INET, State: unix.NUD_PERMANENT,
		IP: substrate.Gateway().Addr().AsSlice(), HardwareAddr: substrate.MAC(substrate.Segment(n.MAC), substrate.GatewaySlot)}
	if err := links.NeighSet(gateway); err != nil {
		return fmt.Errorf("neighbour %s: %w", gateway.IP, err)
	}
	return nil
}

// portName fits the kernel's 15 characters.
func portName(node string) string {
	sum := sha256.Sum256([]byte(node))
	return "v-" + hex.EncodeToString(sum[:6])
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
