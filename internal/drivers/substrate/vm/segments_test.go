package vm

import (
	"bytes"
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/local"
	"muster/internal/kit/netns"
)

// street is two hypervisors on one segment, with the network of each cluster on both.
type street struct {
	segment string    // network namespaces
	hosts   [2]string //
	cables  [2]local.Cables
}

func namespace(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	check(t, netns.New(path, func() error { return nil }))
	t.Cleanup(func() { check(t, unix.Unmount(path, unix.MNT_DETACH)) })
	return path
}

func in(t *testing.T, path string, arguments ...string) {
	t.Helper()
	var out []byte
	if err := netns.Do(path, func() (err error) {
		out, err = exec.Command("ip", arguments...).CombinedOutput()
		return err
	}); err != nil {
		t.Fatalf("ip %v: %v: %s", arguments, err, out)
	}
}

func newStreet(t *testing.T, clusters map[string]int) street {
	t.Helper()
	s := street{segment: namespace(t, "segment")}
	in(t, s.segment, "link", "add", "seg0", "type", "bridge", "mcast_snooping", "0")
	in(t, s.segment, "link", "set", "seg0", "up")
	for i, name := range []string{"h1", "h2"} {
		host := namespace(t, name)
		in(t, host, "link", "add", "muster0", "type", "bridge", "mcast_snooping", "0")
		in(t, s.segment, "link", "add", "p-"+name, "type", "veth", "peer", "name", "nic", "netns", host)
		in(t, s.segment, "link", "set", "p-"+name, "master", "seg0", "up")
		in(t, host, "link", "set", "nic", "master", "muster0", "up")
		in(t, host, "link", "set", "muster0", "up")
		cables, err := local.NewCables(filepath.Join(t.TempDir(), "cables"))
		check(t, err)
		for cluster, segment := range clusters {
			check(t, cables.EnsureShared(t.Context(), cluster,
				substrate.Network{Segment: segment, Away: true,
					Uplinks: []substrate.Uplink{{Namespace: host, Interface: "muster0"}}}))
			t.Cleanup(func() { check(t, cables.RemoveShared(context.Background(), cluster)) })
		}
		s.hosts[i], s.cables[i] = host, cables
	}
	return s
}

// guest is a network namespace whose root may send what he likes, plugged in as a guest's NIC is.
func (s street) guest(t *testing.T, host int, n substrate.Node) (path string) {
	t.Helper()
	from := namespace(t, "from")
	path = namespace(t, "guest")
	in(t, from, "link", "add", substrate.PortName(n.Node), "type", "veth", "peer", "name", "eth0", "address",
		n.MAC.String(), "netns", path)
	in(t, path, "link", "set", "eth0", "mtu", "9000", "up")
	in(t, from, "link", "set", substrate.PortName(n.Node), "mtu", "9000")
	check(t, s.cables[host].PlugPort(t.Context(), n, from))
	t.Cleanup(func() { check(t, s.cables[host].DropPort(context.Background(), n.Cluster, n.Node)) })
	return path
}

func send(t *testing.T, path string, frames []said) {
	t.Helper()
	check(t, netns.Do(path, func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		link, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		for _, f := range frames {
			if err := unix.Sendto(fd, f.frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Index}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestClustersOfGuestsExchangeNoFrame has two clusters with guests on the same two hypervisors, whose switch keeps nothing
// apart. A guest's root sends what he can to his own cluster's guest on the other host, and to the other cluster's on both.
func TestClustersOfGuestsExchangeNoFrame(t *testing.T) {
	needs(t)
	clusters := map[string]int{"c1": 1, "c2": 2}
	s := newStreet(t, clusters)
	seat := func(cluster string, number int) substrate.Node {
		n := node(cluster, number, 1)
		n.MAC = substrate.MAC(clusters[cluster], 256+number)
		return n
	}
	own, neighbour := seat("c1", 1), seat("c1", 2)
	strangers := []substrate.Node{seat("c2", 1), seat("c2", 2)}
	from, beside := s.guest(t, 0, own), s.guest(t, 1, neighbour)
	near, far := s.guest(t, 0, strangers[0]), s.guest(t, 1, strangers[1])
	frameListeners := map[string]*frameListener{"its neighbour": listen(t, beside), "a stranger on its host": listen(t, near),
		"a stranger on the other host": listen(t, far)}

	// The strangers are known to every bridge on the way, as nodes that work are.
	hello, answer := everything(strangers[0], strangers[1], own), everything(strangers[1], strangers[0], own)
	last, met := marked(len(hello)-1), marked(99) // a late one of theirs is to be taken for none of what is sent below
	for _, frames := range [][]said{hello, answer} {
		f := &frames[len(frames)-1].frame
		*f = bytes.Replace(*f, []byte(last), []byte(met), 1)
	}
	meets := func() bool { // a port that has just come up takes nothing yet
		send(t, near, hello[len(hello)-1:])
		send(t, far, answer[len(answer)-1:])
		return frameListeners["a stranger on its host"].has("eth0 in", met) &&
			frameListeners["a stranger on the other host"].has("eth0 in", met)
	}
	eventually(t, "the strangers hear each other", meets)

	for _, stranger := range strangers {
		frames := everything(own, neighbour, stranger)
		eventually(t, "its neighbour hears it", func() bool {
			send(t, from, frames)
			return frameListeners["its neighbour"].has("eth0 in", last)
		})
		time.Sleep(300 * time.Millisecond) // what should not arrive would have come before
		for i, f := range frames {
			for who, e := range frameListeners {
				if got := e.has("eth0 in", marked(i)); got && (who != "its neighbour" || !f.neighbour && !jumbo(f)) {
					t.Errorf("%s: %s hears it", f.what, who)
				}
			}
		}
	}
}

// jumbo frames are as good as others where all on the way take them.
func jumbo(f said) bool { return len(f.frame) > 8000 }
