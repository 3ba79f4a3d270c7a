package noded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/kit/netns"
	"muster/internal/protocol"
)

// bridge makes the NIC that a hypervisor booted by a port of a bridge, so that the networks of its guests' clusters can be cabled
// to it. The machine's own address moves to the bridge: the DHCP client finds it there. It is called before anybody
// speaks over the NIC.
func (kernelMachine) bridge() error {
	booted, err := bootNetwork(protocol.NetworkFile)
	if err != nil {
		return err
	}
	if err := bridgeOver(booted.NIC); err != nil {
		return fmt.Errorf("make %s over %s: %w", protocol.HostBridge, booted.NIC, err)
	}
	booted.NIC = protocol.HostBridge
	text, err := json.Marshal(booted)
	if err != nil {
		return err
	}
	return os.WriteFile(protocol.NetworkFile, text, 0o600)
}

// bridgeOver keeps a bridge that is there.
func bridgeOver(name string) error {
	if name == protocol.HostBridge {
		return nil
	}
	nic, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.HardwareAddr, attributes.MTU = protocol.HostBridge, nic.Attrs().HardwareAddr, nic.Attrs().MTU
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes, MulticastSnooping: new(bool)}); err != nil &&
		!errors.Is(err, fs.ErrExist) {
		return err
	}
	bridge, err := netlink.LinkByName(protocol.HostBridge)
	if err != nil {
		return err
	}
	for _, quiet := range []string{name, protocol.HostBridge} { // IPv6 would speak for itself, to all at once
		if err := netns.Sysctl("ipv6", quiet, "disable_ipv6", "1"); err != nil {
			return err
		}
	}
	if err := netlink.LinkSetMaster(nic, bridge); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return err
	}
	return moveAddresses(nic, bridge)
}

// moveAddresses takes addresses from one interface to another, and the routes that lead over it.
func moveAddresses(from, to netlink.Link) error {
	addresses, err := netlink.AddrList(from, unix.AF_INET)
	if err != nil {
		return err
	}
	routes, err := netlink.RouteList(from, unix.AF_INET)
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if err := netlink.AddrDel(from, &netlink.Addr{IPNet: a.IPNet}); err != nil {
			return err
		}
		if err := netlink.AddrReplace(to, &netlink.Addr{IPNet: a.IPNet}); err != nil {
			return err
		}
	}
	for _, r := range routes {
		if r.Protocol == unix.RTPROT_KERNEL { // came with the address
			continue
		}
		if err := netlink.RouteReplace(&netlink.Route{LinkIndex: to.Attrs().Index, Dst: r.Dst, Gw: r.Gw, Scope: r.Scope,
			Priority: r.Priority}); err != nil {
			return fmt.Errorf("route by %s: %w", net.IP(r.Gw), err)
		}
	}
	return nil
}
