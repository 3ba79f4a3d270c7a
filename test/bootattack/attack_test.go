package bootattack

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"muster/internal/core"
	"muster/internal/drivers"
	"muster/internal/inventory"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/kit/netns"
	"muster/internal/kit/testall"
	"muster/internal/protocol"
)

// each runs a test in every mode, with a switch that the controller does not set and with one that is a bridge.
func each(t *testing.T, test func(*testing.T, *site)) {
	for _, mode := range []inventory.Mode{inventory.ModeOwn, inventory.ModeProxy, inventory.ModeOff} {
		for _, kind := range []string{"none", "bridge", "ovs"} {
			t.Run(string(mode)+", switch "+kind, func(t *testing.T) {
				t.Parallel() // a site of its own, at which most of the time somebody waits for an answer that he is not given
				test(t, newSite(t, mode, kind, nil))
			})
		}
	}
}

const theToken = "muster.token="

// TestAMachinesScriptIsGivenToNobodyElse is the theft of a boot's token by sending its machine's MAC: by a process without rights
// on another machine, by root there with another address of his own, with the victim's address, and with ARP that says that the
// victim has his.
func TestAMachinesScriptIsGivenToNobodyElse(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		_, token := s.begin(victimName, protocol.Inspect)
		refused := func(what string, r Result) {
			t.Helper()
			if strings.Contains(r.Text, theToken) || r.Status == http.StatusOK {
				t.Errorf("%s: %d %s", what, r.Status, r.Text)
			}
		}
		refused("an unprivileged process", s.as(s.thief, Nobody, script(victimMAC, "")))
		plan := script(victimMAC, "")
		plan.URL = boots + "/boot/v1/plan?mac=" + victimMAC
		refused("an unprivileged process that asks for the plan", s.as(s.thief, Nobody, plan))

		in(t, s.thief, "ip", "addr", "add", "10.78.1.88/16", "dev", "eth0")
		refused("root, from an address of nobody", s.as(s.thief, 0, script(victimMAC, "10.78.1.88")))
		in(t, s.thief, "ip", "addr", "add", victimAt+"/16", "dev", "eth0")
		refused("root, from the victim's address", s.as(s.thief, 0, script(victimMAC, victimAt)))

		// Root answers that the victim's NIC has his address, over and over, while he asks from there.
		stop := s.spoof(s.thief, "10.78.1.88", victimMAC)
		for range 5 {
			refused("root, who lies by ARP", s.as(s.thief, 0, script(victimMAC, "10.78.1.88")))
		}
		stop()
		in(t, s.thief, "ip", "addr", "del", victimAt+"/16", "dev", "eth0")

		if b := s.boot(victimName); b.Scripts != 0 || b.Step == protocol.StepScript {
			t.Errorf("the thief's questions are held against the machine: %+v", b)
		}
		if r := s.powerOn(); !strings.Contains(r.Text, theToken+token) {
			t.Errorf("the machine itself got %d %s%s", r.Status, r.Text, r.Error)
		}
		if said := s.log.String(); !strings.Contains(said, "somebody asks in the name of a machine") ||
			!strings.Contains(said, thiefMAC) {
			t.Errorf("nobody is told who the thief is:\n%s", said)
		}
	})
}

// TestATokenThatWasStolenOpensNothingElsewhere grants the thief the token: his progress is not believed, so that no address
// is learnt, and his join is refused, also from the victim's address. The machine itself joins afterwards.
func TestATokenThatWasStolenOpensNothingElsewhere(t *testing.T) {
	for _, duty := range []protocol.Duty{protocol.Inspect, protocol.Host} {
		each(t, func(t *testing.T, s *site) {
			if duty == protocol.Host && s.network.Mode == inventory.ModeOff {
				return // as in mode proxy: the doors are the same
			}
			number, token := s.begin(victimName, duty)
			if r := s.powerOn(); r.Status != http.StatusOK {
				t.Fatalf("%+v", r)
			}
			in(t, s.victim, "ip", "link", "set", "eth0", "down") // so that no machine answers for it
			in(t, s.thief, "ip", "addr", "add", victimAt+"/16", "dev", "eth0")
			stop := s.spoof(s.thief, victimAt, thiefMAC)
			for _, source := range []string{thiefAt, victimAt} {
				for _, step := range []string{"init", "problem"} {
					if r := s.as(s.thief, 0, progress(victimMAC, step, token, source)); r.Status == http.StatusNoContent {
						t.Errorf("step %s from %s is believed", step, source)
					}
				}
				steal := Act{Do: "join", URL: door, Source: source,
					Join:     protocol.JoinRequest{Node: "id-" + victimName, Boot: number, Token: token},
					Findings: &protocol.Findings{Done: true, Facts: []byte(`{"cpus":1}`)}}
				if r := s.as(s.thief, 0, steal); r.Status == http.StatusOK {
					t.Errorf("the thief joined from %s: %+v", source, r)
				}
			}
			if r := s.as(s.thief, Nobody, progress(victimMAC, "init", token, "")); r.Status == http.StatusNoContent {
				t.Errorf("an unprivileged thief's progress is believed")
			}
			if b := s.boot(victimName); b.Findings != nil || b.Step == protocol.StepProblem || b.JoinedKey != "" {
				t.Errorf("the boot is %+v", b)
			}
			if mac := s.leaseAt(thiefAt); mac == victimMAC {
				t.Error("the thief's address was learnt as the victim's")
			}
			stop()
			in(t, s.thief, "ip", "addr", "del", victimAt+"/16", "dev", "eth0")
			in(t, s.victim, "ip", "link", "set", "eth0", "up")
			agent := Act{Findings: &protocol.Findings{Doing: "erasing"}}
			if duty == protocol.Host {
				agent = Act{Path: protocol.HostingPath + "?after=-1"}
			}
			if r := s.firstStage(number, token, agent); r.Status != http.StatusOK || r.Then != http.StatusOK {
				t.Errorf("the machine itself: %+v\n%s", r, s.log)
			}
		})
	}
}

// TestNobodysPacketsTakeALease sends in the victim's name all that an unprivileged process can, and what root can whose
// frames have his own MAC.
func TestNobodysPacketsTakeALease(t *testing.T) {
	s := newSite(t, inventory.ModeOwn, "bridge", nil)
	client := dhcpv4.WithClientIP([]byte{10, 78, 1, 66})
	packets := map[string][]byte{
		"decline":                    dhcp(dhcpv4.MessageTypeDecline, victimMAC, wants(victimAt), toUs()),
		"release":                    dhcp(dhcpv4.MessageTypeRelease, victimMAC, client, toUs()),
		"request of the thief's own": dhcp(dhcpv4.MessageTypeRequest, victimMAC, wants(thiefAt)),
		"request of the victim's":    dhcp(dhcpv4.MessageTypeRequest, thiefMAC, wants(victimAt)),
		"inform":                     dhcp(dhcpv4.MessageTypeInform, victimMAC, client),
		"decline, as relayed": dhcp(dhcpv4.MessageTypeDecline, victimMAC, wants(victimAt), toUs(),
			dhcpv4.WithGatewayIP([]byte{10, 78, 1, 77})),
		"request, as relayed": dhcp(dhcpv4.MessageTypeRequest, "52:54:00:00:00:55", wants("10.78.1.5"),
			dhcpv4.WithGatewayIP([]byte{10, 78, 1, 77})),
		"decline of the thief's": dhcp(dhcpv4.MessageTypeDecline, thiefMAC, wants(thiefAt), toUs()),
		"release of the thief's": dhcp(dhcpv4.MessageTypeRelease, thiefMAC, dhcpv4.WithClientIP([]byte{10, 78, 1, 77}),
			toUs()),
	}
	for name, data := range packets {
		s.as(s.thief, Nobody, Act{Do: "udp", To: "10.78.0.1:67", Data: data})
		s.as(s.thief, 0, Act{Do: "udp", Local: 68, Device: "eth0", To: "255.255.255.255:67", Data: data},
			Act{Do: "frame", Device: "eth0", Data: frame(thiefMAC, "0.0.0.0", 68, "255.255.255.255", data)})
		s.settle()
		if a, b := s.leaseAt(victimAt), s.leaseAt(thiefAt); a != victimMAC || b != thiefMAC {
			t.Fatalf("after a %s %s is of %q, %s of %q", name, victimAt, a, thiefAt, b)
		}
		if mac := s.leaseAt("10.78.1.5"); mac != "" {
			t.Fatalf("after a %s %s has an address", name, mac)
		}
	}
	// Root who forges the victim's MAC too: also then an enrolled machine keeps what it has.
	for _, name := range []string{"decline", "release", "request of the thief's own"} {
		s.as(s.thief, 0, Act{Do: "frame", Device: "eth0",
			Data: frame(victimMAC, "0.0.0.0", 68, "255.255.255.255", packets[name])})
		s.settle()
		if a, b := s.leaseAt(victimAt), s.leaseAt(thiefAt); a != victimMAC || b != thiefMAC {
			t.Fatalf("after a forged %s %s is of %q, %s of %q", name, victimAt, a, thiefAt, b)
		}
	}
	if said := s.log.String(); !strings.Contains(said, "a DHCP packet is not believed") ||
		!strings.Contains(said, "it keeps it") {
		t.Errorf("nobody is told:\n%s", said)
	}
}

// TestAPortThatNobodyNamedOffersNoLease: somebody adds a NIC to the network's bridge and answers DHCP there. Once the port is
// isolated no machine hears that, while the controller answers the machine behind it, which may be an unknown one.
func TestAPortThatNobodyNamedOffersNoLease(t *testing.T) {
	testall.Only(t)
	for _, kind := range []string{"bridge", "ovs"} {
		t.Run("switch "+kind, func(t *testing.T) {
			s := newSite(t, inventory.ModeOwn, kind, nil)
			server := s.host("eth9", "52:54:00:00:77:00")
			in(t, s.ns, "ip", "link", "set", "eth9", "master", "br0", "up")
			in(t, s.victim, "ip", "addr", "add", victimAt+"/16", "dev", "eth0")
			var client net.PacketConn
			if err := netns.Do(s.victim, func() (err error) {
				client, err = net.ListenPacket("udp4", ":68")
				return err
			}); err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			offer := dhcp(dhcpv4.MessageTypeOffer, victimMAC, dhcpv4.WithYourIP([]byte{10, 78, 1, 99}))
			hears := func() bool {
				if err := client.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
					t.Fatal(err)
				}
				n, _, err := client.ReadFrom(make([]byte, 1500))
				return err == nil && n == len(offer)
			}
			sent := func() bool {
				s.as(server, 0, Act{Do: "frame", Device: "eth0",
					Data: frameTo("52:54:00:00:77:00", "10.78.1.99", 67, "255.255.255.255", 68, offer)})
				return hears()
			}
			s.until("a machine hears the offer, so that silence means something", sent)
			driver, err := drivers.Switches().Open(s.network)
			if err != nil {
				t.Fatal(err)
			}
			all, err := driver.Isolate(t.Context(), []string{"m1n0", "m2n0"})
			if err != nil || !slices.Equal(all, []string{"eth9"}) {
				t.Fatalf("isolated were %q: %v", all, err)
			}
			for hears() { // what was on its way
			}
			for range 3 {
				if sent() {
					t.Error("a machine hears the offer of a port that nobody named")
				}
			}
			s.marker = server
			s.settle() // the controller leases the machine behind the port an address
		})
	}
}

// settle waits until all that was sent before has been answered: a packet of the victim's own goes through the same queue.
func (s *site) settle() {
	s.Helper()
	s.mark++
	mac := fmt.Sprintf("52:54:00:00:77:%02x", s.mark)
	if s.marker == "" {
		s.marker = s.host("mark", "52:54:00:00:77:00")
	}
	in(s.T, s.marker, "ip", "link", "set", "eth0", "address", mac)
	want := fmt.Sprintf("10.78.1.%d", 20+s.mark)
	s.until("the queue is empty", func() bool {
		s.as(s.marker, 0, Act{Do: "udp", Local: 68, Device: "eth0", To: "255.255.255.255:67",
			Data: dhcp(dhcpv4.MessageTypeRequest, mac, wants(want))})
		time.Sleep(20 * time.Millisecond)
		return s.leaseAt(want) == mac
	})
}

// TestQuestionsOfOthersDoNotKeepAMachineFromBooting asks for the victim's script, its files and its progress far more often
// than a boot may.
func TestQuestionsOfOthersDoNotKeepAMachineFromBooting(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		_, token := s.begin(victimName, protocol.Inspect)
		var acts []Act
		for range 15 {
			files := script(victimMAC, "")
			files.URL = boots + "/boot/v1/initramfs/none?mac=" + victimMAC
			acts = append(acts, script(victimMAC, ""), files)
		}
		s.as(s.thief, Nobody, acts...)
		time.Sleep(100 * time.Millisecond) // notes are taken a little later
		if b := s.boot(victimName); b.Scripts != 0 || b.Step != "" {
			t.Errorf("the boot is at %q after %d scripts", b.Step, b.Scripts)
		}
		if r := s.powerOn(); !strings.Contains(r.Text, theToken+token) {
			t.Errorf("the machine itself is told %d %s", r.Status, r.Text)
		}
	})
}

// TestAMachineThatMayHaveNoMoreScriptsDoesNotRunWhatIsOnItsDisk: what a tenant left there would run.
func TestAMachineThatMayHaveNoMoreScriptsDoesNotRunWhatIsOnItsDisk(t *testing.T) {
	s := newSite(t, inventory.ModeOwn, "none", nil)
	s.begin(victimName, protocol.Inspect)
	r := s.powerOn()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end) && strings.Contains(r.Text, theToken); {
		r = s.as(s.victim, 0, script(victimMAC, ""))
		time.Sleep(20 * time.Millisecond)
	}
	if strings.Contains(r.Text, theToken) || strings.Contains(r.Text, "sanboot") || !strings.Contains(r.Text, "sleep") ||
		!strings.Contains(r.Text, "chain") {
		t.Errorf("%d %s", r.Status, r.Text)
	}
}

// TestAFloodOfUnknownMachinesLeavesAddresses: where unknown machines may enrol, an unprivileged process gets addresses for
// no other MAC than its machine's, and root with a frame for each gets them for minutes, while enrolled machines have
// theirs all the same.
func TestAFloodOfUnknownMachinesLeavesAddresses(t *testing.T) {
	s := newSite(t, inventory.ModeOwn, "none", func(n *inventory.Network) {
		n.First, n.Last = netip.MustParseAddr("10.78.1.60"), netip.MustParseAddr("10.78.1.79")
	})
	var datagrams, frames []Act
	for i := range 100 {
		mac := fmt.Sprintf("52:54:00:00:09:%02x", i)
		data := dhcp(dhcpv4.MessageTypeRequest, mac, wants(fmt.Sprintf("10.78.1.%d", 60+i%20)))
		datagrams = append(datagrams, Act{Do: "udp", To: "10.78.0.1:67", Data: data})
		frames = append(frames, Act{Do: "frame", Device: "eth0", Data: frame(mac, "0.0.0.0", 68, "255.255.255.255", data)})
	}
	passing := func() (all []network.Lease) {
		s.update(func(ctx context.Context, tx *core.Tx) (err error) {
			all, err = network.Passing(ctx, tx, "boot")
			return err
		})
		return all
	}
	s.as(s.thief, Nobody, datagrams...)
	time.Sleep(200 * time.Millisecond)
	if all := passing(); len(all) > 0 {
		t.Errorf("100 datagrams have taken %d addresses", len(all))
	}
	s.as(s.thief, 0, frames...)
	s.until("the flood has arrived", func() bool { return len(passing()) >= 18 })
	for _, l := range passing() {
		if left := time.Until(l.Expires); left > 10*time.Minute {
			t.Errorf("%s has %s for %s, and has proved nothing", l.MAC, l.Address, left)
		}
	}
	// A machine that was enrolled since then, and has no address yet.
	const newMAC = "52:54:00:00:00:03"
	s.update(func(ctx context.Context, tx *core.Tx) error {
		return machine.Add(ctx, tx, inventory.Machine{ID: "id-r3", Name: "r3", Substrate: "metal", Network: "boot",
			MACs: []string{newMAC}})
	})
	fresh := s.host("m3n0", newMAC)
	has := func() (at string) {
		s.update(func(ctx context.Context, tx *core.Tx) error {
			if l, err := network.LeaseOf(ctx, tx, "boot", newMAC); err == nil {
				at = l.Address.String()
			}
			return nil
		})
		return at
	}
	s.until("an enrolled machine has an address in spite of the flood", func() bool {
		in(t, fresh, "sh", "-c", "busybox udhcpc -f -n -q -t 1 -T 1 -s /bin/true -i eth0 >/dev/null 2>&1 || true")
		return has() != ""
	})
	if a := s.leaseAt(victimAt); a != victimMAC {
		t.Errorf("the victim's address is of %s", a)
	}
}

// TestAnAddressIsNotLearntFromAMachineThatIsInUse: a user who has rights on a machine that is on knows its own boot's token
// (/proc/cmdline) and takes no other machine's address with it.
func TestAnAddressIsNotLearntFromAMachineThatIsInUse(t *testing.T) {
	for _, mode := range []inventory.Mode{inventory.ModeProxy, inventory.ModeOff} {
		t.Run(string(mode), func(t *testing.T) {
			s := newSite(t, mode, "bridge", nil)
			number, token := s.begin(victimName, protocol.Inspect)
			if r := s.powerOn(); r.Status != http.StatusOK {
				t.Fatalf("%+v", r)
			}
			if r := s.firstStage(number, token, Act{Findings: &protocol.Findings{Doing: "erasing"}}); r.Then != http.StatusOK {
				t.Fatalf("%+v", r)
			}
			own, ownToken := s.begin(thiefName, protocol.Inspect)
			s.as(s.thief, 0, script(thiefMAC, ""), progress(thiefMAC, "init", ownToken, thiefAt))
			in(t, s.thief, "ip", "addr", "add", victimAt+"/16", "dev", "eth0")
			stop := s.spoof(s.thief, victimAt, thiefMAC)
			defer stop()
			for range 3 { // before its agent has come, and after
				s.as(s.thief, 0, progress(thiefMAC, "init", ownToken, victimAt))
				if mac := s.leaseAt(victimAt); mac != victimMAC {
					t.Fatalf("%s is of %s", victimAt, mac)
				}
				s.as(s.thief, 0, Act{Do: "join", URL: door, Source: thiefAt,
					Join: protocol.JoinRequest{Node: "id-" + thiefName, Boot: own, Token: ownToken}})
			}
			// The victim's agent goes on meanwhile.
			renew := Act{Do: "join", URL: door, Join: protocol.JoinRequest{Node: "id-" + victimName, Boot: number, Token: token}}
			if r := s.as(s.victim, 0, renew); r.Error != "" {
				t.Errorf("the victim cannot reach the controller: %+v", r)
			}
		})
	}
}

// TestARPRedirectsNothingThatIsForAMachine: what the controller sends to an enrolled machine's address goes to its NIC, no matter
// who says by ARP to have it, and also after the services were restarted.
func TestARPRedirectsNothingThatIsForAMachine(t *testing.T) {
	s := newSite(t, inventory.ModeOwn, "none", nil)
	entry := func() string { return in(t, s.ns, "ip", "-4", "neigh", "show", victimAt, "dev", "br0") }
	s.until("the leases that there were are pinned", func() bool { return strings.Contains(entry(), victimMAC+" PERMANENT") })
	stop := s.spoof(s.thief, victimAt, thiefMAC)
	defer stop()
	time.Sleep(300 * time.Millisecond)
	if got := entry(); !strings.Contains(got, victimMAC+" PERMANENT") {
		t.Errorf("what is for %s goes to: %s", victimAt, got)
	}
	s.update(func(ctx context.Context, tx *core.Tx) error { return machine.Forget(ctx, tx, "id-"+victimName) })
	s.until("a machine that has left is forgotten", func() bool { return !strings.Contains(entry(), "PERMANENT") })
}

// TestRootWhoForgesAMAC is what a switch is for. With one, what the controller sends to the victim's MAC goes to the
// victim's port, and the thief hears nothing. With none there is nothing that tells the two apart while the victim is
// silent: the test notes it.
func TestRootWhoForgesAMAC(t *testing.T) {
	for _, mode := range []inventory.Mode{inventory.ModeOwn, inventory.ModeProxy} {
		for _, kind := range []string{"none", "bridge"} {
			t.Run(string(mode)+", switch "+kind, func(t *testing.T) {
				s := newSite(t, mode, kind, nil)
				s.begin(victimName, protocol.Inspect)
				in(t, s.thief, "ip", "link", "set", "eth0", "address", victimMAC)
				in(t, s.thief, "ip", "addr", "add", victimAt+"/16", "dev", "eth0")
				r := s.as(s.thief, 0, script(victimMAC, victimAt))
				got := strings.Contains(r.Text, theToken)
				if kind != "none" && got {
					t.Errorf("through the switch the thief got %s", r.Text)
				}
				t.Logf("root who forges the MAC gets the token: %v %s", got, r.Error)
			})
		}
	}
}

// spoof says by ARP, again and again, that a MAC has an address, in the thief's own frames, until it is stopped.
func (s *site) spoof(ns, address, mac string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	a := netip.MustParseAddr(address).As4()
	var acts []Act
	for _, kind := range []byte{1, 2} { // a request and an answer
		f := append(append(hardware("ff:ff:ff:ff:ff:ff"), hardware(thiefMAC)...), 8, 6, 0, 1, 8, 0, 6, 4, 0, kind)
		f = append(append(append(f, hardware(mac)...), a[:]...), append(make([]byte, 6), 10, 78, 0, 1)...)
		acts = append(acts, Act{Do: "frame", Device: "eth0", Data: f})
	}
	var many []Act
	for range 50 {
		many = append(many, acts...)
	}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = As(ns, 0, many...)
		}
	}()
	return func() { cancel(); <-done }
}

// unheard says that an agent is not answered: it is to end, or not where its machine is.
func unheard(status int) bool { return status == http.StatusGone || status == http.StatusUnauthorized }

// TestFindingsCountOnlyWithTheKeyOfTheirBoot: a certificate for the victim's boot with another key than the one that joined
// is worth nothing, nor is one of an older boot.
func TestFindingsCountOnlyWithTheKeyOfTheirBoot(t *testing.T) {
	for _, duty := range []protocol.Duty{protocol.Inspect, protocol.Host} {
		s := newSite(t, inventory.ModeOwn, "none", nil)
		number, token := s.begin(victimName, duty)
		path := "/agent/v1/inspection"
		if duty == protocol.Host {
			path = protocol.HostingPath + "?after=-1"
		}
		say := func(ns, certificate, key string) Result {
			return s.as(ns, 0, Act{Do: "known", URL: door, Certificate: certificate, Key: key, Path: path,
				Findings: &protocol.Findings{Done: true, Facts: []byte(`{"cpus":1}`)}})
		}
		forged, key := s.certificate("id-"+victimName, number)
		if r := say(s.thief, forged, key); !unheard(r.Then) || !unheard(r.Status) {
			t.Errorf("before anybody has joined: %+v", r)
		}
		if r := s.powerOn(); r.Status != http.StatusOK {
			t.Fatalf("%+v", r)
		}
		if r := s.firstStage(number, token, Act{Path: path}); r.Then != http.StatusOK {
			t.Fatalf("%+v", r)
		}
		if r := say(s.thief, forged, key); !unheard(r.Then) || !unheard(r.Status) {
			t.Errorf("with another key: %+v", r)
		}
		if b := s.boot(victimName); b.Findings != nil {
			t.Errorf("believed: %+v", b.Findings)
		}
	}
}
