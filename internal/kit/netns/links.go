package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/kit/clock"
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

// AwaitCarrier waits until an interface can carry frames: the kernel takes up to a second to notice that both ends of a cable are
// up (RFC 2863, operational status), more where many interfaces come and go, and drops what is sent before.
func AwaitCarrier(ctx context.Context, path, name string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		var state netlink.LinkOperState
		err := Links(path, func(links *netlink.Handle) error {
			link, err := links.LinkByName(name)
			if err == nil {
				state = link.Attrs().OperState
			}
			return err
		})
		if err != nil || state == netlink.OperUp {
			return err
		}
		if clock.Sleep(ctx, time.Millisecond) != nil {
			return fmt.Errorf("%s gets no carrier: %w", name, ctx.Err())
		}
	}
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
