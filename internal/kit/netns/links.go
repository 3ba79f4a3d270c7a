package netns

import (
	"errors"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Links is Do with a netlink connection there; "" is the current thread's namespace.
func Links(path string, do func(*netlink.Handle) error) error {
	return Do(path, func() error {
		links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer links.Close()
		return do(links)
	})
}

// Find is nil where there is no such interface.
func Find(links *netlink.Handle, name string) (netlink.Link, error) {
	link, err := links.LinkByName(name)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		return nil, nil
	}
	return link, err
}

// Drop removes an interface of a namespace, if both are there.
func Drop(path, name string) error {
	err := Links(path, func(links *netlink.Handle) error {
		link, err := Find(links, name)
		if err != nil || link == nil {
			return err
		}
		return links.LinkDel(link)
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Sysctl sets what the current namespace does on an interface; a host without that family has nothing to set.
func Sysctl(family, name, key, value string) error {
	err := os.WriteFile("/proc/sys/net/"+family+"/conf/"+name+"/"+key, []byte(value), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// IPNet is a prefix as netlink has it.
func IPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
