package switches

import (
	"context"
	"fmt"
	"strconv"

	"github.com/vishvananda/netlink"
)

// bridge is a switch that is the Linux bridges of the landing themselves: a port is in the segment whose bridge it is a port
// of. Ports of the common bridge are isolated.
type bridge struct{ landing }

// Put moves the port while it is down.
func (b bridge) Put(_ context.Context, p Port, s Segment) error {
	err := b.do(func(links *netlink.Handle) error {
		link, err := find(links, p.Name)
		if err == nil && link == nil {
			err = fmt.Errorf("%w; `ip link show` in %s lists those there are", ErrNoPort, place(b.namespace))
		}
		if err != nil {
			return err
		}
		to, err := b.open(links, s)
		if err != nil {
			return err
		}
		if err := sysctl("ipv6", p.Name, "disable_ipv6", "1"); err != nil {
			return err
		}
		if err := plug(links, link, to, s == Common); err != nil {
			return err
		}
		if !plugged(links, link, to, s == Common) {
			return fmt.Errorf("it was put there, and is not there")
		}
		if err := pin(links, p.Name, p.MACs); err != nil || s == Common {
			return err
		}
		return pin(links, b.name(kindFar, s), p.MACs)
	})
	if err != nil {
		return fmt.Errorf("put port %s into %s: %w", p.Name, s, err)
	}
	return nil
}

// Ports reads the kernel's list of interfaces.
func (b bridge) Ports(context.Context) (map[string]Segment, error) {
	all := map[string]Segment{}
	err := b.do(func(links *netlink.Handle) error {
		list, err := links.LinkList()
		if err != nil {
			return err
		}
		segments := map[int]Segment{}
		name := b.own(kindBridge)
		for _, link := range list {
			if m := name.FindStringSubmatch(link.Attrs().Name); m != nil {
				if n, err := strconv.Atoi(m[1]); err == nil {
					segments[link.Attrs().Index] = Segment(n)
				}
			}
			if link.Attrs().Name == b.common {
				segments[link.Attrs().Index] = Common
			}
		}
		for _, link := range list {
			name := link.Attrs().Name
			s, in := segments[link.Attrs().MasterIndex]
			if link.Attrs().MasterIndex == 0 || !in || b.own(kindNear).MatchString(name) || b.own(kindFar).MatchString(name) {
				s = Nowhere
			} else if info, err := links.LinkGetProtinfo(link); err != nil {
				return fmt.Errorf("port %s: %w", name, err)
			} else if info.Isolated != (s == Common) {
				s = Nowhere
			}
			all[name] = s
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the ports of %s: %w", b.common, err)
	}
	return all, nil
}

// Open makes the segment's bridge.
func (b bridge) Open(_ context.Context, s Segment) (string, error) {
	err := b.do(func(links *netlink.Handle) error {
		_, err := b.open(links, s)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("open %s: %w", s, err)
	}
	return b.bridgeOf(s), nil
}

// Close removes the segment's bridge.
func (b bridge) Close(ctx context.Context, s Segment) error {
	if s == Common {
		return nil
	}
	ports, err := b.Ports(ctx)
	for name, in := range ports {
		if in == s && err == nil {
			err = fmt.Errorf("%w: %s", ErrInUse, name)
		}
	}
	if err == nil {
		err = b.do(func(links *netlink.Handle) error { return remove(links, b.name(kindNear, s), b.bridgeOf(s)) })
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", s, err)
	}
	return nil
}

// Opened reads the kernel's list of interfaces.
func (b bridge) Opened(context.Context) ([]Segment, error) { return b.opened() }

// place names a network namespace.
func place(namespace string) string {
	if namespace == "" {
		return "the host's network namespace"
	}
	return namespace
}
