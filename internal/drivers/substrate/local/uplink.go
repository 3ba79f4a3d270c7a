package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/lists"
	"muster/internal/kit/netns"
)

// An uplink is a cable, a pair of veth ends of one name: one is a port of the cluster's bridge, the other one of the bridge that
// the uplink names, where other clusters' cables end too, and machines. What keeps clusters apart there is that no node ever asks
// who has an address: each cluster's MACs are its own, every node is told its neighbours', and neither end lets a broadcast of
// nodes or machines through. (Those of a bridge's own host pass, which is how the kernel means that; a cluster's bridge makes
// none and gives none to its nodes.)

const uplinkPrefix = "u-"

// cable is the name of both ends, within the kernel's 15 characters. It differs for each cluster and uplink, so that
// clusters of several controllers may share a bridge.
func (c shared) cable(u substrate.Uplink) string {
	sum := sha256.Sum256([]byte(c.dir + "\x00" + u.Namespace + "\x00" + u.Interface))
	return uplinkPrefix + hex.EncodeToString(sum[:6])
}

// ensureUplinks makes the cluster's uplinks be exactly these. The cluster's network must be there.
func (c shared) ensureUplinks(uplinks []substrate.Uplink) error {
	if err := c.dropUplinks(uplinks); err != nil {
		return err
	}
	for _, u := range uplinks {
		if c.hasUplink(u) {
			if err := c.guard(u); err != nil {
				c.log.Debug("frames of a cluster are still not filtered", "cluster", c.cluster, "error", err)
			}
			continue
		}
		if err := netns.Drop(c.netns(), c.cable(u)); err != nil { // half-made
			return fmt.Errorf("uplink %s: %w", describe(u), err)
		}
		if err := c.addUplink(u); err != nil {
			return fmt.Errorf("uplink %s: %w", describe(u), err)
		}
	}
	return nil
}

// hasUplinks says whether the cluster's uplinks are exactly these.
func (c shared) hasUplinks(uplinks []substrate.Uplink) bool {
	extra, err := c.otherCables(uplinks)
	lacks := func(u substrate.Uplink) bool { return !c.hasUplink(u) }
	return err == nil && len(extra) == 0 && !slices.ContainsFunc(uplinks, lacks)
}

// hasUplink looks at both ends, since the bridge there may have been made again.
func (c shared) hasUplink(u substrate.Uplink) bool {
	plugged := func(links *netlink.Handle, bridge string) error {
		master, err := links.LinkByName(bridge)
		if err != nil {
			return err
		}
		port, err := links.LinkByName(c.cable(u))
		if err == nil && (port.Attrs().MasterIndex != master.Attrs().Index || port.Attrs().Flags&net.FlagUp == 0) {
			err = errors.New("not plugged in")
		}
		return err
	}
	near := netns.Links(c.netns(), func(links *netlink.Handle) error { return plugged(links, bridgeName) })
	far := netns.Links(u.Namespace, func(links *netlink.Handle) error { return plugged(links, u.Interface) })
	return near == nil && far == nil
}

// addUplink makes the cable. The cluster's end goes up last: a cable that is up there is complete.
func (c shared) addUplink(u substrate.Uplink) error {
	if err := netns.Links(u.Namespace, func(links *netlink.Handle) error {
		_, err := sharedBridge(links, u.Interface)
		return err
	}); err != nil {
		return err
	}
	port := c.cable(u)
	if err := c.layCable(u, port); err != nil {
		return fmt.Errorf("make %s: %w", port, err)
	}
	if err := netns.Links(u.Namespace, func(links *netlink.Handle) error {
		bridge, err := sharedBridge(links, u.Interface)
		if err != nil {
			return err
		}
		if err := quiet(port); err != nil {
			return err
		}
		// Broadcasts of the machines there are none of the cluster's business, and nothing goes from one cluster's cable to
		// another's. Here, and only here, the bridge learns which of the cluster's nodes are behind the cable.
		return enslave(links, port, bridge, map[int]bool{
			nl.IFLA_BRPORT_BCAST_FLOOD: false, nl.IFLA_BRPORT_MCAST_FLOOD: false, nl.IFLA_BRPORT_ISOLATED: true,
		})
	}); err != nil {
		return err
	}
	return netns.Links(c.netns(), func(links *netlink.Handle) error {
		bridge, err := links.LinkByName(bridgeName)
		if err != nil {
			return err
		}
		if err := c.guard(u); err != nil {
			c.log.Warn("guests of this cluster may send to whatever is there, and those of others to them: frames are not filtered",
				"cluster", c.cluster, "uplink", describe(u), "error", err)
		}
		// What is for no node here is for a node elsewhere, so a frame for an unknown MAC goes out. Nothing is learnt from what
		// comes in, which may have any sender, and nothing goes from one uplink to another, unless they are joined.
		return enslave(links, port, bridge, map[int]bool{
			nl.IFLA_BRPORT_BCAST_FLOOD: false, nl.IFLA_BRPORT_MCAST_FLOOD: false,
			nl.IFLA_BRPORT_LEARNING: false, nl.IFLA_BRPORT_ISOLATED: !u.Joined,
		})
	})
}

// guard filters the frames that pass a cable of the cluster's, unless that is done: an earlier release may have laid it.
func (c shared) guard(u substrate.Uplink) error {
	return netns.Links(c.netns(), func(links *netlink.Handle) error {
		bridge, err := links.LinkByName(bridgeName)
		if err != nil {
			return err
		}
		near, err := links.LinkByName(c.cable(u))
		if err != nil {
			return err
		}
		return filterFrames(links, near, substrate.Segment(bridge.Attrs().HardwareAddr))
	})
}

// layCable makes both ends where they belong, so that neither is ever seen elsewhere.
func (c shared) layCable(u substrate.Uplink, port string) error {
	there := u.Namespace
	if there == "" {
		there = "/proc/thread-self/ns/net"
	}
	far, err := os.Open(there)
	if err != nil {
		return err
	}
	defer far.Close()
	return netns.Links(c.netns(), func(links *netlink.Handle) error {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = port
		return links.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: port, PeerNamespace: netlink.NsFd(far.Fd())})
	})
}

// sharedBridge finds the bridge that an uplink names.
func sharedBridge(links *netlink.Handle, name string) (netlink.Link, error) {
	link, err := links.LinkByName(name)
	if err != nil {
		return nil, err
	}
	if link.Type() != "bridge" {
		return nil, fmt.Errorf("%s is no bridge (%s) and cannot be shared with clusters; make one, put %s into it with "+
			"\"ip link set %s master BRIDGE\", give it the address of %s, and name the bridge instead", name, link.Type(), name,
			name, name)
	}
	return link, nil
}

// enslave makes an interface a port of the bridge, with these flags (IFLA_BRPORT_…), and sets it up.
func enslave(links *netlink.Handle, port string, bridge netlink.Link, flags map[int]bool) error {
	link, err := links.LinkByName(port)
	if err != nil {
		return err
	}
	if err := links.LinkSetMaster(link, bridge); err != nil {
		return err
	}
	if err := setPort(link, flags); err != nil {
		return fmt.Errorf("port %s: %w", port, err)
	}
	return links.LinkSetUp(link)
}

// setPort sets flags of a bridge's port, including those that the netlink package has no setters for. It speaks to the current
// namespace.
func setPort(link netlink.Link, flags map[int]bool) error {
	request := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	message := nl.NewIfInfomsg(unix.AF_BRIDGE)
	message.Index = int32(link.Attrs().Index)
	request.AddData(message)
	settings := nl.NewRtAttr(unix.IFLA_PROTINFO|unix.NLA_F_NESTED, nil)
	for flag, on := range flags {
		value := byte(0)
		if on {
			value = 1
		}
		settings.AddRtAttr(flag, []byte{value})
	}
	request.AddData(settings)
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// otherCables are the cluster's ends of uplinks that are none of these.
func (c shared) otherCables(keep []substrate.Uplink) ([]string, error) {
	kept := lists.SetBy(keep, c.cable)
	cables, err := c.linksNamed(uplinkPrefix)
	return slices.DeleteFunc(cables, func(name string) bool { return kept[name] }), err
}

// dropUplinks takes away all uplinks but these. With its end here, a cable's other end is gone too, at once.
func (c shared) dropUplinks(keep []substrate.Uplink) error {
	others, err := c.otherCables(keep)
	if errors.Is(err, os.ErrNotExist) {
		return nil // and so is no network
	}
	for _, name := range others {
		err = errors.Join(err, netns.Drop(c.netns(), name))
	}
	return err
}

func describe(u substrate.Uplink) string {
	if u.Namespace == "" {
		return u.Interface
	}
	return u.Interface + " in " + u.Namespace
}
