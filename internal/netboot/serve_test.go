package netboot

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muster/internal/inventory"
	"muster/internal/kit/netns"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestServingEndsAndLeavesNothing(t *testing.T) {
	s := newSegment(t)
	before := goleak.IgnoreCurrent()
	for range 2 { // what has ended can begin again
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- Serve(ctx, Config{
				Network: s.network(inventory.ModeProxy), Controller: newController(), Blobs: newFolder(t), Log: quiet(),
			})
		}()
		eventually(t, 2*time.Minute, "all sockets are open", func() bool {
			return len(strings.Fields(s.run("ss", "-Hlntu"))) > 0 && strings.Contains(s.run("ss", "-Hlnt"), ":8069")
		})
		open := s.run("ss", "-Hlntu")
		for _, socket := range []string{"%br0:67", "%br0:4011", "%br0:69", "%br0:8069"} {
			if !strings.Contains(open, socket) {
				t.Errorf("%s is not open:\n%s", socket, open)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if open := s.run("ss", "-Hlntu"); open != "" {
			t.Errorf("still open:\n%s", open)
		}
	}
	goleak.VerifyNone(t, before)
}

func TestASocketThatCannotBeOpenedIsNamed(t *testing.T) {
	s := newSegment(t)
	c := Config{Network: s.network(inventory.ModeOwn), Controller: newController(), Blobs: newFolder(t), Log: quiet()}
	busy, err := netns.Listen(s.ns, "tcp", "10.78.0.1:8069")
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []struct {
		name string
		make func(Config) Config
		says string
	}{
		{"a port that is in use", func(c Config) Config { return c }, "listen on TCP 10.78.0.1:8069 of br0: "},
		{"no such interface", func(c Config) Config { c.Network.Interface = "eth7"; return c }, "interface eth7: "},
		{"an address that the interface has not", func(c Config) Config {
			c.Network.Address = netip.MustParsePrefix("10.79.0.1/16")
			c.Network.First, c.Network.Last = netip.MustParseAddr("10.79.0.2"), netip.MustParseAddr("10.79.0.3")
			return c
		}, "listen on UDP 10.79.0.1:69 of br0: "},
		{"no such namespace", func(c Config) Config {
			c.Network.Namespace = "/nonexistent"
			return c
		}, "network namespace /nonexistent: "},
		{"a network that makes no sense", func(c Config) Config { c.Network.Mode = "on"; return c }, "mode: "},
	} {
		if err := Serve(t.Context(), wrong.make(c)); err == nil ||
			!strings.Contains(err.Error(), "boot services of network rack: "+wrong.says) {
			t.Errorf("%s: %v", wrong.name, err)
		}
	}
	if open := s.run("ss", "-Hlnu"); open != "" {
		t.Errorf("what was opened first is still open:\n%s", open)
	}
	busy.Close()
}

// The controller hears of an interface that has gone, and may begin again when it is back.
func TestServingEndsWithItsInterface(t *testing.T) {
	s := newSegment(t)
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(t.Context(), Config{
			Network: s.network(inventory.ModeOwn), Controller: newController(), Blobs: newFolder(t), Log: quiet(),
		})
	}()
	eventually(t, 2*time.Minute, "the services are open", func() bool { return strings.Contains(s.run("ss", "-Hlnt"), ":8069") })
	s.run("ip", "link", "del", "br0")
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "network is down") {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it goes on serving an interface that is gone")
	}
}

// mutate changes some bytes, cuts some off, or repeats some.
func mutate(random *rand.Rand, seed []byte) []byte {
	b := append([]byte{}, seed...)
	for range 1 + random.IntN(8) {
		switch at := random.IntN(len(b)); random.IntN(4) {
		case 0:
			b = b[:max(at, 1)]
		case 1:
			b = append(b, b[at:]...)
			b = b[:min(len(b), 1400)]
		default:
			b[at] = byte(random.Uint32())
		}
	}
	return b
}

// Ten thousand mutated packets and requests stop nothing, and leave no memory in use; a sound client is served meanwhile
// and afterwards.
func TestAStormOfPacketsStopsNothing(t *testing.T) {
	const each = 3400
	s := newSegment(t)
	controller, blobs := newController(bootMAC, clientMAC), newFolder(t)
	controller.boot = BootConfig{Kernel: blobs.add(t, make([]byte, 1<<20)), Token: "one-time"}
	start(t, Config{Network: s.network(inventory.ModeOwn), Controller: controller, Blobs: blobs, Init: make([]byte, 1<<20),
		Firmware: []string{"/usr/lib/ipxe"}, Log: quiet()})
	ns := s.host(clientMAC)
	output(t, in(ns, "ip", "addr", "add", "10.78.1.1/16", "dev", "eth0"))
	lease := func() {
		output(t, in(ns, program(t, "busybox"), "udhcpc", "-f", "-n", "-q", "-t", "10", "-T", "1", "-s", "/bin/true", "-i",
			"eth0"))
	}
	script := func() {
		if text := output(t, in(ns, program(t, "curl"), "-sSf", "http://10.78.0.1:8069"+scriptPath+"?mac="+
			clientMAC)); !strings.Contains(text, "muster.token=one-time") {
			t.Errorf("the script is %q", text)
		}
	}
	lease()
	script()

	before := heap()
	random := rand.New(rand.NewPCG(1, 2))
	dhcp, http := dhcpSeeds(t), httpSeeds()
	tftp := [][]byte{rrq("snponly.efi"), rrq("ipxe.efi", "blksize", "1428", "tsize", "0", "windowsize", "16"),
		{0, 2, 'a', 0, 'b', 0}, {0, 4, 0, 1}}
	begin := time.Now()
	storm(t, ns, "10.78.0.1:67", each, func() []byte { return mutate(random, dhcp[random.IntN(len(dhcp))]) })
	storm(t, ns, "10.78.0.1:69", each, func() []byte { return mutate(random, tftp[random.IntN(len(tftp))]) })
	lease() // the controller is open in the middle of it
	requests(t, ns, each, func() []byte { return mutate(random, []byte(http[random.IntN(len(http))])) })
	t.Logf("%d packets and requests in %s", 3*each, time.Since(begin).Round(time.Millisecond))
	lease()
	script()

	eventually(t, 2*time.Minute, "the transfers that nobody acknowledged have ended", func() bool {
		return strings.Count(s.run("ss", "-Hnu"), "\n") == 0
	})
	controller.mu.Lock()
	controller.seen, controller.proofs, controller.enrolled = nil, nil, nil
	controller.mu.Unlock()
	if after := heap(); after > before+8<<20 {
		t.Errorf("the heap has grown from %d to %d bytes", before, after)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// storm sends n packets to a UDP port.
func storm(t *testing.T, ns, to string, n int, next func() []byte) {
	t.Helper()
	conn, err := netns.Dial(t.Context(), ns, "udp4", to)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range n {
		_, _ = conn.Write(next()) // the kernel may refuse one because of an answer to the last
	}
}

// requests sends n requests by HTTP, each over a connection of its own, and reads what comes back for a moment.
func requests(t *testing.T, ns string, n int, next func() []byte) {
	t.Helper()
	answered := 0
	for range n {
		conn, err := netns.Dial(t.Context(), ns, "tcp4", "10.78.0.1:8069")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(next())
		_ = conn.(*net.TCPConn).CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if got, _ := io.ReadAll(io.LimitReader(conn, 1000)); strings.HasPrefix(string(got), "HTTP/1.") {
			answered++
		}
		conn.Close()
	}
	if answered < n/2 {
		t.Errorf("only %d of %d requests were answered", answered, n)
	}
}

func TestNobodyKeepsTheOthersOut(t *testing.T) {
	s := newSegment(t)
	s.serve(inventory.ModeOff, newController(), newFolder(t), nil)
	greedy, modest := s.host(clientMAC), s.host("52:54:00:00:01:02")
	output(t, in(greedy, "ip", "addr", "add", "10.78.1.1/16", "dev", "eth0"))
	output(t, in(modest, "ip", "addr", "add", "10.78.1.2/16", "dev", "eth0"))
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	output(t, in(greedy, "ip", "addr", "add", "10.78.1.3/16", "dev", "eth0"))
	for i := range doorEach + 20 { // of two addresses, which are one machine's
		here := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(10, 78, 1, byte(1+2*(i%2)))}}
		var conn net.Conn
		err := netns.Do(greedy, func() (err error) {
			conn, err = here.DialContext(t.Context(), "tcp4", "10.78.0.1:8069")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	_, _ = io.WriteString(held[doorEach+10], "GET / HTTP/1.1\r\nHost: x\r\n\r\n") // who is let in has an answer
	_ = held[doorEach+10].SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := held[doorEach+10].Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("one machine has more than %d connections: %v", doorEach, err)
	}
	output(t, in(modest, program(t, "curl"), "-sSf", "-m", "60", "-o", "/dev/null", "http://10.78.0.1:8069"+scriptPath))
}
