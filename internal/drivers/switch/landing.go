package switches

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"muster/internal/netns"
)

// landing is where the segments of a network end on the controller's host: bridges in one network namespace. The common one
// carries the controller's address.
type landing struct {
	namespace string
	common    string
}

// Kinds of interfaces; their names are the kind, a number of the network's, and the segment, within the kernel's 15 characters.
const (
	kindBridge = "s" // of a segment
	kindNear   = "c" // its end of the cable to the common bridge
	kindFar    = "f" // the common bridge's end
	kindInner  = "o" // the bridge's end of the cable to Open vSwitch
	kindOuter  = "p" // Open vSwitch's end
)

func (l landing) name(kind string, s Segment) string {
	sum := sha256.Sum256([]byte(l.common))
	return fmt.Sprintf("%s%s-%d", kind, hex.EncodeToString(sum[:2]), int(s))
}

// bridgeOf is the bridge that a segment is here.
func (l landing) bridgeOf(s Segment) string {
	if s == Common {
		return l.common
	}
	return l.name(kindBridge, s)
}

// own is what the interfaces of a kind are called here.
func (l landing) own(kind string) *regexp.Regexp {
	sum := sha256.Sum256([]byte(l.common))
	return regexp.MustCompile("^" + kind + hex.EncodeToString(sum[:2]) + "-([0-9]+)$")
}

func (l landing) do(do func(*netlink.Handle) error) error {
	return netns.Do(l.namespace, func() error {
		links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer links.Close()
		return do(links)
	})
}

// find is nil where there is no such interface.
func find(links *netlink.Handle, name string) (netlink.Link, error) {
	link, err := links.LinkByName(name)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		return nil, nil
	}
	return link, err
}

// ground makes sure that the common bridge is one, and that the host does not carry packets from one machine to another
// that no frame may go to.
func (l landing) ground(links *netlink.Handle) (netlink.Link, error) {
	link, err := links.LinkByName(l.common)
	if err != nil {
		return nil, fmt.Errorf("the bridge of the common segment, %s: %w", l.common, err)
	}
	if link.Type() != "bridge" {
		return nil, fmt.Errorf("%s is no bridge (%s), and the common segment must end at one", l.common, link.Type())
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		if err := sysctl(family, l.common, "forwarding", "0"); err != nil {
			return nil, err
		}
	}
	return link, nil
}

// sysctl sets what the current namespace does on an interface; a host without that family has nothing to set.
func sysctl(family, name, key, value string) error {
	err := os.WriteFile("/proc/sys/net/"+family+"/conf/"+name+"/"+key, []byte(value), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// open makes a segment's bridge and its cable to the common one.
func (l landing) open(links *netlink.Handle, s Segment) (netlink.Link, error) {
	common, err := l.ground(links)
	if err != nil || s == Common {
		return common, err
	}
	made, err := makeBridge(links, l.bridgeOf(s))
	if err != nil {
		return nil, fmt.Errorf("bridge of %s: %w", s, err)
	}
	if err := cable(links, end{l.name(kindNear, s), made, false}, end{l.name(kindFar, s), common, true}); err != nil {
		return nil, fmt.Errorf("cable of %s: %w", s, err)
	}
	return made, nil
}

// mute keeps the host from speaking on an interface: it would answer for all of its addresses on each, and forward between
// them.
func mute(links *netlink.Handle, link netlink.Link) error {
	name := link.Attrs().Name
	return errors.Join(sysctl("ipv6", name, "disable_ipv6", "1"), sysctl("ipv4", name, "forwarding", "0"),
		sysctl("ipv4", name, "arp_ignore", "8"), links.LinkSetARPOff(link))
}

// makeBridge makes a bridge that says nothing of its own accord, and nothing in the host's name.
func makeBridge(links *netlink.Handle, name string) (netlink.Link, error) {
	link, err := find(links, name)
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
	if err := mute(links, link); err != nil {
		return nil, err
	}
	return link, links.LinkSetUp(link)
}

// end is one end of a cable: a port of a bridge, if there is one.
type end struct {
	name     string
	bridge   netlink.Link
	isolated bool
}

// cable makes a pair of interfaces, each a port of its bridge; it keeps one that is right. No end is up before it is where it
// belongs.
func cable(links *netlink.Handle, ends ...end) error {
	first, err := find(links, ends[0].name)
	if err != nil {
		return err
	}
	if first == nil {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = ends[0].name
		if err := links.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: ends[1].name}); err != nil {
			return err
		}
	}
	for _, e := range ends {
		link, err := links.LinkByName(e.name)
		if err == nil {
			err = mute(links, link)
		}
		if err == nil && e.bridge == nil {
			err = links.LinkSetUp(link)
		} else if err == nil {
			err = plug(links, link, e.bridge, e.isolated)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

// plug makes an interface a port of a bridge. It is down while it is anything else, since a port is open to all in the
// moment in which it becomes one.
func plug(links *netlink.Handle, link, bridge netlink.Link, isolated bool) error {
	if plugged(links, link, bridge, isolated) {
		return nil
	}
	if err := links.LinkSetDown(link); err != nil {
		return err
	}
	if err := links.LinkSetMaster(link, bridge); err != nil {
		return err
	}
	if err := setIsolated(link, isolated); err != nil {
		return fmt.Errorf("isolate it: %w", err)
	}
	return links.LinkSetUp(link)
}

// plugged looks whether an interface is a port of a bridge as it should be, and up.
func plugged(links *netlink.Handle, link, bridge netlink.Link, isolated bool) bool {
	now, err := links.LinkByIndex(link.Attrs().Index)
	if err != nil || now.Attrs().MasterIndex != bridge.Attrs().Index || now.Attrs().Flags&net.FlagUp == 0 {
		return false
	}
	info, err := links.LinkGetProtinfo(now)
	return err == nil && info.Isolated == isolated
}

// setIsolated speaks to the current namespace; the netlink package has no setter for it.
func setIsolated(link netlink.Link, on bool) error {
	value := byte(0)
	if on {
		value = 1
	}
	request := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	message := nl.NewIfInfomsg(unix.AF_BRIDGE)
	message.Index = int32(link.Attrs().Index)
	request.AddData(message)
	settings := nl.NewRtAttr(unix.IFLA_PROTINFO|unix.NLA_F_NESTED, nil)
	settings.AddRtAttr(nl.IFLA_BRPORT_ISOLATED, []byte{value})
	request.AddData(settings)
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// pin has a port's bridge send what is for these MACs by that port, whatever anybody says as whom (bridge(8), "sticky").
func pin(links *netlink.Handle, name string, macs []net.HardwareAddr) error {
	link, err := links.LinkByName(name)
	if err != nil {
		return err
	}
	for _, mac := range macs {
		if err := links.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_MASTER | netlink.NTF_STICKY,
			State: netlink.NUD_NOARP, HardwareAddr: mac}); err != nil {
			return fmt.Errorf("pin %s to %s: %w", mac, name, err)
		}
	}
	return nil
}

// opened lists the segments that end here.
func (l landing) opened() ([]Segment, error) {
	var all []Segment
	name := l.own(kindBridge)
	err := l.do(func(links *netlink.Handle) error {
		list, err := links.LinkList()
		for _, link := range list {
			if m := name.FindStringSubmatch(link.Attrs().Name); m != nil && link.Type() == "bridge" {
				n, err := strconv.Atoi(m[1])
				if err == nil && n > 0 {
					all = append(all, Segment(n))
				}
			}
		}
		return err
	})
	return all, err
}

// remove takes interfaces away that may not be there; a cable goes with either of its ends.
func remove(links *netlink.Handle, names ...string) error {
	for _, name := range names {
		link, err := find(links, name)
		if err == nil && link != nil {
			err = links.LinkDel(link)
		}
		if err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}
