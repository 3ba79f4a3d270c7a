package netboot

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"muster/internal/inventory"
	"muster/internal/protocol"
)

// newServer is a server without sockets, of a network 10.78.0.1/16.
func newServer(t testing.TB, mode inventory.Mode, controller Controller) *server {
	t.Helper()
	return &server{
		Config: Config{
			Network: inventory.Network{Name: "rack", Address: netip.MustParsePrefix("10.78.0.1/16"), Mode: mode,
				Gateway: netip.MustParseAddr("10.78.0.254")},
			Controller: controller, Log: slog.New(slog.DiscardHandler),
		},
		notes: make(chan protocol.BootProgress, noteQueue), mtu: 1500, hardware: hardware("52:54:00:ff:00:01"),
	}
}

func hardware(text string) net.HardwareAddr {
	mac, err := net.ParseMAC(text)
	if err != nil {
		panic(err)
	}
	return mac
}

func ip(text string) net.IP { return net.ParseIP(text).To4() }

// ask is a packet of the machine that all of these tests are about.
func ask(t testing.TB, kind dhcpv4.MessageType, modifiers ...dhcpv4.Modifier) datagram {
	t.Helper()
	p, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(hardware(bootMAC)), dhcpv4.WithMessageType(kind)},
		modifiers...)...)
	if err != nil {
		t.Fatal(err)
	}
	return datagram{data: p.ToBytes(), peer: netip.MustParseAddrPort("10.78.0.99:68")}
}

func option(code uint8, value ...byte) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(code), value))
}

func text(code uint8, value string) dhcpv4.Modifier { return option(code, []byte(value)...) }

// from says that a packet came from somewhere else.
func from(peer string, d datagram) datagram {
	d.peer = netip.MustParseAddrPort(peer)
	return d
}

// give passes one packet through an answerer; nil: silence.
func give(t testing.TB, answer answerer, d datagram) (*dhcpv4.DHCPv4, netip.AddrPort) {
	t.Helper()
	r, sound := parseRequest(d)
	if !sound {
		return nil, netip.AddrPort{}
	}
	replies := answer(context.Background(), []request{r})
	if len(replies) == 0 {
		return nil, netip.AddrPort{}
	}
	if len(replies) > 1 {
		t.Fatalf("%d answers to one packet", len(replies))
	}
	p, err := dhcpv4.FromBytes(replies[0].data)
	if err != nil {
		t.Fatalf("the answer is none: %v", err)
	}
	return p, replies[0].peer
}

const (
	silence  = dhcpv4.MessageTypeNone
	discover = dhcpv4.MessageTypeDiscover
	offer    = dhcpv4.MessageTypeOffer
	request3 = dhcpv4.MessageTypeRequest
	ack      = dhcpv4.MessageTypeAck
	nak      = dhcpv4.MessageTypeNak
	inform   = dhcpv4.MessageTypeInform
)

// TestTheServerAnswersAsRFC2131Says goes through section 4.3.
func TestTheServerAnswersAsRFC2131Says(t *testing.T) {
	ours := dhcpv4.WithOption(dhcpv4.OptServerIdentifier(ip("10.78.0.1")))
	others := dhcpv4.WithOption(dhcpv4.OptServerIdentifier(ip("10.78.0.2")))
	wants := func(a string) dhcpv4.Modifier { return dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(ip(a))) }
	has := func(a string) dhcpv4.Modifier { return dhcpv4.WithClientIP(ip(a)) }
	relayed := dhcpv4.WithGatewayIP(ip("10.78.9.9"))
	const everybody, relay = "255.255.255.255:68", "10.78.9.9:67"
	for _, c := range []struct {
		name     string
		packet   datagram
		stranger bool
		answer   dhcpv4.MessageType
		address  string
		to       string
		commits  int
	}{
		{"discover", ask(t, discover), false, offer, "10.78.0.10", everybody, 0},
		{"discover, with a wish", ask(t, discover, wants("10.78.3.3")), false, offer, "10.78.3.3", everybody, 0},
		{"discover, with a wish of another network", ask(t, discover, wants("192.168.1.1")), false, offer, "10.78.0.10",
			everybody, 0},
		{"discover, relayed", ask(t, discover, relayed), false, offer, "10.78.0.10", relay, 0},
		{"discover of a stranger", ask(t, discover), true, silence, "", "", 0},
		{"selecting us", ask(t, request3, ours, wants("10.78.0.10")), false, ack, "10.78.0.10", everybody, 1},
		{"selecting another server", ask(t, request3, others, wants("10.78.0.10")), false, silence, "", "", 0},
		{"selecting what is taken", ask(t, request3, ours, wants("10.78.0.20")), false, nak, "0.0.0.0", everybody, 0},
		{"selecting what is taken, relayed", ask(t, request3, ours, wants("10.78.0.20"), relayed), false, nak, "0.0.0.0", relay,
			0},
		{"selecting nothing", ask(t, request3, ours), false, silence, "", "", 0},
		{"rebooting", ask(t, request3, wants("10.78.0.10")), false, ack, "10.78.0.10", everybody, 1},
		{"rebooting in another network", ask(t, request3, wants("192.168.1.1")), false, nak, "0.0.0.0", everybody, 0},
		{"a stranger rebooting in another network", ask(t, request3, wants("192.168.1.1")), true, silence, "", "", 0},
		{"renewing", ask(t, request3, has("10.78.0.10")), false, ack, "10.78.0.10", "10.78.0.10:68", 1},
		{"renewing what is taken", ask(t, request3, has("10.78.0.20")), false, nak, "0.0.0.0", everybody, 0},
		{"renewing an address of another network", ask(t, request3, has("8.8.8.8")), false, nak, "0.0.0.0", everybody, 0},
		{"a stranger renewing", ask(t, request3, has("10.78.0.10")), true, silence, "", "", 0},
		{"informing", ask(t, inform, has("10.78.7.7")), false, ack, "0.0.0.0", "10.78.7.7:68", 0},
		{"informing from another network", ask(t, inform, has("8.8.8.8")), false, silence, "", "", 0},
		{"a stranger informing", ask(t, inform, has("10.78.7.7")), true, silence, "", "", 0},
		{"an offer", ask(t, offer, ours), false, silence, "", "", 0},
		{"no kind of message", ask(t, 0), false, silence, "", "", 0},
		{"a kind that nobody knows", ask(t, 77), false, silence, "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			controller := newController(bootMAC)
			if c.stranger {
				controller = newController()
			}
			controller.leases["52:54:00:00:00:20"] = netip.MustParseAddr("10.78.0.20")
			got, to := give(t, newServer(t, inventory.ModeOwn, controller).lease, c.packet)
			if controller.committed != c.commits {
				t.Errorf("%d leases were committed, not %d", controller.committed, c.commits)
			}
			if c.answer == silence {
				if got != nil {
					t.Errorf("%s is answered", got.Summary())
				}
				return
			}
			if got == nil || got.MessageType() != c.answer || got.YourIPAddr.String() != c.address || to.String() != c.to {
				t.Fatalf("the answer to %s is %v", to, got)
			}
			if to.Port() == 67 && c.answer == nak && !got.IsBroadcast() {
				t.Error("the relay is not told to broadcast the refusal")
			}
			if !got.ServerIdentifier().Equal(ip("10.78.0.1")) {
				t.Errorf("the server is %s", got.ServerIdentifier())
			}
		})
	}
}

func TestALeaseSaysWhatTheNetworkIsLike(t *testing.T) {
	s := newServer(t, inventory.ModeOwn, newController(bootMAC))
	got, _ := give(t, s.lease, ask(t, discover, option(61, 1, 2, 3), option(82, 1, 2, 'p', '1')))
	if got == nil {
		t.Fatal("no offer")
	}
	if ones, _ := got.SubnetMask().Size(); ones != 16 || !got.Router()[0].Equal(ip("10.78.0.254")) || got.DNS() != nil {
		t.Errorf("the network: %s", got.Summary())
	}
	lasts, t1, t2 := got.IPAddressLeaseTime(0), got.IPAddressRenewalTime(0), got.IPAddressRebindingTime(0)
	if lasts < leaseFor-time.Minute || lasts > leaseFor || t1 >= t2 || t2 >= lasts {
		t.Errorf("times are %s, %s, %s", lasts, t1, t2)
	}
	if !slices.Equal(got.Options.Get(dhcpv4.OptionClientIdentifier), []byte{1, 2, 3}) ||
		!slices.Equal(got.Options.Get(dhcpv4.OptionRelayAgentInformation), []byte{1, 2, 'p', '1'}) {
		t.Errorf("what is to be echoed is not: %s", got.Summary())
	}
	if got.BootFileName != "" || got.Options.Get(dhcpv4.OptionEtherboot) != nil {
		t.Errorf("somebody who does not boot is told what to boot: %s", got.Summary())
	}
}

func TestAddressesAreGivenBackAndSetAside(t *testing.T) {
	controller := newController(bootMAC)
	s := newServer(t, inventory.ModeOwn, controller)
	mine := netip.MustParseAddr("10.78.0.10")
	server := dhcpv4.WithOption(dhcpv4.OptServerIdentifier(ip("10.78.0.1")))
	for _, c := range []struct {
		name   string
		packet datagram
		leased bool
	}{
		{"release, to another server", ask(t, dhcpv4.MessageTypeRelease, dhcpv4.WithClientIP(ip("10.78.0.10"))), true},
		{"release", ask(t, dhcpv4.MessageTypeRelease, server, dhcpv4.WithClientIP(ip("10.78.0.10"))), false},
		{"decline, without an address", ask(t, dhcpv4.MessageTypeDecline, server), true},
		{"decline", ask(t, dhcpv4.MessageTypeDecline, server, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(ip("10.78.0.10")))),
			false},
	} {
		controller.leases[bootMAC] = mine
		if got, _ := give(t, s.lease, c.packet); got != nil {
			t.Errorf("%s is answered", c.name)
		}
		if controller.leaseOf(bootMAC).IsValid() != c.leased {
			t.Errorf("after %s the lease is %v", c.name, controller.leaseOf(bootMAC))
		}
	}
	if !controller.declined[mine] {
		t.Error("the declined address was not set aside")
	}
}

func TestAControllerThatCannotAnswerMakesSilence(t *testing.T) {
	controller := newController(bootMAC)
	controller.broken = errors.New("no database")
	own, proxy := newServer(t, inventory.ModeOwn, controller), newServer(t, inventory.ModeProxy, controller)
	for _, answer := range []answerer{own.lease, proxy.proxyOffer, proxy.proxyBoot} {
		for _, kind := range []dhcpv4.MessageType{discover, request3, inform} {
			if got, _ := give(t, answer, ask(t, kind, text(60, "PXEClient"), dhcpv4.WithClientIP(ip("10.78.0.10")))); got != nil {
				t.Errorf("a %s is answered", kind)
			}
		}
	}
}

// Clients as they present themselves, in packets of this machine's firmware and of the standards.
var (
	biosPXE = []dhcpv4.Modifier{text(60, "PXEClient:Arch:00000:UNDI:002001"), option(93, 0, 0),
		option(97, append([]byte{0}, make([]byte, 16)...)...)}
	uefiPXE  = []dhcpv4.Modifier{text(60, "PXEClient:Arch:00007:UNDI:003016"), option(93, 0, 7)}
	uefiHTTP = []dhcpv4.Modifier{text(60, "HTTPClient:Arch:00016:UNDI:003016"), option(93, 0, 16)}
	ipxeBIOS = []dhcpv4.Modifier{text(60, "PXEClient:Arch:00000:UNDI:002001"), option(93, 0, 0), text(77, "iPXE"),
		option(175, 0x13, 1, 1, 0x18, 1, 1)}
)

func TestEveryArchitectureIsToldItsFile(t *testing.T) {
	script, http := "http://10.78.0.1:8069/boot/v1/script?mac="+bootMAC, "http://10.78.0.1:8069/boot/v1/firmware/"
	arm := []dhcpv4.Modifier{text(60, "PXEClient:Arch:00011"), dhcpv4.WithOption(dhcpv4.OptClientArch(iana.EFI_ARM64))}
	for _, c := range []struct {
		name   string
		client []dhcpv4.Modifier
		file   string
		class  string // in mode own
	}{
		{"BIOS", biosPXE, "undionly.kpxe", ""},
		{"BIOS that does not say so", []dhcpv4.Modifier{text(60, "PXEClient")}, "undionly.kpxe", ""},
		{"UEFI", uefiPXE, "snponly.efi", ""},
		{"UEFI by HTTP", uefiHTTP, http + "ipxe.efi", "HTTPClient"},
		{"UEFI, arm64", arm, "arm64/snponly.efi", ""},
		{"UEFI, 32 bits", []dhcpv4.Modifier{text(60, "PXEClient"), option(93, 0, 6)}, "", ""},
		{"iPXE", ipxeBIOS, script, ""},
		{"iPXE that says only its name", []dhcpv4.Modifier{text(77, "\x04iPXE")}, script, ""},
		{"iPXE without HTTP", []dhcpv4.Modifier{text(60, "PXEClient"), option(93, 0, 0), text(77, "iPXE"),
			option(175, 0x18, 1, 1)}, "undionly.kpxe", ""},
		{"a running system", []dhcpv4.Modifier{text(60, "dhcpcd-9.4.1")}, "", ""},
		{"options that are none", []dhcpv4.Modifier{text(60, "PXEClient"), option(93, 1), option(175, 200)}, "undionly.kpxe", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := give(t, newServer(t, inventory.ModeOwn, newController(bootMAC)).lease, ask(t, discover, c.client...))
			if got == nil || got.BootFileName != c.file || got.ClassIdentifier() != c.class {
				t.Errorf("own: %v", got.Summary())
			}
			if noProxy := got.Options.Get(dhcpv4.OptionEtherboot); (c.file == script) != slices.Equal(noProxy,
				[]byte{176, 1, 1}) {
				t.Errorf("own: option 175 is %v", noProxy)
			}
			s := newServer(t, inventory.ModeProxy, newController(bootMAC))
			got, to := give(t, s.proxyOffer, ask(t, discover, c.client...))
			if c.file == "" {
				if got != nil {
					t.Errorf("proxy: %s", got.Summary())
				}
				return
			}
			if got == nil || got.BootFileName != c.file || !got.YourIPAddr.IsUnspecified() ||
				got.Options.Has(dhcpv4.OptionIPAddressLeaseTime) || to.String() != "255.255.255.255:68" {
				t.Errorf("proxy: %v", got)
			}
		})
	}
}

func TestAProxyIsSilentToStrangersAndAnswersWhereItIsAsked(t *testing.T) {
	known := newServer(t, inventory.ModeProxy, newController(bootMAC))
	strange := newServer(t, inventory.ModeProxy, newController())
	for _, c := range []struct {
		name   string
		answer answerer
		packet datagram
		want   dhcpv4.MessageType
	}{
		{"offer", known.proxyOffer, ask(t, discover, uefiPXE...), offer},
		{"offer to a stranger", strange.proxyOffer, ask(t, discover, uefiPXE...), silence},
		{"request of an address, which is another server's", known.proxyOffer, ask(t, request3, uefiPXE...), silence},
		{"boot request", known.proxyBoot, ask(t, request3, uefiPXE...), ack},
		{"boot request of a stranger", strange.proxyBoot, ask(t, request3, uefiPXE...), silence},
		{"boot request from elsewhere", known.proxyBoot, from("192.0.2.7:68", ask(t, request3, uefiPXE...)), silence},
		{"boot request in our name", known.proxyBoot, from("10.78.0.1:4011", ask(t, request3, uefiPXE...)), silence},
		{"discover, on the wrong port", known.proxyBoot, ask(t, discover, uefiPXE...), silence},
	} {
		got, to := give(t, c.answer, c.packet)
		if got == nil && c.want != silence || got != nil && got.MessageType() != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if c.want == ack && to != c.packet.peer {
			t.Errorf("%s is answered to %s", c.name, to)
		}
	}
}

func TestMachinesThatHaveBegunGoFirst(t *testing.T) {
	var q dhcpQueues
	s, who := newServer(t, inventory.ModeOwn, newController(bootMAC)), &senders{}
	hear := func(d datagram) {
		who.heard = nil // as if it were another second
		s.hear(&q, who, frame{d, hardware(bootMAC)})
	}
	for range dhcpQueue + 10 { // more than there is room for
		hear(ask(t, discover))
	}
	hear(ask(t, request3))
	hear(datagram{data: []byte("no packet")})
	if first := q.batch(); len(first) != 1 || first[0].kind != request3 {
		t.Errorf("first come %d packets, with a %s", len(first), first[0].kind)
	}
	left := 0
	for batch := q.batch(); len(batch) > 0; batch = q.batch() {
		left += len(batch)
	}
	if left != dhcpQueue {
		t.Errorf("%d discovers waited, not %d", left, dhcpQueue)
	}
}
