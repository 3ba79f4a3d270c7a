package netboot

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// A packet is of the NIC that its frame comes from, or was sent on by a relay that the network names.
func TestAPacketIsBelievedOfItsSenderAlone(t *testing.T) {
	victim, thief, relay := net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}, net.HardwareAddr{0x52, 0x54, 0, 0, 0, 2},
		net.HardwareAddr{0x52, 0x54, 0, 0, 0, 9}
	packet := func(by string) request {
		p, err := dhcpv4.New(dhcpv4.WithHwAddr(victim), dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest))
		if err != nil {
			t.Fatal(err)
		}
		if by != "" {
			p.GatewayIPAddr = net.ParseIP(by)
		}
		r, sound := parseRequest(datagram{data: p.ToBytes()})
		if !sound {
			t.Fatal("the packet is not sound")
		}
		return r
	}
	for _, c := range []struct {
		what     string
		r        request
		sender   net.HardwareAddr
		believed bool
	}{
		{"its own", packet(""), victim, true},
		{"another's", packet(""), thief, false},
		{"by the relay", packet("10.78.3.1"), relay, true},
		{"by the relay, but not relayed", packet(""), relay, false},
		{"by one who says that he is a relay", packet("10.78.3.1"), thief, false},
		{"by the machine itself, as if relayed", packet("10.78.3.1"), victim, false},
	} {
		who := &senders{relays: []string{relay.String()}}
		if why := who.believe(c.r, c.sender); (why == "") != c.believed {
			t.Errorf("%s: %q", c.what, why)
		}
	}
	flood, believed := &senders{}, 0
	for range 10 * sendersRate {
		if flood.believe(packet(""), victim) == "" {
			believed++
		}
	}
	forged, often := &senders{}, 0
	for range 10 * sendersRate {
		if forged.believe(packet(""), thief) == "too many packets" {
			often++
		}
	}
	if often < 7*sendersRate { // which are dropped in silence, and cost no line of the log
		t.Errorf("%d forged packets of %d are too many", often, 10*sendersRate)
	}
	if believed < sendersRate || believed > 3*sendersRate { // a second or two may end meanwhile
		t.Errorf("%d packets of %d are believed", believed, 10*sendersRate)
	}
}

// TestStrangersCauseFewLines of the log, however many they say that they are.
func TestStrangersCauseFewLines(t *testing.T) {
	var log bytes.Buffer
	s := &server{Config: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, said: saidOfStrangers()}
	for i := range 5000 {
		s.tell(fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&255), "a DHCP packet is not believed")
	}
	if lines := strings.Count(log.String(), "\n"); lines < 20 || lines > 60 { // a window or two may end meanwhile
		t.Errorf("%d lines", lines)
	}
	s.said = saidOfStrangers()
	log.Reset()
	for range 50 {
		s.tell("52:54:00:00:00:01", "a DHCP packet is not believed")
	}
	if lines := strings.Count(log.String(), "\n"); lines < 1 || lines > 3 {
		t.Errorf("%d lines of one", lines)
	}
}
