package wol

import (
	"net"
	"net/netip"
	"testing"
)

func TestBroadcastIsTheLastAddress(t *testing.T) {
	for network, wanted := range map[string]string{
		"10.78.0.1/16": "10.78.255.255", "10.0.0.5/30": "10.0.0.7", "10.0.0.1/32": "10.0.0.1", "10.0.0.1/0": "255.255.255.255",
	} {
		if got := broadcast(netip.MustParsePrefix(network)).String(); got != wanted {
			t.Errorf("%s: %s, not %s", network, got, wanted)
		}
	}
}

// FuzzARP: what anybody on the segment sends.
func FuzzARP(f *testing.F) {
	f.Add([]byte{})
	f.Add(arpProbe(net.HardwareAddr{2, 0, 0, 0, 0, 1}, netip.MustParseAddr("10.0.0.1")))
	f.Add(arpProbe(net.HardwareAddr{2, 0, 0, 0, 0, 1}, netip.MustParseAddr("10.0.0.1"))[:27])
	f.Add(make([]byte, 128))
	f.Fuzz(func(t *testing.T, p []byte) {
		if mac, ok := arpSender(p); ok != (len(mac) == 6) {
			t.Errorf("% x is from %v", p, mac)
		}
	})
}

func TestNothingFollowsWol(t *testing.T) {
	for rest, right := range map[string]bool{"": true, ":": false, ":eth0": false, "://10.0.0.5": false} {
		if _, err := Factory().Parse(rest); (err == nil) != right {
			t.Errorf("wol%s: %v", rest, err)
		}
	}
}
