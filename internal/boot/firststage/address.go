package firststage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/kit/clock"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// connect brings the NIC up with the address of the boot script, or with one from DHCP.
func connect(ctx context.Context, h *hardware, a arguments) (protocol.BootNetwork, error) {
	nic, err := h.awaitNIC(ctx, a.mac)
	if err != nil {
		return protocol.BootNetwork{}, err
	}
	for _, name := range []string{"lo", nic} {
		link, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(link)
		}
		if err != nil {
			return protocol.BootNetwork{}, fmt.Errorf("bring up %s: %w", name, err)
		}
	}
	if err := h.awaitCarrier(ctx, nic); err != nil {
		return protocol.BootNetwork{}, err
	}
	n := protocol.BootNetwork{NIC: nic, MAC: a.mac.String(), Address: a.address.String(), By: "script"}
	if !a.address.IsValid() {
		if n, err = ask(ctx, h.console, n); err != nil {
			return n, err
		}
	}
	h.console.say("%s %s has address %s by %s", nic, n.MAC, n.Address, n.By)
	return n, apply(n)
}

// ask asks DHCP until it answers.
func ask(ctx context.Context, c console, n protocol.BootNetwork) (protocol.BootNetwork, error) {
	// A kernel without a source of randomness makes it while somebody waits for it, and only then. The client polls.
	if _, err := unix.Getrandom(make([]byte, 1), 0); err != nil {
		return n, fmt.Errorf("random numbers: %w", err)
	}
	news := often{every: sayEvery}
	for {
		lease, err := request(ctx, n.NIC)
		if err == nil {
			if n, err = leased(n, lease); err == nil {
				return n, nil
			}
		}
		if news.now() {
			c.say("no address by DHCP on %s: %v; asking again", n.NIC, err)
		}
		if err := clock.Sleep(ctx, time.Second); err != nil {
			return n, err
		}
	}
}

func request(ctx context.Context, nic string) (*dhcpv4.DHCPv4, error) {
	client, err := nclient4.New(nic, nclient4.WithTimeout(2*time.Second), nclient4.WithRetry(3))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	within, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	lease, err := client.Request(within)
	if err != nil {
		return nil, err
	}
	return lease.ACK, nil
}

// leased takes from a lease what counts here.
func leased(n protocol.BootNetwork, ack *dhcpv4.DHCPv4) (protocol.BootNetwork, error) {
	address, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	ones, bits := net.IPMask(ack.SubnetMask()).Size()
	if !ok || address.IsUnspecified() || bits != 32 {
		return n, errors.New("the lease has no address or no netmask")
	}
	n.Address = netip.PrefixFrom(address, ones).String()
	n.By, n.LeaseSeconds = "dhcp", int(ack.IPAddressLeaseTime(0).Seconds())
	if server := ack.ServerIdentifier(); server != nil {
		n.Server = server.String()
	}
	if routers := ack.Router(); len(routers) > 0 {
		n.Gateway = routers[0].String()
	}
	return n, nil
}

// apply sets address and route. What is there already is fine.
func apply(n protocol.BootNetwork) error {
	link, err := netlink.LinkByName(n.NIC)
	if err != nil {
		return fmt.Errorf("address of %s: %w", n.NIC, err)
	}
	address, err := netlink.ParseAddr(n.Address)
	if err != nil {
		return fmt.Errorf("address of %s: %w", n.NIC, err)
	}
	if err := netlink.AddrReplace(link, address); err != nil {
		return fmt.Errorf("address of %s: %w", n.NIC, err)
	}
	if n.Gateway == "" {
		return nil
	}
	err = netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(n.Gateway)})
	return wrap.Errorf(err, "route by %s", n.Gateway)
}
