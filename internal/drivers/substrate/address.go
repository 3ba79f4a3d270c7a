package substrate

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/netip"
)

// A cluster's network is its own: every cluster uses the same addresses, and none can reach another. Where clusters share
// a segment of Ethernet, their segment numbers, which are in all their MACs, keep them apart.
const networkBits = 16

// MaxSlot is the last seat of a cluster's network.
const MaxSlot = 1<<networkBits - 2

// The seats that are not free to choose: the one that no node has, the gateway's, and the first that nodes may have.
const (
	NobodySlot  = 0
	GatewaySlot = 1
	HeadSlot    = 2
	FirstSlot   = HeadSlot // the head is seated first
)

// Gateway is the controller's own address on every cluster's network.
func Gateway() netip.Prefix { return Address(GatewaySlot) }

// Address is that of a seat: 10.77.0.0/16 plus the slot. It stays with the name for the cluster's life.
func Address(slot int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, byte(slot >> 8), byte(slot)}), networkBits)
}

// Slot is the inverse of Address; false if the address is not of a cluster's network.
func Slot(address netip.Addr) (int, bool) {
	if !Gateway().Contains(address) {
		return 0, false
	}
	ip := address.As4()
	return int(ip[2])<<8 | int(ip[3]), true
}

// MaxSegment is the last number that a cluster's network can have; they count from 1.
const MaxSegment = 1<<16 - 1

// MAC is derived from the cluster's segment number and the seat, so that every neighbour is known beforehand and no node has to
// ask by ARP. The first octet marks it as locally administered (IEEE 802, 8.2.2), the second one as Muster's.
func MAC(segment, slot int) net.HardwareAddr {
	return net.HardwareAddr{0x02, 0x4d, byte(segment >> 8), byte(segment), byte(slot >> 8), byte(slot)}
}

// Segment is that of a MAC, as MAC made it.
func Segment(mac net.HardwareAddr) int { return int(mac[2])<<8 | int(mac[3]) }

// PortPrefix begins the names of nodes' ports.
const PortPrefix = "v-"

// PortName is what a node's port of its cluster's bridge is called, within the kernel's 15 characters.
func PortName(node string) string {
	sum := sha256.Sum256([]byte(node))
	return PortPrefix + hex.EncodeToString(sum[:6])
}
