package agent

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/agent/protocol"
)

// device is the node's network card on the cluster's network.
const device = "eth0"

// kernelNeighbours writes the kernel's table of neighbours. Permanent entries don't count against the host's limit of
// learnt ones, which all nodes of one host share and which 100 nodes that speak to each other overflow.
type kernelNeighbours struct{}

// set makes the permanent neighbours on the cluster's network be exactly these.
func (kernelNeighbours) set(peers []protocol.Peer) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("neighbours on %s: %w", device, err)
	}
	index := link.Attrs().Index
	known, err := netlink.NeighList(index, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("neighbours on %s: %w", device, err)
	}
	has := map[string]netlink.Neigh{} // permanent ones by address
	for _, n := range known {
		if n.State&unix.NUD_PERMANENT != 0 {
			has[n.IP.String()] = n
		}
	}
	var failed error
	for _, p := range peers {
		ip := net.ParseIP(p.Address).To4()
		mac, err := net.ParseMAC(p.MAC)
		if ip == nil || err != nil {
			failed = errors.Join(failed, fmt.Errorf("neighbour %s: bad address %q or MAC %q", p.Name, p.Address, p.MAC))
			continue
		}
		old, found := has[ip.String()]
		delete(has, ip.String())
		if found && old.HardwareAddr.String() == mac.String() {
			continue
		}
		err = netlink.NeighSet(&netlink.Neigh{LinkIndex: index, Family: unix.AF_INET, State: unix.NUD_PERMANENT, IP: ip, HardwareAddr: mac})
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("neighbour %s: %w", p.Name, err))
		}
	}
	for _, gone := range has {
		if err := netlink.NeighDel(&gone); err != nil {
			failed = errors.Join(failed, fmt.Errorf("remove neighbour %s: %w", gone.IP, err))
		}
	}
	return failed
}
