package rackd

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"muster/internal/inventory"
	"muster/internal/kit/netns"
	"muster/internal/rack"
)

// address6 lets the controller send router advertisements.
func address6() netip.Prefix { return netip.MustParsePrefix("fd78::1/64") }

// makeNetwork makes the rack's network namespace: the bridge that the machines' NICs hang on, and the addresses of BMCs,
// which machines do not reach.
func makeNetwork(n inventory.Network, machines []rack.Machine) error {
	err := netns.New(n.Namespace, func() error {
		return netns.Links("", func(links *netlink.Handle) error {
			if err := makeBridge(links, n.Address); err != nil {
				return err
			}
			for _, m := range machines {
				for _, port := range m.Ports {
					if err := makePort(links, port); err != nil {
						return fmt.Errorf("port %s of %s: %w", port, m.Name, err)
					}
				}
			}
			lo, err := links.LinkByName("lo")
			if err != nil {
				return err
			}
			for _, m := range machines {
				if !m.BMC.IsValid() {
					continue
				}
				if err := links.AddrReplace(lo, &netlink.Addr{IPNet: netns.IPNet(netip.PrefixFrom(m.BMC, 32))}); err != nil {
					return fmt.Errorf("address of the BMC of %s: %w", m.Name, err)
				}
			}
			return links.LinkSetUp(lo)
		})
	})
	if err != nil {
		return fmt.Errorf("the rack's network: %w", err)
	}
	return nil
}

// makeBridge makes the bridge; the spanning tree is off, which is the kernel's default, so ports forward at once. All
// interfaces that come later are ports, and keep quiet on their own account.
func makeBridge(links *netlink.Handle, address netip.Prefix) error {
	attributes := netlink.NewLinkAttrs()
	// A bridge without an address of its own has that of one of its ports, which come and go.
	attributes.Name, attributes.HardwareAddr = rack.Bridge, net.HardwareAddr{0x02, 0, 10, 78, 0, 1}
	if err := links.LinkAdd(&netlink.Bridge{LinkAttrs: attributes, MulticastSnooping: new(bool)}); err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	bridge, err := links.LinkByName(rack.Bridge)
	if err != nil {
		return err
	}
	if err := links.AddrReplace(bridge, &netlink.Addr{IPNet: netns.IPNet(address)}); err != nil {
		return fmt.Errorf("address of the bridge: %w", err)
	}
	if err := links.LinkSetUp(bridge); err != nil {
		return err
	}
	for _, disable := range []struct{ of, value string }{{rack.Bridge, "0"}, {"default", "1"}} {
		err := os.WriteFile("/proc/sys/net/ipv6/conf/"+disable.of+"/disable_ipv6", []byte(disable.value), 0)
		if errors.Is(err, os.ErrNotExist) {
			return nil // a host without IPv6
		}
		if err != nil {
			return err
		}
	}
	// Duplicate detection would keep the address tentative for a second, and there is no other host.
	if err := links.AddrReplace(bridge, &netlink.Addr{IPNet: netns.IPNet(address6()), Flags: unix.IFA_F_NODAD}); err != nil {
		return fmt.Errorf("IPv6 address of the bridge: %w", err)
	}
	return nil
}

// makePort makes a port of the rack's switch. It is there whether its machine is on or not, and where the program that sets the
// switch has put it. At first it is one of the bridge, isolated from all others, as ports of no cluster are.
func makePort(links *netlink.Handle, name string) error {
	fd, err := attach(name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1); err != nil {
		return err
	}
	return plug(links, name, "", usualQueue)
}

// attach opens a tap, and makes it if there is none.
func attach(name string) (fd int, err error) {
	fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}

// openTap connects a machine's NIC to its port: the file is the NIC's end. While no process has it open the port has no carrier.
// plugged is done in the namespace as soon as the interface is there.
func openTap(namespace, name string, plugged func() error) (file *os.File, err error) {
	err = netns.Do(namespace, func() error {
		fd, err := attach(name)
		if err != nil {
			return err
		}
		if err := plugged(); err != nil {
			unix.Close(fd)
			return err
		}
		file = os.NewFile(uintptr(fd), filepath.Join("/dev/net/tun", name))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("tap %s: %w", name, err)
	}
	return file, nil
}

// tap makes a network interface on the bridge whose other end is the file. The interface lasts as long as the file is
// open, in whichever process. Frames have the header of virtio-net, so offloads work (Linux, Documentation/networking/tuntap).
// queue is how many frames wait for the reader at most. It is where the port beside is, or isolated on the common bridge if that
// is "".
func tap(namespace, name, beside string, queue int) (*os.File, error) {
	return openTap(namespace, name, func() error {
		return netns.Links("", func(links *netlink.Handle) error { return plug(links, name, beside, queue) })
	})
}

// plug makes an interface that is down a port: where and as the port beside is, or an isolated one of the bridge.
func plug(links *netlink.Handle, name, beside string, queue int) error {
	port, err := links.LinkByName(name)
	if err != nil {
		return err
	}
	bridge, err := links.LinkByName(rack.Bridge)
	if err != nil {
		return err
	}
	at, isolated := bridge.Attrs().Index, true
	if beside != "" {
		link, err := links.LinkByName(beside)
		if err != nil {
			return err
		}
		info, err := links.LinkGetProtinfo(link)
		if err != nil {
			return err
		}
		at, isolated = link.Attrs().MasterIndex, info.Isolated
	}
	if err := errors.Join(links.LinkSetTxQLen(port, queue), links.LinkSetMasterByIndex(port, at)); err != nil {
		return err
	}
	if err := links.LinkSetIsolated(port, isolated); err != nil {
		return fmt.Errorf("isolate it: %w", err)
	}
	return links.LinkSetUp(port)
}

// usualQueue is the kernel's own for taps.
const usualQueue = 1000

// States of a bridge's port (Linux, include/uapi/linux/if_bridge.h).
const (
	portDisabled   = 0
	portForwarding = 3
)

// setPort lets a port of the bridge forward, or not, and forgets which addresses are behind it. A disabled port drops
// all it hears, after those who listen to it with a packet socket have heard it.
func setPort(namespace, name string, state uint8) error {
	err := netns.Do(namespace, func() error {
		port, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		request := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
		message := nl.NewIfInfomsg(unix.AF_BRIDGE)
		message.Index = int32(port.Index)
		request.AddData(message)
		info := nl.NewRtAttr(unix.IFLA_PROTINFO|unix.NLA_F_NESTED, nil)
		info.AddRtAttr(nl.IFLA_BRPORT_STATE, nl.Uint8Attr(state))
		info.AddRtAttr(nl.IFLA_BRPORT_FLUSH, nil)
		request.AddData(info)
		_, err = request.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("port %s: %w", name, err)
	}
	return nil
}
