package inventory

import (
	"fmt"
	"net"
	"net/netip"
	"path"
	"strings"
)

// Network is where machines boot: a segment of the site with machines on it and an interface of the controller's host.
type Network struct {
	Name string `json:"name"`
	// path of the network namespace that the interface is in; "": the host's own
	Namespace string `json:"namespace,omitempty"`
	// there; a bridge, if clusters with nodes on this host shall span the network
	Interface string       `json:"interface"`
	Address   netip.Prefix `json:"address"` // the controller's on it, IPv4
	Mode      Mode         `json:"mode"`
	// First and Last bound the addresses that are given to machines, in mode own.
	First   netip.Addr `json:"first,omitzero"`
	Last    netip.Addr `json:"last,omitzero"`
	Gateway netip.Addr `json:"gateway,omitzero"` // told to machines, in mode own
	Unknown Unknown    `json:"unknown"`
	// Relays are MACs, with commas between, of DHCP relays on the segment: DHCP packets that come from there are believed to be
	// of the machines that they name. They are for nothing else: a machine's other frames are its own.
	Relays string `json:"relays,omitempty"`
	// Switch is the driver of the switch that the machines' ports are on; "": Muster does not set it.
	Switch string `json:"switch,omitempty"`
	// SwitchBridge and SwitchDatabase are the switch's bridge of the machines' ports, and where its database is reached, where
	// the driver asks for them.
	SwitchBridge   string `json:"switch_bridge,omitempty"`
	SwitchDatabase string `json:"switch_database,omitempty"`
}

// RelayMACs lists the relays' MACs as frames have them.
func (n Network) RelayMACs() []string {
	return strings.FieldsFunc(n.Relays, func(r rune) bool { return r == ',' })
}

// validRelays says what is wrong with the relays.
func (n Network) validRelays() error {
	for _, text := range n.RelayMACs() {
		if mac, err := net.ParseMAC(text); err != nil || len(mac) != 6 || mac.String() != text || mac[0]&1 != 0 {
			return fmt.Errorf("relays: %.40q; use the MAC that the router or relay has on the network, as 52:54:00:12:34:56",
				text)
		}
	}
	return nil
}

// Mode says who gives addresses to machines.
type Mode string

// The modes.
const (
	ModeOwn   Mode = "own"   // Muster is the segment's DHCP server
	ModeProxy Mode = "proxy" // the site has one; Muster adds what to boot (PXE 2.1, section 2.2.3: ProxyDHCP)
	ModeOff   Mode = "off"   // the site's DHCP server names Muster's boot files itself
)

// Unknown says what becomes of a machine that is not enrolled.
type Unknown string

// The ways.
const (
	UnknownIgnore Unknown = "ignore" // it gets no answer
	UnknownEnrol  Unknown = "enrol"  // it boots the inspector and is offered for enrolment
)

// Validate says what is wrong with a network's description. What it says of its switch, the switch's driver judges.
func (n Network) Validate() error {
	switch {
	case n.Name == "":
		return fmt.Errorf("name: missing")
	case n.Namespace != "" && (path.Clean(n.Namespace) != n.Namespace || !path.IsAbs(n.Namespace) ||
		strings.HasPrefix(n.Namespace, "/proc/")):
		return fmt.Errorf("namespace: %.200q; use the whole path of a namespace that is kept by a file, as in "+
			"/run/netns/machines, and none of a process", n.Namespace)
	case n.Interface == "":
		return fmt.Errorf("interface: missing")
	case !n.Address.IsValid() || !n.Address.Addr().Is4():
		return fmt.Errorf("address: the controller's own IPv4 address on the network is needed, with the prefix length, as " +
			"10.78.0.1/16")
	case n.Mode != ModeOwn && n.Mode != ModeProxy && n.Mode != ModeOff:
		return fmt.Errorf("mode: %q; use own, proxy or off", n.Mode)
	case n.Unknown != UnknownIgnore && n.Unknown != UnknownEnrol:
		return fmt.Errorf("unknown: %q; use ignore or enrol", n.Unknown)
	case n.validRelays() != nil:
		return n.validRelays()
	case n.Mode != ModeOwn:
		return nil
	case !n.First.IsValid() || !n.Last.IsValid():
		return fmt.Errorf("first, last: missing; mode own needs the range of addresses to give to machines")
	case !n.Address.Contains(n.First) || !n.Address.Contains(n.Last) || n.Last.Less(n.First):
		return fmt.Errorf("first, last: %s to %s is no range of %s", n.First, n.Last, n.Address.Masked())
	case !n.Address.Addr().Less(n.First) && !n.Last.Less(n.Address.Addr()):
		return fmt.Errorf("first, last: %s to %s holds the controller's own address", n.First, n.Last)
	}
	return nil
}
