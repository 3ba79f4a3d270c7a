// Package bridge is a switch of Linux bridges on the controller's host.
//
// What enters: segments and ports, as package switch describes them. What leaves: bridges and their ports, set by netlink, and
// which ports are where.
package bridge

import (
	"context"
	"fmt"
	"strconv"

	"github.com/vishvananda/netlink"

	switches "muster/internal/drivers/switch"
	"muster/internal/drivers/switch/uplink"
	"muster/internal/inventory"
	"muster/internal/kit/netns"
	"muster/internal/kit/wrap"
)

// Factory declares the driver.
func Factory() switches.Factory {
	return switches.Factory{
		Name: "bridge", Isolates: true,
		Open: func(n inventory.Network) switches.Switch {
			return bridge{uplink.Uplink{Namespace: n.Namespace, Common: n.Interface}}
		},
	}
}

// bridge is a switch that is the Linux bridges of the uplink themselves: a port is in the segment whose bridge it is a port
// of. Ports of the common bridge are isolated.
type bridge struct{ uplink.Uplink }

// Put moves the port while it is down.
func (b bridge) Put(_ context.Context, p switches.Port, s switches.Segment) error {
	err := b.Do(func(links *netlink.Handle) error {
		link, err := netns.Find(links, p.Name)
		if err == nil && link == nil {
			err = fmt.Errorf("%w; `ip link show` in %s lists those there are", switches.ErrNoPort, spell(b.Namespace))
		}
		if err != nil {
			return err
		}
		to, err := b.Uplink.Open(links, s)
		if err != nil {
			return err
		}
		if err := netns.Sysctl("ipv6", p.Name, "disable_ipv6", "1"); err != nil {
			return err
		}
		if err := uplink.Plug(links, link, to, s == switches.Common); err != nil {
			return err
		}
		if !uplink.Plugged(links, link, to, s == switches.Common) {
			return fmt.Errorf("it was put there, and is not there")
		}
		if err := uplink.Pin(links, p.Name, p.MACs); err != nil || s == switches.Common {
			return err
		}
		return uplink.Pin(links, b.Name(uplink.KindFar, s), p.MACs)
	})
	return wrap.Errorf(err, "put port %s into %s", p.Name, s)
}

// Ports reads the kernel's list of interfaces.
func (b bridge) Ports(context.Context) (map[string]switches.Segment, error) {
	all := map[string]switches.Segment{}
	err := b.Do(func(links *netlink.Handle) error {
		list, err := links.LinkList()
		if err != nil {
			return err
		}
		segments := map[int]switches.Segment{}
		name := b.Own(uplink.KindBridge)
		for _, link := range list {
			if m := name.FindStringSubmatch(link.Attrs().Name); m != nil {
				if n, err := strconv.Atoi(m[1]); err == nil {
					segments[link.Attrs().Index] = switches.Segment(n)
				}
			}
			if link.Attrs().Name == b.Common {
				segments[link.Attrs().Index] = switches.Common
			}
		}
		for _, link := range list {
			name := link.Attrs().Name
			s, in := segments[link.Attrs().MasterIndex]
			if link.Attrs().MasterIndex == 0 || !in || b.Own(uplink.KindNear).MatchString(name) || b.Own(uplink.KindFar).
				MatchString(name) {
				s = switches.Nowhere
			} else if info, err := links.LinkGetProtinfo(link); err != nil {
				return fmt.Errorf("port %s: %w", name, err)
			} else if info.Isolated != (s == switches.Common) {
				s = switches.Nowhere
			}
			all[name] = s
		}
		return nil
	})
	return all, wrap.Errorf(err, "read the ports of %s", b.Common)
}

// Isolate is the uplink's: whatever is a port of the common bridge is a port of the switch.
func (b bridge) Isolate(_ context.Context, named []string) ([]string, error) {
	return b.Uplink.Isolate(named)
}

// Open makes the segment's bridge.
func (b bridge) Open(_ context.Context, s switches.Segment) (string, error) {
	err := b.Do(func(links *netlink.Handle) error {
		_, err := b.Uplink.Open(links, s)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("open %s: %w", s, err)
	}
	return b.BridgeOf(s), nil
}

// Close removes the segment's bridge.
func (b bridge) Close(ctx context.Context, s switches.Segment) error {
	if s == switches.Common {
		return nil
	}
	ports, err := b.Ports(ctx)
	for name, in := range ports {
		if in == s && err == nil {
			err = fmt.Errorf("%w: %s", switches.ErrInUse, name)
		}
	}
	if err == nil {
		err = b.Do(func(links *netlink.Handle) error {
			return uplink.Remove(links, b.Name(uplink.KindNear, s), b.BridgeOf(s))
		})
	}
	return wrap.Errorf(err, "close %s", s)
}

// Opened reads the kernel's list of interfaces.
func (b bridge) Opened(context.Context) ([]switches.Segment, error) { return b.Uplink.Opened() }

// spell is a network namespace in words.
func spell(namespace string) string {
	if namespace == "" {
		return "the host's network namespace"
	}
	return namespace
}
