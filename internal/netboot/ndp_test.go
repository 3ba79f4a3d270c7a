package netboot

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// A router solicitation of iPXE, as captured: from fe80::5054:ff:fe00:1 to all routers, with its own MAC.
const solicitationFrame = "333300000002525400000001" + "86dd" +
	"6000000000103aff" + "fe80000000000000505400fffe000001" + "ff020000000000000000000000000002" +
	"8500" + "0000" + "00000000" + "0101525400000001"

func TestARouterSolicitationIsAnswered(t *testing.T) {
	asked, err := hex.DecodeString(solicitationFrame)
	if err != nil {
		t.Fatal(err)
	}
	card := hardware("52:54:00:ff:00:01")
	got := advertise(asked, card)
	want, _ := hex.DecodeString("525400000001" + "525400ff0001" + "86dd" +
		"6000000000183aff" + "fe80000000000000505400fffeff0001" + "fe80000000000000505400fffe000001" +
		"8600" + "0000" + "00000000" + "00000000" + "00000000" + "0101525400ff0001")
	if len(got) != len(want) {
		t.Fatalf("%x", got)
	}
	var from, to [16]byte
	copy(from[:], got[22:])
	copy(to[:], got[38:])
	if checksum(from, to, got[54:]) != 0 {
		t.Errorf("the checksum is wrong in %x", got)
	}
	got[56], got[57] = 0, 0
	if !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
	// Before it has an address of its own, a machine asks from the unspecified one, and all nodes are answered.
	copy(asked[22:38], make([]byte, 16))
	if got := advertise(asked, card); got == nil || got[38] != 0xff || got[53] != 1 || !bytes.Equal(got[:6], asked[6:12]) {
		t.Errorf("to a machine without an address: %x", got)
	}
	for name, spoil := range map[string]func([]byte){
		"that was forwarded": func(b []byte) { b[21] = 64 },
		"of a group":         func(b []byte) { b[6] |= 1 },
		"of another kind":    func(b []byte) { b[54] = 135 },
		"of IPv4":            func(b []byte) { b[12] = 8 },
	} {
		frame := bytes.Clone(asked)
		if spoil(frame); advertise(frame, card) != nil {
			t.Errorf("a packet %s is answered", name)
		}
	}
	for n := range asked {
		if n < 62 && advertise(asked[:n], card) != nil {
			t.Errorf("%d bytes are answered", n)
		}
	}
}
