package uplink_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/drivers/switch/uplink"
	"muster/internal/kit/netns"
)

// A machine that sends in ever new names does not fill its host's memory with what bridges learn.
func TestABridgeLearnsABoundedNumberOfAddresses(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: networks need root")
	}
	run := func(command string) {
		t.Helper()
		words := strings.Fields(command)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	const name = "muster-learning"
	run("ip netns add " + name)
	t.Cleanup(func() { run("ip netns del " + name) })
	run("ip -n " + name + " link add common type bridge")
	run("ip -n " + name + " link add machine type veth peer name port")
	run("ip -n " + name + " link set machine up")
	l := uplink.Uplink{Namespace: "/run/netns/" + name, Common: "common"}
	err := l.Do(func(links *netlink.Handle) error {
		bridge, err := l.Open(links, 5)
		if err != nil {
			return err
		}
		port, err := links.LinkByName("port")
		if err != nil {
			return err
		}
		return uplink.Plug(links, port, bridge, false)
	})
	if err != nil {
		t.Fatal(err)
	}
	learned := 0
	err = netns.Do(l.Namespace, func() error {
		machine, err := netlink.LinkByName("machine")
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		frame := make([]byte, 60)
		copy(frame, []byte{255, 255, 255, 255, 255, 255, 2})
		binary.BigEndian.PutUint16(frame[12:], 0x88b5)
		to := &unix.SockaddrLinklayer{Ifindex: machine.Attrs().Index}
		// A piece is sent until it is learned: a port that has just been plugged in forwards nothing for a moment, and of frames
		// that come faster than they are looked at, a host keeps a thousand (net.core.netdev_max_backlog).
		const piece, enough = 500, 16_000
		end := time.Now().Add(time.Minute)
		for sent := 0; sent < 20_000; {
			for i := range piece {
				binary.BigEndian.PutUint32(frame[8:], uint32(sent+i))
				if err := unix.Sendto(fd, frame, 0, to); err != nil && err != unix.ENOBUFS {
					return err
				}
			}
			all, err := netlink.NeighList(0, unix.AF_BRIDGE)
			if err != nil {
				return err
			}
			if learned = len(all); learned >= min(sent+piece, enough) {
				sent += piece
				continue
			}
			if time.Now().After(end) {
				return fmt.Errorf("%d addresses are learned of %d: the frames have not come", learned, sent+piece)
			}
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if learned > 17000 {
		if major, minor := kernel(t); major < 6 || major == 6 && minor < 8 {
			t.Skipf("skipped: Linux %d.%d does not bound what a bridge learns", major, minor)
		}
		t.Errorf("bridges have learned %d addresses", learned)
	}
}

func kernel(t *testing.T) (major, minor int) {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	return major, minor
}
