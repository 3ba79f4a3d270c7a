package onlink

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

type table map[netip.Addr]net.HardwareAddr

func (t table) Look(a netip.Addr) (net.HardwareAddr, bool, error) { return t[a], true, nil }
func (t table) Pin(a netip.Addr, mac net.HardwareAddr) error      { t[a] = mac; return nil }

func TestACallerIsWhoItsFramesAreFrom(t *testing.T) {
	mine, yours := net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}
	at := netip.MustParseAddr("10.78.0.10")
	for _, c := range []struct {
		name string
		Caller
		is bool
	}{
		{"its frames", Caller{at, mine, table{}}, true},
		{"its frames, and its neighbour entry", Caller{at, mine, table{at: mine}}, true},
		{"its frames, and another's neighbour entry", Caller{at, mine, table{at: yours}}, false},
		{"another's frames", Caller{at, yours, table{}}, false},
		{"another's frames, and its neighbour entry", Caller{at, yours, table{at: mine}}, false},
		{"no frame was kept, and the address is pinned to it", Caller{at, nil, table{at: mine}}, true},
		{"no frame was kept, and the address is another's", Caller{at, nil, table{at: yours}}, false},
		{"no frame was kept, and nobody knows", Caller{at, nil, table{}}, false},
		{"it came over no link", Caller{}, false},
	} {
		if err := c.Is([]string{mine.String()}); (err == nil) != c.is || err != nil && !errors.Is(err, ErrUnknownMachine) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// FuzzSender: of whatever the kernel keeps, a sender is read or none is.
func FuzzSender(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x08\x00E\x00\x00<\x00\x00@\x00@\x06\x00\x00\x0aN\x00\x0a\x0aN\x00\x01"))
	f.Add([]byte("E\x00\x00<\x00\x00@\x00@\x06\x00\x00\x0aN\x00\x0a\x0aN\x00\x01"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if mac := senderIn(frame); mac != nil && len(mac) != 6 {
			t.Errorf("%x", mac)
		}
	})
}
