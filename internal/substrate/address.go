package substrate

import (
	"net"
	"net/netip"
)

// A cluster's network is its own: every cluster uses the same addresses, and none can reach another.
const networkBits = 16

// MaxSlot is the last seat of a cluster's network.
const MaxSlot = 1<<networkBits - 2

// The seats that are not free to choose: the gateway's, and the first that nodes may have.
const (
	GatewaySlot = 1
	FirstSlot   = 2
)

// Gateway is the controller's own address on every cluster's network.
func Gateway() netip.Prefix { return Address(GatewaySlot) }

// Address is that of a seat: 10.77.0.0/16 plus the slot. It stays with the name for the cluster's life.
func Address(slot int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, byte(slot >> 8), byte(slot)}), networkBits)
}

// MAC is derived from the address, so that neighbour entries can be permanent. The first octet marks it as locally
// administered (IEEE 802, 8.2.2).
func MAC(slot int) net.HardwareAddr {
	ip := Address(slot).Addr().As4()
	return net.HardwareAddr{0x02, 0x00, ip[0], ip[1], ip[2], ip[3]}
}
