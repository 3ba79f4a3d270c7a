package metal_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers"
	switches "muster/internal/drivers/switch"
	"muster/internal/inventory"
	"muster/internal/kit/netns"
	"muster/internal/kit/testall"
)

// capture hears what comes out of the switch's ports towards the machines.
type capture struct {
	names map[int]string // of interfaces
	fd    int
	done  chan struct{}

	lock  sync.Mutex
	from  map[string]map[string]int // port → senders' MACs
	marks map[string]map[string]bool
}

const frameMark = "from-another-cluster:"

// listen hears all ports until the test ends.
func (y *testbed) listen(t *testing.T, ports ...string) *capture {
	t.Helper()
	c := &capture{names: map[int]string{}, done: make(chan struct{}), from: map[string]map[string]int{},
		marks: map[string]map[string]bool{}}
	err := netns.Do(y.namespace(), func() (err error) {
		const all = unix.ETH_P_ALL&0xff<<8 | unix.ETH_P_ALL>>8
		for _, p := range ports {
			link, err := net.InterfaceByName(p)
			if err != nil {
				return err
			}
			c.names[link.Index], c.from[p], c.marks[p] = p, map[string]int{}, map[string]bool{}
		}
		if c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		return errors.Join(unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}),
			unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20))
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer close(c.done)
		for ctx.Err() == nil {
			c.hear()
		}
	}()
	t.Cleanup(func() {
		stop()
		<-c.done
		_ = unix.Close(c.fd)
	})
	return c
}

func (c *capture) hear() {
	frame := make([]byte, 1<<16)
	n, from, err := unix.Recvfrom(c.fd, frame, 0)
	link, ok := from.(*unix.SockaddrLinklayer)
	if err != nil || !ok || n < 14 || link.Pkttype != unix.PACKET_OUTGOING {
		return // nothing, or what a machine says
	}
	port, ours := c.names[link.Ifindex]
	if !ours {
		return
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.from[port][net.HardwareAddr(frame[6:12]).String()]++
	if _, text, there := bytes.Cut(frame[:n], []byte(frameMark)); there {
		what, _, _ := bytes.Cut(text, []byte("."))
		c.marks[port][string(what)] = true
	}
}

// strays are the senders that a port heard and must not: machines that are not its own cluster's, by their own MACs or by those
// of another cluster.
func (c *capture) strays(clusters map[string]int, macs map[string]string) []string {
	c.lock.Lock()
	defer c.lock.Unlock()
	var wrong []string
	for port, senders := range c.from {
		for mac, n := range senders {
			sender, machine := macs[mac]
			var segment int
			_, _ = fmt.Sscanf(strings.ReplaceAll(mac[min(len(mac), 6):min(len(mac), 11)], ":", ""), "%x", &segment)
			switch {
			case machine && sender != port && clusters[sender] != clusters[port]:
				wrong = append(wrong, fmt.Sprintf("%s hears %d frames of machine %s", port, n, sender))
			case strings.HasPrefix(mac, "02:4d:") && segment != clusters[port]:
				wrong = append(wrong, fmt.Sprintf("%s hears %d frames of segment %d", port, n, segment))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

func (y *testbed) namespace() string { return y.Data + "-rack/netns" }

// segments is where the switch has the machines' ports, read from the kernel.
func (y *testbed) segments() map[string]switches.Segment {
	y.Helper()
	driver, err := drivers.Switches().Open(inventory.Network{Switch: "bridge", Namespace: y.namespace(), Interface: "br0"})
	if err != nil {
		y.Fatal(err)
	}
	all, err := driver.Ports(context.Background())
	if err != nil {
		y.Fatal(err)
	}
	return all
}

// possess takes a machine's place at its port: what it sends the switch takes for the machine's, and all of it is a tenant's
// root's.
func (y *testbed) possess(port string) *os.File {
	y.Helper()
	var file *os.File
	err := netns.Do(y.namespace(), func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq(port)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		file = os.NewFile(uintptr(fd), port)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	})
	if err != nil {
		y.Fatal("take the place of a machine that has no power:", err)
	}
	return file
}

// TestClustersOfMachinesExchangeNoFrame hears at every port of the rack's switch, from before two clusters are made until after
// they are gone, and in between sends from a machine's port all that root on it could.
func TestClustersOfMachinesExchangeNoFrame(t *testing.T) {
	testall.Only(t)
	y := newTestbed(t, 4, "--power", "ipmi")
	y.Run("machines", "add", "--local", "1", "--wait") // the place of another head
	macs, ports := map[string]string{}, []string{}     // MAC → port
	for i := 1; i <= 4; i++ {
		port := fmt.Sprintf("m%dn0", i)
		ports = append(ports, port)
		macs[y.machine(fmt.Sprintf("rack-%d", i)).MACs[0]] = port
	}
	heard := y.listen(t, ports...)
	y.inspected(4)
	if wrong := heard.strays(map[string]int{"m1n0": -1, "m2n0": -2, "m3n0": -3, "m4n0": -4}, macs); len(wrong) > 0 {
		t.Errorf("while machines are inspected: %q", wrong)
	}
	for _, p := range ports {
		if in := y.segments()[p]; in != switches.Common {
			t.Errorf("a free machine's port %s is in %s", p, in)
		}
	}

	for _, name := range []string{"red", "blue"} {
		y.Run("create", "-f", y.File(name+".yaml", "name: "+name+"\nisolation: metal\nnodes: 2\n"))
	}
	clusters, machineOf := map[string]int{}, map[string]string{} // port → segment, node's cluster/name → machine
	y.Eventually(10*time.Minute, "both clusters are ready", func() bool {
		for _, name := range []string{"red", "blue"} {
			var c cluster
			y.Get(&c, "get", name)
			if c.Phase != "ready" {
				return false
			}
			for _, n := range c.Nodes {
				machineOf[name+"/"+n.Name] = n.Machine
			}
		}
		return true
	})
	where := y.segments()
	t.Logf("nodes on %v, ports in %v", machineOf, where)
	at := func(node string) string { return "m" + strings.TrimPrefix(machineOf[node], "rack-") + "n0" }
	red, blue := []string{at("red/n1"), at("red/n2")}, []string{at("blue/n1"), at("blue/n2")}
	for _, p := range ports {
		clusters[p] = int(where[p])
	}
	if where[red[0]] != where[red[1]] || where[blue[0]] != where[blue[1]] || where[red[0]] == where[blue[0]] ||
		where[red[0]] < 1 || where[blue[0]] < 1 {
		t.Fatal("clusters are not in segments of their own")
	}
	if wrong := heard.strays(clusters, macs); len(wrong) > 0 {
		t.Errorf("while clusters run: %q", wrong)
	}
	for _, name := range []string{"red", "blue"} { // they work, and say something
		if out := y.Run("ssh", name, "--", "srun", "-N2", "hostname"); len(strings.Fields(out)) != 2 {
			t.Errorf("%s: %q", name, out)
		}
	}

	y.Run("rack", "kill", machineOf["red/n1"])
	machine := y.possess(red[0])
	deadline := time.Now().Add(30 * time.Second)
	for !heard.has(red[1], "raw, to everybody") { // until the port has its carrier again
		y.tryEverything(machine, macs, clusters[blue[0]])
		if time.Sleep(200 * time.Millisecond); time.Now().After(deadline) {
			t.Fatal("what the machine sends does not reach its own cluster, so nothing is proved")
		}
	}
	y.tryEverything(machine, macs, clusters[blue[0]])
	time.Sleep(time.Second)
	for _, p := range blue {
		if all := heard.all(p); len(all) > 0 {
			t.Errorf("%s, of another cluster, hears %q", p, all)
		}
	}
	t.Logf("its own cluster heard %q", heard.all(red[1]))
	machine.Close()

	y.Run("delete", "red", "--wait", "--timeout", "5m")
	y.Run("delete", "blue", "--wait", "--timeout", "5m")
	y.allOff(4)
	if wrong := heard.strays(clusters, macs); len(wrong) > 0 {
		t.Errorf("while clusters end: %q", wrong)
	}
	for p, in := range y.segments() {
		if slices.Contains(ports, p) && in != switches.Common {
			t.Errorf("after its release port %s is in %s", p, in)
		}
	}
}

func (c *capture) has(port, mark string) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.marks[port][mark]
}

func (c *capture) all(port string) (marks []string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for m := range c.marks[port] {
		marks = append(marks, m)
	}
	slices.Sort(marks)
	return marks
}

// tryEverything sends towards all machines, and towards the nodes of another segment, whatever might get through.
func (y *testbed) tryEverything(as *os.File, macs map[string]string, segment int) {
	own := net.HardwareAddr{0x52, 0x54, 0, 0, 0, 0x99}
	everybody, group, all6 := net.HardwareAddr{255, 255, 255, 255, 255, 255}, net.HardwareAddr{1, 0, 0x5e, 0, 0, 1},
		net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}
	send := func(what string, to, from net.HardwareAddr, kind uint16, payload ...byte) {
		header := make([]byte, 10) // of virtio-net
		frame := slices.Concat(header, to, from, binary.BigEndian.AppendUint16(nil, kind), payload, []byte(frameMark+what+"."),
			make([]byte, 60))
		_, _ = as.Write(frame) // a port without a carrier takes none
	}
	arp := slices.Concat([]byte{0, 1, 8, 0, 6, 4, 0, 1}, own, []byte{10, 78, 0, 99}, make([]byte, 6), []byte{10, 78, 0, 12})
	discovery := slices.Concat([]byte{0x60, 0, 0, 0, 0, 28, 58, 255, 0xfe, 0x80}, make([]byte, 13), []byte{0x99, 0xff, 2},
		make([]byte, 13), []byte{1, 135, 0, 0, 0}, make([]byte, 20))
	victims := []net.HardwareAddr{{2, 0x4d, byte(segment >> 8), byte(segment), 0, 2},
		{2, 0x4d, byte(segment >> 8), byte(segment), 0, 3}, {2, 0x4d, byte(segment >> 8), byte(segment), 0, 1}}
	for text := range macs {
		mac, err := net.ParseMAC(text)
		if err != nil {
			y.Fatal(err)
		}
		victims = append(victims, mac)
	}
	send("raw, to everybody", everybody, own, 0x88b5)
	send("raw, to a group", group, own, 0x88b5)
	send("ARP", everybody, own, 0x0806, arp...)
	send("IPv6: a neighbour is sought", all6, own, 0x86dd, discovery...)
	for _, vlan := range []byte{0, 1, 2, byte(segment)} {
		send("tagged, to everybody", everybody, own, 0x8100, 0, vlan, 0x88, 0xb5)
		send("tagged twice, to everybody", everybody, own, 0x8100, 0, 1, 0x81, 0, 0, vlan, 0x88, 0xb5)
		send("tagged by a provider, to everybody", everybody, own, 0x88a8, 0, vlan, 0x81, 0, 0, vlan, 0x88, 0xb5)
	}
	for _, victim := range victims {
		send("raw, to "+victim.String(), victim, own, 0x88b5)
		send("as the victim, to everybody", everybody, victim, 0x88b5)
		send("as the controller, to "+victim.String(), victim, net.HardwareAddr{2, 0, 10, 78, 0, 1}, 0x88b5)
	}
}
