package rackd

import (
	"bytes"
	"net"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// call is a magic packet's payload.
func call(mac net.HardwareAddr) []byte {
	return append(bytes.Repeat([]byte{0xff}, 6), bytes.Repeat(mac, 16)...)
}

// ethernet is a frame.
func ethernet(kind uint16, payload ...byte) []byte {
	return append([]byte{12: byte(kind >> 8), 13: byte(kind)}, payload...)
}

// udp is an IPv4 packet with that destination port, and options before it if they are asked for.
func udp(port byte, options int, payload []byte) []byte {
	ip := make([]byte, 20+options)
	ip[0], ip[3], ip[9] = 0x40|byte(len(ip)/4), byte(len(ip)+8+len(payload)), unix.IPPROTO_UDP
	return ethernet(unix.ETH_P_IP, append(append(ip, 0, 1, 0, port, 0, 0, 0, 0), payload...)...)
}

func TestMagicPacketsAreFoundWhereverTheyStand(t *testing.T) {
	mac := net.HardwareAddr{0x52, 0x54, 0, 0, 1, 0}
	for name, c := range map[string]struct {
		frame []byte
		has   bool
	}{
		"alone":                    {ethernet(etherTypeWoL, call(mac)...), true},
		"with a SecureOn password": {ethernet(etherTypeWoL, append(call(mac), 1, 2, 3, 4, 5, 6)...), true},
		"after other bytes":        {ethernet(etherTypeWoL, append([]byte{1, 2, 0xff}, call(mac)...)...), true},
		"in UDP to port 9":         {udp(9, 0, call(mac)), true},
		"in UDP to port 7":         {udp(7, 0, call(mac)), true},
		"after IP options":         {udp(9, 8, call(mac)), true},
		"in UDP to another port":   {udp(53, 0, call(mac)), false},
		"in another kind of frame": {ethernet(0x0806, call(mac)...), false},
		"one repetition short":     {ethernet(etherTypeWoL, call(mac)[:6+15*6]...), false},
		"a group's address":        {ethernet(etherTypeWoL, call(net.HardwareAddr{1, 0, 0x5e, 0, 0, 1})...), false},
		"nothing":                  {ethernet(etherTypeWoL), false},
		"only the stream of ones":  {ethernet(etherTypeWoL, bytes.Repeat([]byte{0xff}, 300)...), false},
		"a repetition that is broken": {ethernet(etherTypeWoL, slices.Concat(call(mac)[:50], []byte{9}, call(mac)[51:])...),
			false},
	} {
		got, ok := calls(c.frame)
		if ok != c.has || ok && got.String() != mac.String() {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
}

func FuzzMagic(f *testing.F) {
	f.Add([]byte{}, []byte{0x52, 0x54, 0, 0, 1, 0})
	f.Add([]byte{0xff, 0xff, 0xff}, []byte{0x52, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, before, text []byte) {
		calls(before)
		if mac, ok := magic(before); ok && !bytes.Contains(before, call(mac)) {
			t.Fatalf("%v is not in %x", mac, before)
		}
		if len(text) < 6 || text[0]&1 == 1 {
			return
		}
		mac := net.HardwareAddr(text[:6])
		if found, ok := magic(call(mac)); !ok || !bytes.Equal(found, mac) {
			t.Fatalf("%v was not found, but %v", mac, found)
		}
	})
}
