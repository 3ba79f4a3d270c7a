package limit

import (
	"net"
	"net/netip"
)

// Bits of an IPv6 address that are one caller's network: what a host is given at least, and what a site usually has.
const (
	hostBits = 64
	siteBits = 48
)

// Address is where a caller is, as it is counted.
type Address struct {
	Key  string // of one caller: an IPv4 address, or a /64 of IPv6
	Wide string // the same, or a /48 of IPv6
	Here bool   // on this host: itself, or a proxy that speaks for many
}

// AddressOf reads host:port, or a host. What is neither is a socket of this host.
func AddressOf(remote string) Address {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return Address{Here: true}
	}
	ip = ip.Unmap().WithZone("")
	a := Address{Key: ip.String(), Wide: ip.String(), Here: ip.IsLoopback()}
	if ip.Is6() && !a.Here {
		a.Key, a.Wide = prefix(ip, hostBits), prefix(ip, siteBits)
	}
	return a
}

func prefix(ip netip.Addr, bits int) string {
	p, err := ip.Prefix(bits)
	if err != nil {
		return ip.String()
	}
	return p.String()
}
