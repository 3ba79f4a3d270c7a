package noded

import (
	"bytes"
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/protocol"
)

// kernelNeighbours writes the kernel's table of neighbours. ARP is not answered on a cluster's network; and permanent entries
// don't count against the host's limit of learnt ones, which all nodes of one host share and which 100 nodes that speak to each
// other overflow.
type kernelNeighbours struct{}

// neighbours are all that a node may speak to on the cluster's network.
func neighbours(config *protocol.Config) []protocol.Neighbour {
	var all []protocol.Neighbour
	if config.Gateway.Address != "" {
		all = append(all, config.Gateway)
	}
	for _, p := range config.Peers {
		all = append(all, protocol.Neighbour{Address: p.Address, MAC: p.MAC})
	}
	return all
}

// set makes the permanent neighbours on the interface with the node's own MAC be exactly these.
func (kernelNeighbours) set(own string, neighbours []protocol.Neighbour) error {
	kernel, err := netlink.NewHandle(unix.NETLINK_ROUTE) // one socket for all: a large cluster has many
	if err != nil {
		return fmt.Errorf("neighbours: %w", err)
	}
	defer kernel.Close()
	link, err := linkOf(own)
	if err != nil {
		return fmt.Errorf("neighbours: %w", err)
	}
	index := link.Attrs().Index
	known, err := kernel.NeighList(index, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("neighbours on %s: %w", link.Attrs().Name, err)
	}
	has := map[string]netlink.Neigh{} // permanent ones by address
	for _, n := range known {
		if n.State&unix.NUD_PERMANENT != 0 {
			has[n.IP.String()] = n
		}
	}
	var failed error
	for _, n := range neighbours {
		ip := net.ParseIP(n.Address).To4()
		mac, err := net.ParseMAC(n.MAC)
		if ip == nil || err != nil {
			failed = errors.Join(failed, fmt.Errorf("neighbour: bad address %q or MAC %q", n.Address, n.MAC))
			continue
		}
		old, found := has[ip.String()]
		delete(has, ip.String())
		if found && bytes.Equal(old.HardwareAddr, mac) {
			continue
		}
		err = kernel.NeighSet(&netlink.Neigh{LinkIndex: index, Family: unix.AF_INET, State: unix.NUD_PERMANENT, IP: ip,
			HardwareAddr: mac})
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("neighbour %s: %w", n.Address, err))
		}
	}
	for _, gone := range has {
		if err := kernel.NeighDel(&gone); err != nil {
			failed = errors.Join(failed, fmt.Errorf("remove neighbour %s: %w", gone.IP, err))
		}
	}
	return failed
}

// linkOf finds the interface with a MAC.
func linkOf(mac string) (netlink.Link, error) {
	want, err := net.ParseMAC(mac)
	if err != nil {
		return nil, err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	there := ""
	for _, link := range links {
		has := link.Attrs().HardwareAddr
		if bytes.Equal(has, want) {
			return link, nil
		}
		if len(has) > 0 && link.Attrs().Flags&net.FlagLoopback == 0 {
			there += fmt.Sprintf(" %s (%s)", link.Attrs().Name, has)
		}
	}
	return nil, fmt.Errorf("no interface has the MAC %s; there are:%s", mac, there)
}
