package switches

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/inventory"
	"muster/internal/netns"
	vswitch "muster/test/ovs"
)

// subject is a switch under test. Its ports are called "p-NAME" for each of names().
type subject struct {
	Switch
	yard *yard // nil: frames are asked for of the fake
	fake *Fake
}

func names() []string { return []string{"a1", "a2", "b1", "b2", "c1", "c2", "mover"} }

// home is where each port is put at first.
func home() map[string]Segment {
	return map[string]Segment{"a1": 5, "a2": 5, "b1": 7, "b2": 7, "c1": Common, "c2": Common, "mover": Hosts}
}

func subjects() map[string]func(*testing.T) subject {
	return map[string]func(*testing.T) subject{
		"fake": func(*testing.T) subject {
			var ports []string
			for _, n := range names() {
				ports = append(ports, "p-"+n)
			}
			f := NewFake(ports...)
			return subject{Switch: f, fake: f}
		},
		"bridge": func(t *testing.T) subject {
			y := newYard(t, names()...)
			return subject{Switch: opened(t, inventory.Network{Switch: inventory.SwitchBridge, Namespace: y.namespace, Interface: commonBridge}), yard: y}
		},
		"ovs": func(t *testing.T) subject {
			y := newYard(t, names()...)
			database, _ := startOVS(t, y)
			return subject{Switch: opened(t, inventory.Network{Switch: inventory.SwitchOVS, SwitchBridge: vswitch.Bridge, SwitchDatabase: database, Namespace: y.namespace, Interface: commonBridge}), yard: y}
		},
	}
}

func opened(t *testing.T, n inventory.Network) Switch {
	t.Helper()
	s, err := New(n)
	check(t, err)
	return s
}

// startOVS runs a real Open vSwitch in the yard's namespace, with all ports on its bridge.
func startOVS(t *testing.T, y *yard) (database, dir string) {
	t.Helper()
	var ports []string
	for _, s := range y.stations {
		ports = append(ports, s.port)
	}
	return vswitch.Start(t, y.namespace, ports...)
}

func (s subject) port(name string) Port {
	p := Port{Name: "p-" + name}
	if s.yard != nil {
		p.MACs = []net.HardwareAddr{s.yard.station(name).mac}
	}
	return p
}

func (y *yard) station(name string) *station {
	for _, s := range y.stations {
		if s.name == name {
			return s
		}
	}
	panic(name)
}

func (s subject) put(t *testing.T, name string, to Segment) {
	t.Helper()
	check(t, s.Put(t.Context(), s.port(name), to))
	now, err := s.Ports(t.Context())
	check(t, err)
	if now["p-"+name] != to {
		t.Fatalf("port p-%s was put into %s and is in %s", name, to, now["p-"+name])
	}
}

// furnish puts every port where it belongs at first.
func (s subject) furnish(t *testing.T) {
	t.Helper()
	for _, n := range names() {
		s.put(t, n, home()[n])
	}
}

func each(t *testing.T, test func(*testing.T, subject)) {
	t.Helper()
	for name, make := range subjects() {
		t.Run(name, func(t *testing.T) { test(t, make(t)) })
	}
}

// crossings are the frames that somebody heard and should not have, and those that should have come and did not.
func (s subject) crossings(t *testing.T, where map[string]Segment) []string {
	t.Helper()
	var wrong []string
	together := func(a, b string) bool { return a != b && where[a] == where[b] && where[a] != Common }
	if s.fake != nil {
		for a := range where {
			for b := range where {
				if got := slices.Contains(s.fake.Hear("p-"+a), "p-"+b); got != together(a, b) {
					wrong = append(wrong, fmt.Sprintf("%s hears %s: %v", b, a, got))
				}
			}
		}
		return wrong
	}
	for _, from := range s.yard.stations {
		for _, victim := range s.yard.stations {
			if victim != from {
				from.say(victim, s.yard.controller)
			}
		}
	}
	said := map[string]map[string]bool{}
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		missing := ""
		for _, by := range append(slices.Clone(s.yard.stations), s.yard.controller) {
			if said[by.name] == nil {
				said[by.name] = map[string]bool{}
			}
			for _, h := range by.take() {
				said[by.name][h.mark] = true
			}
			for _, from := range s.yard.stations {
				if (by == s.yard.controller || together(from.name, by.name)) && !said[by.name][from.name+"/"+broadcast] {
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
	for _, by := range s.yard.stations {
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

func TestNoFramePassesBetweenSegments(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		s.furnish(t)
		if wrong := s.crossings(t, home()); len(wrong) > 0 {
			t.Errorf("%d frames went astray: %q", len(wrong), wrong[:min(len(wrong), 20)])
		}
	})
}

func TestEveryPortReachesTheController(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		if s.yard == nil {
			return // there is no controller in the fake
		}
		s.furnish(t)
		// As the boot services do, it listens on the common bridge alone.
		var listener net.Listener
		check(t, netns.Do(s.yard.namespace, func() (err error) {
			config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
				outer := raw.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), commonBridge) })
				return errors.Join(err, outer)
			}}
			listener, err = config.Listen(t.Context(), "tcp", "10.99.0.1:8069")
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
		for _, from := range s.yard.stations {
			for range 3 { // whoever else answered for its address would be asked the next time
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				connection, err := netns.Dial(ctx, from.namespace, "tcp", "10.99.0.1:8069")
				if err == nil {
					var text []byte
					text, err = io.ReadAll(connection)
					connection.Close()
					if string(text) != "here" {
						t.Errorf("%s hears %q of the controller", from.name, text)
					}
				}
				cancel()
				if err != nil {
					t.Errorf("%s does not reach the controller: %v", from.name, err)
				}
				check(t, netns.Do(from.namespace, func() error { return exec.Command("ip", "neigh", "flush", "all").Run() }))
			}
		}
	})
}

func TestTheControllersAnswersGoToWhomTheyAreFor(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		if s.yard == nil {
			return // the fake knows no MACs
		}
		s.furnish(t)
		s.crossings(t, home()) // everybody has said that he is everybody else
		for _, victim := range s.yard.stations {
			text := []byte(mark + "controller/to " + victim.name + "." + strings.Repeat(" ", 40))
			for range 3 {
				s.yard.controller.send(append(ethernetFrame(victim.mac, s.yard.controller.mac, 0x88b5), text...))
			}
		}
		time.Sleep(300 * time.Millisecond)
		for _, by := range s.yard.stations {
			own := false
			for _, h := range by.take() {
				if h.mark == "controller/to "+by.name {
					own = true
				} else if strings.HasPrefix(h.mark, "controller/") {
					t.Errorf("%s hears %s", by.name, h.mark)
				}
			}
			if !own {
				t.Errorf("%s does not hear what is for it", by.name)
			}
		}
	})
}

// span is when the mover was in a segment: from when the switch said so until it was to leave.
type span struct {
	in       Segment
	from, to time.Time
}

func TestNoFramePassesWhilePortsMove(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		s.furnish(t)
		if s.yard == nil {
			return // nothing happens in the fake while nobody calls it
		}
		stop := make(chan struct{})
		var chatter sync.WaitGroup
		mover := s.yard.station("mover")
		for _, from := range s.yard.stations {
			if from == mover {
				continue
			}
			chatter.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
						from.say(s.yard.stations[i%len(s.yard.stations)], s.yard.controller)
						time.Sleep(5 * time.Millisecond)
					}
				}
			})
		}
		var spans []span
		everybody := net.HardwareAddr{255, 255, 255, 255, 255, 255}
		for _, to := range []Segment{5, 7, Common, 5, Common, 7, Hosts, Common, 7, 5} {
			s.put(t, "mover", to)
			settled := span{in: to, from: time.Now()}
			s.put(t, "mover", to) // again
			for range 5 {
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
		for _, by := range s.yard.stations {
			for _, h := range by.take() {
				who, what, _ := strings.Cut(h.mark, "/")
				switch {
				case by == mover: // what it heard while it was in a segment comes from there
					for _, in := range spans {
						if h.at.After(in.from) && h.at.Before(in.to) {
							from[fmt.Sprint(in.in)]++
							if in.in == Common || home()[who] != in.in {
								t.Errorf("the mover, %s after it came into %s, hears %s", h.at.Sub(in.from), in.in, h.mark)
							}
						}
					}
				case who == "mover":
					from["mover to "+by.name]++
					if what != fmt.Sprint(int(home()[by.name])) || home()[by.name] == Common {
						t.Errorf("%s hears the mover, which is in segment %s", by.name, what)
					}
				case home()[who] != home()[by.name] || home()[who] == Common:
					t.Errorf("%s hears %s", by.name, h.mark)
				}
			}
		}
		for _, least := range []string{"segment 5", "segment 7", "mover to a1", "mover to b2"} {
			if from[least] == 0 {
				t.Errorf("nothing was heard of %s, so nothing is proved: %v", least, from)
			}
		}
	})
}

func TestPortsAndSegmentsComeAndGo(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		if err := s.Put(t.Context(), Port{Name: "p-missing"}, 5); !errors.Is(err, ErrNoPort) {
			t.Error("a port that is not there:", err)
		}
		first, err := s.Ports(t.Context())
		check(t, err)
		for _, n := range names() {
			if in, there := first["p-"+n]; !there || in != Nowhere {
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
		if err := s.Close(t.Context(), 5); !errors.Is(err, ErrInUse) {
			t.Error("a segment with a port was closed:", err)
		}
		s.put(t, "a1", Common)
		for range 2 {
			check(t, s.Close(t.Context(), 5))
		}
		if all, err := s.Opened(t.Context()); err != nil || !slices.Equal(all, []Segment{7}) {
			t.Errorf("%v, %v", all, err)
		}
		check(t, s.Close(t.Context(), 7))
		if all, err := s.Opened(t.Context()); err != nil || len(all) > 0 {
			t.Errorf("%v, %v", all, err)
		}
	})
}

// TestASwitchThatWasStartedAnewIsReminded has Open vSwitch's daemon die and come back: the segments stay, the pins do not.
func TestASwitchThatWasStartedAnewIsReminded(t *testing.T) {
	y := newYard(t, "a1", "c1")
	database, dir := startOVS(t, y)
	s := opened(t, inventory.Network{Switch: inventory.SwitchOVS, SwitchBridge: vswitch.Bridge, SwitchDatabase: database, Namespace: y.namespace, Interface: commonBridge})
	in := subject{Switch: s, yard: y}
	placed := []Placed{{in.port("a1"), 5}, {in.port("c1"), Common}}
	for _, p := range placed {
		check(t, s.Put(t.Context(), p.Port, p.In))
	}
	forgetful := s.(Forgetful)
	forgotten := func(want int) {
		t.Helper()
		if all, err := forgetful.Forgotten(t.Context(), placed); err != nil || len(all) != want {
			t.Fatalf("of %+v is not known where they are, %v", all, err)
		}
	}
	forgotten(0)
	text, err := os.ReadFile(filepath.Join(dir, "ovs-vswitchd.pid"))
	check(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	check(t, err)
	check(t, syscall.Kill(pid, syscall.SIGKILL))
	check(t, unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)) // until then it holds the lock on its pidfile
	c := exec.Command("ovs-vswitchd", database, "--pidfile", "--log-file="+filepath.Join(dir, "ovs.log"), "-vconsole:off")
	c.Env = append(os.Environ(), "OVS_RUNDIR="+dir, "OVS_LOGDIR="+dir, "OVS_DBDIR="+dir)
	check(t, netns.Do(y.namespace, c.Start))
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	})
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := forgetful.Forgotten(t.Context(), placed); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal("ovs-vswitchd does not answer again:", err)
		}
	}
	forgotten(2)
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) { // it answers before it has its ports
		if err := errors.Join(forgetful.Remind(t.Context(), placed[0]), forgetful.Remind(t.Context(), placed[1])); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	forgotten(0)
	ports, err := s.Ports(t.Context())
	if err != nil || ports[placed[0].Name] != 5 || ports[placed[1].Name] != Common {
		t.Errorf("the ports are elsewhere: %v, %v", ports, err)
	}
}

func TestANetworkWithoutASwitchSaysSoAloud(t *testing.T) {
	for _, kind := range []string{"", inventory.SwitchNone} {
		n := inventory.Network{Name: "boot", Interface: "br7", Switch: kind}
		if text := Warning(n); !strings.Contains(text, "NOTHING KEEPS MACHINES OF NETWORK boot APART") {
			t.Errorf("%q", text)
		}
		s := opened(t, n)
		if bridge, err := s.Open(t.Context(), 5); err != nil || bridge != "br7" {
			t.Error(bridge, err)
		}
		check(t, s.Put(t.Context(), Port{Name: "x"}, 5))
		check(t, s.Close(t.Context(), 5))
		if ports, err := s.Ports(t.Context()); err != nil || len(ports) > 0 {
			t.Errorf("it claims to know where ports are: %v, %v", ports, err)
		}
	}
	if text := Warning(inventory.Network{Switch: inventory.SwitchBridge}); text != "" {
		t.Error(text)
	}
	if _, err := New(inventory.Network{Switch: "cisco"}); err == nil || !strings.Contains(err.Error(), "use none, bridge or ovs") {
		t.Error(err)
	}
}
