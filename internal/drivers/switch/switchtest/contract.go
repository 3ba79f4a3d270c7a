// Package switchtest is the contract of switches that keep segments apart, with stations behind a switch's ports that may send
// any bytes at all. A driver's own test calls Test.
package switchtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/drivertest"
	switches "muster/internal/drivers/switch"
	"muster/internal/inventory"
	"muster/internal/kit/lists"
	"muster/internal/kit/netns"
)

// Subject is a switch under test. Its ports are called "p-NAME" for each of Names().
type Subject struct {
	Factory switches.Factory
	switches.Switch
	Forgetful switches.Forgetful         // found by Test
	Testbed   *Testbed                   // of real frames; nil: Hear knows
	Hear      func(port string) []string // the ports that hear a frame which is sent to everybody from one of them
	// Add makes an interface a port of the switch, as somebody does who tells Muster nothing; nil: the bridge is the switch.
	Add func(t *testing.T, port string)
}

// Test has a driver keep segments apart. Each part of it begins with a new subject.
func Test(t *testing.T, fresh func(*testing.T) Subject) {
	drivertest.Run(t, parts(), func(t *testing.T) Subject {
		s := fresh(t)
		s.Forgetful, _ = s.Switch.(switches.Forgetful)
		return s
	}, nil)
}

// parts are the promises, and what each of them tries.
func parts() []drivertest.Part[Subject] {
	part := func(name string, run func(*testing.T, Subject), tries ...string) drivertest.Part[Subject] {
		return drivertest.Part[Subject]{Name: name, Tries: tries, Run: run}
	}
	return []drivertest.Part[Subject]{
		part("it says what it is", describes, "Factory.Name", "Factory.Open"),
		part("what a network says of it is checked", checks, "Factory.Check", "Factory.Database"),
		part("no frame passes between segments", noFramePasses, "Factory.Isolates", "Switch.Put", "Switch.Ports"),
		part("every port reaches the controller", everyPortReachesTheController, "Switch.Put"),
		part("the controller's answers go to whom they are for", answersGoToWhomTheyAreFor, "Switch.Put"),
		part("a port that nobody named reaches the controller alone", isolates, "Switch.Isolate"),
		part("no frame passes while ports move", noFramePassesWhilePortsMove, "Switch.Put", "Switch.Ports"),
		part("ports and segments come and go", portsAndSegmentsComeAndGo, "Switch.Open", "Switch.Close", "Switch.Opened"),
		part("what is no segment is refused", refusesWhatIsNone, "Switch.Put", "Switch.Open", "Switch.Ports"),
		part("the common segment stays", commonStays, "Switch.Close"),
		part("what it has forgotten it is reminded of", reminded, "Forgetful.Forgotten", "Forgetful.Remind"),
	}
}

func describes(t *testing.T, s Subject) {
	if f := s.Factory; f.Name == "" || strings.ToLower(f.Name) != f.Name || strings.ContainsAny(f.Name, " /\n") {
		t.Errorf("its name is %q", f.Name)
	}
}

// checks: whose switch is reached by a database is to be told which.
func checks(t *testing.T, s Subject) {
	if err := s.Factory.Check(inventory.Network{Switch: s.Factory.Name}); err == nil {
		t.Error("a network says nothing of its switch, and that is taken")
	}
	if err := s.Factory.Check(inventory.Network{Switch: s.Factory.Name, SwitchBridge: "b",
		SwitchDatabase: s.Factory.Database}); err != nil {
		t.Errorf("its usual database is not taken: %v", err)
	}
}

// refusesWhatIsNone: a port that was somewhere stays there.
func refusesWhatIsNone(t *testing.T, s Subject) {
	s.put(t, "a1", 5)
	for _, none := range []switches.Segment{switches.Nowhere, switches.Nowhere - 1, switches.Hosts + 1} {
		if err := s.Put(t.Context(), s.Port("a1"), none); err == nil {
			t.Errorf("a port was put into %d", none)
		}
		if _, err := s.Open(t.Context(), none); err == nil {
			t.Errorf("segment %d was opened", none)
		}
	}
	now, err := s.Ports(t.Context())
	check(t, err)
	opened, err := s.Opened(t.Context())
	check(t, err)
	if now["p-a1"] != 5 || !slices.Equal(opened, []switches.Segment{5}) {
		t.Errorf("the port is in %s, and these are open: %v", now["p-a1"], opened)
	}
}

func commonStays(t *testing.T, s Subject) {
	s.put(t, "c1", switches.Common)
	for range 2 {
		check(t, s.Close(t.Context(), switches.Common))
	}
	now, err := s.Ports(t.Context())
	check(t, err)
	if now["p-c1"] != switches.Common {
		t.Errorf("the port is in %s", now["p-c1"])
	}
	s.put(t, "c2", switches.Common)
}

// reminded tells a switch of a machine behind a port that it has never heard of.
func reminded(t *testing.T, s Subject) {
	told := switches.Placed{Port: s.Port("a1"), In: 5}
	check(t, s.Put(t.Context(), told.Port, told.In))
	other := told
	other.MACs = []net.HardwareAddr{{2, 0, 0, 0, 9, 9}}
	forgotten := func(want ...string) {
		t.Helper()
		all, err := s.Forgetful.Forgotten(t.Context(), []switches.Placed{told, other})
		check(t, err)
		macs := lists.Map(all, func(p switches.Placed) string { return p.MACs[0].String() })
		if !slices.Equal(macs, want) {
			t.Errorf("it knows nothing of %q, want %q", macs, want)
		}
	}
	forgotten(other.MACs[0].String())
	for range 2 {
		check(t, s.Forgetful.Remind(t.Context(), other))
		forgotten()
	}
	now, err := s.Ports(t.Context())
	check(t, err)
	if now["p-a1"] != 5 {
		t.Errorf("to be reminded has put the port into %s", now["p-a1"])
	}
}

// Names are those of the stations.
func Names() []string { return []string{"a1", "a2", "b1", "b2", "c1", "c2", "mover"} }

// home is where each port is put at first.
func home() map[string]switches.Segment {
	return map[string]switches.Segment{"a1": 5, "a2": 5, "b1": 7, "b2": 7, "c1": switches.Common, "c2": switches.Common,
		"mover": switches.Hosts}
}

// Port is that of a station.
func (s Subject) Port(name string) switches.Port {
	p := switches.Port{Name: "p-" + name}
	if s.Testbed != nil {
		p.MACs = []net.HardwareAddr{s.Testbed.station(name).mac}
	}
	return p
}

func (y *Testbed) station(name string) *station {
	for _, s := range y.Stations {
		if s.name == name {
			return s
		}
	}
	panic(name)
}

func (s Subject) put(t *testing.T, name string, to switches.Segment) {
	t.Helper()
	check(t, s.Put(t.Context(), s.Port(name), to))
	now, err := s.Ports(t.Context())
	check(t, err)
	if now["p-"+name] != to {
		t.Fatalf("port p-%s was put into %s and is in %s", name, to, now["p-"+name])
	}
}

// furnish puts every port where it belongs at first.
func (s Subject) furnish(t *testing.T) {
	t.Helper()
	for _, n := range Names() {
		s.put(t, n, home()[n])
	}
}

// crossings are the frames that somebody heard and should not have, and those that should have come and did not.
func (s Subject) crossings(t *testing.T, where map[string]switches.Segment) []string {
	t.Helper()
	var wrong []string
	together := func(a, b string) bool { return a != b && where[a] == where[b] && where[a] != switches.Common }
	if s.Testbed == nil {
		for a := range where {
			for b := range where {
				if got := slices.Contains(s.Hear("p-"+a), "p-"+b); got != together(a, b) {
					wrong = append(wrong, fmt.Sprintf("%s hears %s: %v", b, a, got))
				}
			}
		}
		return wrong
	}
	speak := func() {
		for _, from := range s.Testbed.Stations {
			for _, victim := range s.Testbed.Stations {
				if victim != from {
					from.say(victim, s.Testbed.Controller)
				}
			}
		}
	}
	speak()
	said, again := map[string]map[string]bool{}, time.Now()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if time.Since(again) > 2*time.Second { // a busy host loses frames
			speak()
			again = time.Now()
		}
		missing := ""
		for _, by := range append(slices.Clone(s.Testbed.Stations), s.Testbed.Controller) {
			if said[by.name] == nil {
				said[by.name] = map[string]bool{}
			}
			for _, h := range by.take() {
				said[by.name][h.mark] = true
			}
			for _, from := range s.Testbed.Stations {
				if (by == s.Testbed.Controller || together(from.name, by.name)) && !said[by.name][from.name+"/"+broadcast] {
					missing = fmt.Sprintf("%s does not hear %s: %s", by.name, from.name, broadcast)
				}
			}
		}
		if missing == "" {
			break
		}
		if time.Now().After(deadline) {
			return append(wrong, missing)
		}
	}
	time.Sleep(200 * time.Millisecond) // for what must not come
	for _, by := range s.Testbed.Stations {
		for _, h := range by.take() {
			said[by.name][h.mark] = true
		}
		for m := range said[by.name] {
			if from, _, _ := strings.Cut(m, "/"); !together(from, by.name) {
				wrong = append(wrong, by.name+" hears "+m)
			}
		}
	}
	return wrong
}

func noFramePasses(t *testing.T, s Subject) {
	s.furnish(t)
	if wrong := s.crossings(t, home()); len(wrong) > 0 {
		t.Errorf("%d frames went astray: %q", len(wrong), wrong[:min(len(wrong), 20)])
	}
}

func everyPortReachesTheController(t *testing.T, s Subject) {
	if s.Testbed == nil {
		return // there is no controller in the fake
	}
	s.furnish(t)
	s.allReachTheController(t)
}

func (s Subject) allReachTheController(t *testing.T) {
	t.Helper()
	// As the boot services do, it listens on the common bridge alone.
	var listener net.Listener
	check(t, netns.Do(s.Testbed.Namespace, func() (err error) {
		listener, err = netns.BoundTo(CommonBridge, nil).Listen(t.Context(), "tcp", "10.99.0.1:8069")
		return err
	}))
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Write([]byte("here"))
			connection.Close()
		}
	}()
	for _, from := range s.Testbed.Stations {
		for range 3 { // another that answered for its address would be asked the next time
			text, err := from.calls(t.Context())
			for end := time.Now().Add(time.Minute); errors.Is(err, unix.EHOSTUNREACH) && time.Now().Before(end); {
				text, err = from.calls(t.Context()) // a busy host loses ARP, too
			}
			if err != nil || text != "here" {
				t.Errorf("%s hears %q of the controller: %v", from.name, text, err)
			}
			check(t, netns.Do(from.namespace, func() error { return exec.Command("ip", "neigh", "flush", "all").Run() }))
		}
	}
}

// calls is what the controller says to the station. It gives up before the kernel would ask again who has that address.
func (s *station) calls(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 14*time.Second)
	defer cancel()
	connection, err := netns.Dial(ctx, s.namespace, "tcp", "10.99.0.1:8069")
	if err != nil {
		return "", err
	}
	defer connection.Close()
	text, err := io.ReadAll(connection)
	return string(text), err
}

func answersGoToWhomTheyAreFor(t *testing.T, s Subject) {
	if s.Testbed == nil {
		return // the fake knows no MACs
	}
	s.furnish(t)
	s.crossings(t, home()) // everybody has said that he is everybody else
	own := map[string]bool{}
	collect := func() {
		for _, by := range s.Testbed.Stations {
			for _, h := range by.take() {
				if h.mark == "controller/to "+by.name {
					own[by.name] = true
				} else if strings.HasPrefix(h.mark, "controller/") {
					t.Errorf("%s hears %s", by.name, h.mark)
				}
			}
		}
	}
	all := len(s.Testbed.Stations)
	for end := time.Now().Add(time.Minute); len(own) < all && !t.Failed() && time.Now().Before(end); collect() {
		for _, victim := range s.Testbed.Stations {
			text := []byte(mark + "controller/to " + victim.name + "." + strings.Repeat(" ", 40))
			s.Testbed.Controller.send(append(ethernetFrame(victim.mac, s.Testbed.Controller.mac, 0x88b5), text...))
		}
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond) // for what must not come
	collect()
	for _, by := range s.Testbed.Stations {
		if !own[by.name] {
			t.Errorf("%s does not hear what is for it", by.name)
		}
	}
}

// isolates adds ports that are not named: one of the switch, and one of the bridge at which the common segment ends. Both are
// another machine's NIC, a router, or somebody who answers DHCP.
func isolates(t *testing.T, s Subject) {
	if s.Testbed == nil {
		s.isolated(t, []string{"p-a1", "p-a2", "p-b1", "p-b2", "p-c1", "p-mover"}, "p-c2")
		return
	}
	s.furnish(t)
	s.Testbed.cable(t, "added")
	s.Testbed.cable(t, "stray")
	if s.Testbed.enslave(t, "p-stray"); s.Add == nil {
		s.Testbed.enslave(t, "p-added")
	} else {
		s.Add(t, "p-added")
	}
	machines := []string{"p-a1", "p-a2", "p-b1", "p-b2", "p-c1", "p-c2", "p-mover"}
	s.isolated(t, append(machines, "p-added", "p-stray"))
	s.isolated(t, append(machines, "p-added"), "p-stray")
	now, err := s.Ports(t.Context())
	check(t, err)
	if now["p-added"] != switches.Nowhere {
		t.Errorf("a machine's port that was open has come into %s", now["p-added"])
	}
	s.isolated(t, machines, "p-added")
	s.isolated(t, machines)
	if now, err = s.Ports(t.Context()); err != nil || now["p-added"] != switches.Common {
		t.Fatalf("the port that was added is in %s: %v", now["p-added"], err)
	}
	where := home()
	where["added"], where["stray"] = switches.Common, switches.Common
	if wrong := s.crossings(t, where); len(wrong) > 0 {
		t.Errorf("%d frames went astray: %q", len(wrong), wrong[:min(len(wrong), 20)])
	}
	s.allReachTheController(t)
	s.trusts(t, machines)
}

// trusts adds ports with the alias that leaves them open.
func (s Subject) trusts(t *testing.T, machines []string) {
	t.Helper()
	for _, name := range []string{"server", "router"} {
		s.Testbed.cable(t, name)
		check(t, netns.Do(s.Testbed.Namespace, func() error {
			return exec.Command("ip", "link", "set", "p-"+name, "alias", switches.Trusted).Run()
		}))
	}
	s.Testbed.enslave(t, "p-server")
	if s.Add != nil {
		s.Add(t, "p-router")
	}
	s.isolated(t, machines)
	server, c1 := s.Testbed.station("server"), s.Testbed.station("c1")
	everybody := net.HardwareAddr{255, 255, 255, 255, 255, 255}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		server.send(append(ethernetFrame(everybody, server.mac, 0x88b5), mark+"server/offer."+strings.Repeat(" ", 40)...))
		if slices.ContainsFunc(c1.take(), func(h heard) bool { return h.mark == "server/offer" }) {
			return
		}
		if time.Now().After(end) {
			t.Fatal("a machine does not hear a port that is trusted")
		}
	}
}

// isolated has the switch isolate ports, and compares which those were.
func (s Subject) isolated(t *testing.T, named []string, want ...string) {
	t.Helper()
	if got, err := s.Isolate(t.Context(), named); err != nil || !slices.Equal(got, want) {
		t.Fatalf("isolated were %q, want %q: %v", got, want, err)
	}
}

// span is when the mover was in a segment: from when the switch said so until it was to leave.
type span struct {
	in       switches.Segment
	from, to time.Time
}

func noFramePassesWhilePortsMove(t *testing.T, s Subject) {
	s.furnish(t)
	if s.Testbed == nil {
		return // nothing happens in the fake while it is not called
	}
	stop := make(chan struct{})
	var chatter sync.WaitGroup
	mover := s.Testbed.station("mover")
	for _, from := range s.Testbed.Stations {
		if from == mover {
			continue
		}
		chatter.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					from.say(s.Testbed.Stations[i%len(s.Testbed.Stations)], s.Testbed.Controller)
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	var spans []span
	everybody := net.HardwareAddr{255, 255, 255, 255, 255, 255}
	for _, to := range []switches.Segment{5, 7, switches.Common, 5, switches.Common, 7, switches.Hosts, switches.Common, 7, 5} {
		s.put(t, "mover", to)
		settled := span{in: to, from: time.Now()}
		s.put(t, "mover", to) // again
		mate := map[switches.Segment]string{5: "a1", 7: "b2"}[to]
		met := func() bool { // both have heard of each other; a port that has just moved may not forward yet
			return mate == "" || mover.hears(func(h heard) bool { return h.at.After(settled.from) }) &&
				s.Testbed.station(mate).hears(func(h heard) bool {
					return h.at.After(settled.from) && h.mark == fmt.Sprintf("mover/%d", int(to))
				})
		}
		for n, end := 0, time.Now().Add(time.Minute); n < 5 || !met() && time.Now().Before(end); n++ {
			text := fmt.Sprintf("%smover/%d.%s", mark, int(to), strings.Repeat(" ", 40))
			mover.send(append(ethernetFrame(everybody, mover.mac, 0x88b5), text...))
			time.Sleep(5 * time.Millisecond)
		}
		settled.to = time.Now()
		spans = append(spans, settled)
	}
	close(stop)
	chatter.Wait()
	time.Sleep(300 * time.Millisecond)
	from := map[string]int{}
	for _, by := range s.Testbed.Stations {
		for _, h := range by.take() {
			who, what, _ := strings.Cut(h.mark, "/")
			switch {
			case by == mover: // what it heard while it was in a segment comes from there
				for _, in := range spans {
					if h.at.After(in.from) && h.at.Before(in.to) {
						from[fmt.Sprint(in.in)]++
						if in.in == switches.Common || home()[who] != in.in {
							t.Errorf("the mover, %s after it came into %s, hears %s", h.at.Sub(in.from), in.in, h.mark)
						}
					}
				}
			case who == "mover":
				from["mover to "+by.name]++
				if what != fmt.Sprint(int(home()[by.name])) || home()[by.name] == switches.Common {
					t.Errorf("%s hears the mover, which is in segment %s", by.name, what)
				}
			case home()[who] != home()[by.name] || home()[who] == switches.Common:
				t.Errorf("%s hears %s", by.name, h.mark)
			}
		}
	}
	for _, least := range []string{"segment 5", "segment 7", "mover to a1", "mover to b2"} {
		if from[least] == 0 {
			t.Errorf("nothing was heard of %s, so nothing is proved: %v", least, from)
		}
	}
}

func portsAndSegmentsComeAndGo(t *testing.T, s Subject) {
	if err := s.Put(t.Context(), switches.Port{Name: "p-missing"}, 5); !errors.Is(err, switches.ErrNoPort) {
		t.Error("a port that is not there:", err)
	}
	first, err := s.Ports(t.Context())
	check(t, err)
	for _, n := range Names() {
		if in, there := first["p-"+n]; !there || in != switches.Nowhere {
			t.Errorf("port p-%s begins in %s (known: %v)", n, in, there)
		}
	}
	s.put(t, "a1", 5)
	for range 2 {
		bridge, err := s.Open(t.Context(), 7)
		if check(t, err); bridge == "" {
			t.Error("a segment's bridge has no name")
		}
	}
	if err := s.Close(t.Context(), 5); !errors.Is(err, switches.ErrInUse) {
		t.Error("a segment with a port was closed:", err)
	}
	s.put(t, "a1", switches.Common)
	for range 2 {
		check(t, s.Close(t.Context(), 5))
	}
	if all, err := s.Opened(t.Context()); err != nil || !slices.Equal(all, []switches.Segment{7}) {
		t.Errorf("%v, %v", all, err)
	}
	check(t, s.Close(t.Context(), 7))
	if all, err := s.Opened(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}
