// Package uplink is where the segments of a network end on the controller's host: bridges in one network namespace. It is what
// drivers of switches that end there have in common.
//
// What enters: the namespace, and names of segments. What leaves: bridges there, made and removed.
package uplink

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	switches "muster/internal/drivers/switch"
	"muster/internal/kit/netns"
)

// Uplink is the bridges of one network. The common one carries the controller's address.
type Uplink struct {
	Namespace string // path; "": the host's own
	Common    string // the common bridge
}

// Kinds of interfaces; their names are the kind, a number of the network's, and the segment, within the kernel's 15 characters.
const (
	KindBridge = "s" // of a segment
	KindNear   = "c" // its end of the cable to the common bridge
	KindFar    = "f" // the common bridge's end
	KindInner  = "o" // the bridge's end of the cable to Open vSwitch
	KindOuter  = "p" // Open vSwitch's end
)

func (l Uplink) Name(kind string, s switches.Segment) string {
	sum := sha256.Sum256([]byte(l.Common))
	return fmt.Sprintf("%s%s-%d", kind, hex.EncodeToString(sum[:2]), int(s))
}

// BridgeOf is the bridge that a segment is here.
func (l Uplink) BridgeOf(s switches.Segment) string {
	if s == switches.Common {
		return l.Common
	}
	return l.Name(KindBridge, s)
}

// Own is what the interfaces of a kind are called here.
func (l Uplink) Own(kind string) *regexp.Regexp {
	sum := sha256.Sum256([]byte(l.Common))
	return regexp.MustCompile("^" + kind + hex.EncodeToString(sum[:2]) + "-([0-9]+)$")
}

func (l Uplink) Do(do func(*netlink.Handle) error) error {
	return netns.Links(l.Namespace, do)
}

// ground makes sure that the common bridge is one, and that the host does not carry packets from one machine to another
// that no frame may go to.
func (l Uplink) ground(links *netlink.Handle) (netlink.Link, error) {
	link, err := links.LinkByName(l.Common)
	if err != nil {
		return nil, fmt.Errorf("the bridge of the common segment, %s: %w", l.Common, err)
	}
	if link.Type() != "bridge" {
		return nil, fmt.Errorf("%s is no bridge (%s), and the common segment must end at one", l.Common, link.Type())
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		if err := netns.Sysctl(family, l.Common, "forwarding", "0"); err != nil {
			return nil, err
		}
	}
	return link, boundLearning(link)
}

// Open makes a segment's bridge and its cable to the common one.
func (l Uplink) Open(links *netlink.Handle, s switches.Segment) (netlink.Link, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	common, err := l.ground(links)
	if err != nil || s == switches.Common {
		return common, err
	}
	made, err := makeBridge(links, l.BridgeOf(s))
	if err != nil {
		return nil, fmt.Errorf("bridge of %s: %w", s, err)
	}
	if err := Cable(links, End{l.Name(KindNear, s), made, false}, End{l.Name(KindFar, s), common, true}); err != nil {
		return nil, fmt.Errorf("cable of %s: %w", s, err)
	}
	return made, nil
}

// Mute keeps the host from speaking on an interface: it would answer for all of its addresses on each, and forward between
// them.
func Mute(links *netlink.Handle, link netlink.Link) error {
	name := link.Attrs().Name
	return errors.Join(netns.Sysctl("ipv6", name, "disable_ipv6", "1"), netns.Sysctl("ipv4", name, "forwarding", "0"),
		netns.Sysctl("ipv4", name, "arp_ignore", "8"), links.LinkSetARPOff(link))
}

// makeBridge makes a bridge that says nothing of its own accord, and nothing in the host's name.
func makeBridge(links *netlink.Handle, name string) (netlink.Link, error) {
	link, err := netns.Find(links, name)
	if err != nil {
		return nil, err
	}
	if link == nil {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = name
		if err := links.LinkAdd(&netlink.Bridge{LinkAttrs: attributes, MulticastSnooping: new(bool)}); err != nil {
			return nil, err
		}
		if link, err = links.LinkByName(name); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(Mute(links, link), boundLearning(link)); err != nil {
		return nil, err
	}
	return link, links.LinkSetUp(link)
}

// End is one end of a cable: a port of a bridge, if there is one.
type End struct {
	Name     string
	Bridge   netlink.Link
	Isolated bool
}

// Cable makes a pair of interfaces, each a port of its bridge; it keeps one that is right. No end is up before it is where it
// belongs.
func Cable(links *netlink.Handle, ends ...End) error {
	first, err := netns.Find(links, ends[0].Name)
	if err != nil {
		return err
	}
	if first == nil {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = ends[0].Name
		if err := links.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: ends[1].Name}); err != nil {
			return err
		}
	}
	for _, e := range ends {
		link, err := links.LinkByName(e.Name)
		if err == nil {
			err = Mute(links, link)
		}
		if err == nil && e.Bridge == nil {
			err = links.LinkSetUp(link)
		} else if err == nil {
			err = Plug(links, link, e.Bridge, e.Isolated)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	return nil
}

// Plug makes an interface a port of a bridge. It is down while it is anything else, since a port is open to all in the
// moment in which it becomes one.
func Plug(links *netlink.Handle, link, bridge netlink.Link, isolated bool) error {
	if Plugged(links, link, bridge, isolated) {
		return nil
	}
	if err := links.LinkSetDown(link); err != nil {
		return err
	}
	if err := links.LinkSetMaster(link, bridge); err != nil {
		return err
	}
	if err := links.LinkSetIsolated(link, isolated); err != nil {
		return fmt.Errorf("isolate it: %w", err)
	}
	return links.LinkSetUp(link)
}

// Plugged looks whether an interface is a port of a bridge as it should be, and up.
func Plugged(links *netlink.Handle, link, bridge netlink.Link, isolated bool) bool {
	now, err := links.LinkByIndex(link.Attrs().Index)
	if err != nil || now.Attrs().MasterIndex != bridge.Attrs().Index || now.Attrs().Flags&net.FlagUp == 0 {
		return false
	}
	info, err := links.LinkGetProtinfo(now)
	return err == nil && info.Isolated == isolated
}

// Isolate isolates the ports of the common bridge that are not, but for the cables of segments, the named and the trusted, and
// returns their names. It takes none of them down: what a port says to the controller goes on.
func (l Uplink) Isolate(named []string) ([]string, error) {
	var isolated []string
	far, inner := l.Own(KindFar), l.Own(KindInner)
	err := l.Do(func(links *netlink.Handle) error {
		bridge, err := netns.Find(links, l.Common)
		if err != nil || bridge == nil || bridge.Type() != "bridge" { // without it there is nothing to be a port of
			return err
		}
		list, err := links.LinkList()
		for _, link := range list {
			name := link.Attrs().Name
			if link.Attrs().MasterIndex != bridge.Attrs().Index || far.MatchString(name) || inner.MatchString(name) ||
				slices.Contains(named, name) || link.Attrs().Alias == switches.Trusted {
				continue
			}
			info, failed := links.LinkGetProtinfo(link)
			if failed == nil && info.Isolated {
				continue
			}
			if failed == nil {
				failed = links.LinkSetIsolated(link, true)
			}
			if failed != nil {
				err = errors.Join(err, fmt.Errorf("port %s: %w", name, failed))
				continue
			}
			isolated = append(isolated, name)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("isolate the other ports of %s: %w", l.Common, err)
	}
	slices.Sort(isolated)
	return isolated, err
}

// Trusted says that an interface of this name is there and has the alias that makes its port trusted.
func (l Uplink) Trusted(name string) (is bool, err error) {
	err = l.Do(func(links *netlink.Handle) error {
		link, err := netns.Find(links, name)
		is = link != nil && link.Attrs().Alias == switches.Trusted
		return err
	})
	return is, err
}

// Pin has a port's bridge send what is for these MACs by that port, whatever anybody says as whom (bridge(8), "sticky").
func Pin(links *netlink.Handle, name string, macs []net.HardwareAddr) error {
	link, err := links.LinkByName(name)
	if err != nil {
		return err
	}
	for _, mac := range macs {
		if err := links.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, Family: unix.AF_BRIDGE,
			Flags: netlink.NTF_MASTER | netlink.NTF_STICKY,
			State: netlink.NUD_NOARP, HardwareAddr: mac}); err != nil {
			return fmt.Errorf("pin %s to %s: %w", mac, name, err)
		}
	}
	return nil
}

// Opened lists the segments that end here.
func (l Uplink) Opened() ([]switches.Segment, error) {
	var all []switches.Segment
	name := l.Own(KindBridge)
	err := l.Do(func(links *netlink.Handle) error {
		list, err := links.LinkList()
		for _, link := range list {
			if m := name.FindStringSubmatch(link.Attrs().Name); m != nil && link.Type() == "bridge" {
				n, err := strconv.Atoi(m[1])
				if err == nil && n > 0 {
					all = append(all, switches.Segment(n))
				}
			}
		}
		return err
	})
	return all, err
}

// Remove takes interfaces away that may not be there; a cable goes with either of its ends.
func Remove(links *netlink.Handle, names ...string) error {
	for _, name := range names {
		link, err := netns.Find(links, name)
		if err == nil && link != nil {
			err = links.LinkDel(link)
		}
		if err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}
