package devices

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// HostLinks are the network interfaces of this host. The library's own reading of virtual functions takes "not told" for
// "on", and leaves GUIDs out; hence the reading here.
type HostLinks struct{}

// VF asks the kernel.
func (HostLinks) VF(_ context.Context, link string, number int) (map[string]string, error) {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return nil, err
	}
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_ACK)
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(l.Attrs().Index)
	request.AddData(message)
	request.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(nl.RTEXT_FILTER_VF)))
	answers, err := request.Execute(unix.NETLINK_ROUTE, 0)
	if err != nil {
		return nil, err
	}
	if len(answers) != 1 || len(answers[0]) < unix.SizeofIfInfomsg {
		return nil, fmt.Errorf("the kernel gave %d answers about one interface", len(answers))
	}
	return parseVF(answers[0][unix.SizeofIfInfomsg:], number)
}

// attribute is one of netlink's: kind and value.
type attribute struct {
	kind  uint16
	value []byte
}

// parseAttributes reads a row of attributes. Each begins at a multiple of four.
func parseAttributes(b []byte) ([]attribute, error) {
	const flags = unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER
	var all []attribute
	for len(b) >= unix.SizeofRtAttr {
		length := int(binary.NativeEndian.Uint16(b))
		if length < unix.SizeofRtAttr || length > len(b) {
			return nil, fmt.Errorf("attribute of %d bytes in %d", length, len(b))
		}
		all = append(all, attribute{binary.NativeEndian.Uint16(b[2:]) &^ flags, b[unix.SizeofRtAttr:length]})
		b = b[min((length+3)&^3, len(b)):]
	}
	return all, nil
}

// parseVF finds a virtual function in the attributes of an interface (include/uapi/linux/if_link.h, IFLA_VFINFO_LIST).
func parseVF(attributes []byte, number int) (map[string]string, error) {
	all, err := parseAttributes(attributes)
	if err != nil {
		return nil, fmt.Errorf("an interface: %w", err)
	}
	for _, list := range all {
		if list.kind != unix.IFLA_VFINFO_LIST {
			continue
		}
		vfs, err := parseAttributes(list.value)
		if err != nil {
			return nil, fmt.Errorf("virtual functions: %w", err)
		}
		for _, vf := range vfs {
			fields, err := parseAttributes(vf.value)
			if err != nil {
				return nil, fmt.Errorf("virtual function: %w", err)
			}
			if values, ok := vfFields(fields, uint32(number)); ok {
				return values, nil
			}
		}
	}
	return nil, fmt.Errorf("the interface has no virtual function %d", number)
}

// vfFields reads one virtual function; false if it is another one. Each field begins with its number.
func vfFields(fields []attribute, number uint32) (map[string]string, bool) {
	values, found := map[string]string{}, false
	for _, f := range fields {
		const head = 4
		if len(f.value) < 2*head {
			continue
		}
		n, v := binary.NativeEndian.Uint32(f.value), f.value[head:]
		word := binary.NativeEndian.Uint32(v)
		onOff := func(name string) {
			if word <= 1 { // all ones: the driver does not tell
				values[name] = []string{"off", "on"}[word]
			}
		}
		switch f.kind {
		case nl.IFLA_VF_MAC:
			const length = 6
			if found = n == number && len(v) >= length; !found {
				return nil, false
			}
			values["mac"] = net.HardwareAddr(v[:length]).String()
		case nl.IFLA_VF_VLAN:
			values["vlan"] = strconv.Itoa(int(word))
		case nl.IFLA_VF_SPOOFCHK:
			onOff("spoofchk")
		case nl.IFLA_VF_TRUST:
			onOff("trust")
		case nl.IFLA_VF_LINK_STATE:
			if word <= nl.IFLA_VF_LINK_STATE_DISABLE {
				values["state"] = linkStates()[word]
			}
		case nl.IFLA_VF_IB_NODE_GUID:
			putGUID(values, "node_guid", v)
		case nl.IFLA_VF_IB_PORT_GUID:
			putGUID(values, "port_guid", v)
		}
	}
	return values, found
}

// putGUID reads struct ifla_vf_guid after its first four bytes: four of padding, and the number.
func putGUID(values map[string]string, name string, v []byte) {
	const padding, length = 4, 8
	if len(v) >= padding+length {
		values[name] = net.HardwareAddr(binary.BigEndian.AppendUint64(nil, binary.NativeEndian.Uint64(v[padding:]))).String()
	}
}

// linkStates are those of IFLA_VF_LINK_STATE in their order.
func linkStates() []string { return []string{"auto", "enable", "disable"} }

// SetVF sets one value.
func (HostLinks) SetVF(_ context.Context, link string, number int, name, value string) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	var address net.HardwareAddr
	if name == "mac" || name == "node_guid" || name == "port_guid" {
		if address, err = net.ParseMAC(value); err != nil {
			return err
		}
	}
	switch name {
	case "mac":
		return netlink.LinkSetVfHardwareAddr(l, number, address)
	case "node_guid":
		return netlink.LinkSetVfNodeGUID(l, number, address)
	case "port_guid":
		return netlink.LinkSetVfPortGUID(l, number, address)
	case "vlan":
		vlan, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		return netlink.LinkSetVfVlan(l, number, vlan)
	case "spoofchk":
		return netlink.LinkSetVfSpoofchk(l, number, value == "on")
	case "trust":
		return netlink.LinkSetVfTrust(l, number, value == "on")
	case "state":
		for i, state := range linkStates() {
			if state == value {
				return netlink.LinkSetVfState(l, number, uint32(i))
			}
		}
	}
	return fmt.Errorf("a virtual function has no %s %q", name, value)
}
