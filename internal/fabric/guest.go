package fabric

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// GuestPort is the GUID of a guest's InfiniBand function, its node's and its port's: number counts the guest's virtual functions
// of HCAs from 0, in the order in which the guest holds them. It is the same at each boot and on every host, so that a subnet
// manager can be told of a port before there is one.
//
// Its first octet says by a bit that no maker of adapters has given it (IEEE 802, the U/L bit); the rest is too long for two of a
// site to be alike by chance.
func GuestPort(node string, number int) GUID {
	const local, rest = 0x06 << 56, 1<<56 - 1
	sum := sha256.Sum256([]byte("InfiniBand " + strconv.Itoa(number) + " " + node))
	return GUID(local | binary.BigEndian.Uint64(sum[:])&rest)
}
