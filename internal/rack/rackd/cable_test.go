package rackd

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/kit/netns"
	"muster/internal/rack"
)

// bench is a rack's network with a cable and, at its end, a network namespace instead of a machine.
type bench struct {
	rack, machine string // namespaces
	cable         *cable
}

func newBench(t *testing.T) bench {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: network namespaces need root")
	}
	switching, machine := rack.Folder(t.TempDir()), rack.Folder(t.TempDir())
	b := bench{rack: switching.Netns(), machine: machine.Netns()}
	b.cable = &cable{namespace: b.rack, port: "m1n0"}
	t.Cleanup(func() {
		b.cable.repair()
		for _, side := range []rack.Folder{machine, switching} {
			if err := side.RemoveNetwork(); err != nil {
				t.Error(err)
			}
		}
	})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(makeNetwork(switching.Network("rack"), nil))
	check(netns.New(b.machine, func() error {
		return netns.Links("", func(links *netlink.Handle) error {
			far, err := os.Open(b.rack)
			if err != nil {
				return err
			}
			defer far.Close()
			attributes := netlink.NewLinkAttrs()
			attributes.Name = "eth0"
			nic := &netlink.Veth{LinkAttrs: attributes, PeerName: b.cable.port, PeerNamespace: netlink.NsFd(far.Fd())}
			address := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 78, 0, 11), Mask: net.CIDRMask(16, 32)}}
			if err := links.LinkAdd(nic); err != nil {
				return err
			}
			return errors.Join(links.AddrAdd(nic, address), links.LinkSetUp(nic))
		})
	}))
	check(netns.Do(b.rack, func() error {
		return netns.Links("", func(links *netlink.Handle) error { return plug(links, b.cable.port, "", usualQueue) })
	}))
	listeners, err := tap(b.rack, listenersPort, "", usualQueue)
	check(err)
	t.Cleanup(func() { listeners.Close() })
	check(netns.AwaitCarrier(t.Context(), b.machine, "eth0"))
	check(netns.AwaitCarrier(t.Context(), b.rack, b.cable.port))
	check(netns.AwaitCarrier(t.Context(), b.rack, rack.Bridge))
	return b
}

// serve answers HTTP on the rack's bridge.
func (b bench) serve(t *testing.T, content []byte) {
	t.Helper()
	listener, err := netns.Listen(b.rack, "tcp", "10.78.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })}
	go s.Serve(listener)
	t.Cleanup(func() { s.Close() })
}

// fetch is what the machine gets, by a connection of its own, and the time that it took.
func (b bench) fetch(t *testing.T) ([]byte, time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return netns.Dial(ctx, b.machine, network, address)
		}}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://10.78.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return text, time.Since(begin)
}

func (b bench) spoil(t *testing.T, s spoil) {
	t.Helper()
	if err := b.cable.spoil(s); err != nil {
		t.Fatal(err)
	}
}

func differences(a, b []byte) (at []int) {
	for i := range a {
		if a[i] != b[i] {
			at = append(at, i)
		}
	}
	return at
}

func TestACorruptCableFlipsOneByteAndNobodyBelowHTTPNotices(t *testing.T) {
	b := newBench(t)
	content := make([]byte, 3<<20)
	_, _ = rand.Read(content)
	b.serve(t, content)
	if got, _ := b.fetch(t); !bytes.Equal(got, content) {
		t.Fatal("a good cable is not good")
	}
	for range 2 { // every connection is hit
		b.spoil(t, spoil{corrupt: 2 << 20})
		got, _ := b.fetch(t)
		at := differences(content, got)
		if len(got) != len(content) || len(at) != 1 || at[0] > 2<<20 || at[0] < 2<<20-1024 || got[at[0]] != ^content[at[0]] {
			t.Errorf("%d bytes of %d, other at %v", len(got), len(content), at)
		}
	}
	b.spoil(t, spoil{corrupt: 4 << 20})
	if got, _ := b.fetch(t); !bytes.Equal(got, content) {
		t.Error("an answer that ends before was hit")
	}
	b.spoil(t, spoil{})
	if got, _ := b.fetch(t); !bytes.Equal(got, content) {
		t.Error("the cable was healed, and is not good")
	}
}

func TestASlowCableIsAsSlowAsItSays(t *testing.T) {
	b := newBench(t)
	content := make([]byte, 32<<10)
	b.serve(t, content)
	b.spoil(t, spoil{slow: true})
	got, slow := b.fetch(t)
	if least := time.Duration(len(content)) * time.Second / slowRate; !bytes.Equal(got, content) || slow < least*8/10 {
		t.Errorf("%d bytes took %v, and at that rate should take %v", len(got), slow, least)
	}
	b.spoil(t, spoil{})
	for end := time.Now().Add(time.Minute); ; {
		_, healed := b.fetch(t)
		if healed <= slow/2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d bytes took %v on a slow cable, and when it was healed %v", len(content), slow, healed)
		}
	}
}

func TestOnACableThatLosesDHCPAllElseArrives(t *testing.T) {
	b := newBench(t)
	listeners := map[int]net.PacketConn{}
	for _, port := range []int{67, 4011, 5000} {
		err := netns.Do(b.rack, func() (err error) {
			listeners[port], err = net.ListenUDP("udp4", &net.UDPAddr{Port: port})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer listeners[port].Close()
	}
	heard := func(port int, word string, within time.Duration) bool {
		t.Helper()
		conn, err := netns.Dial(t.Context(), b.machine, "udp4", (&net.UDPAddr{IP: net.IPv4(10, 78, 0, 1), Port: port}).String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for end := time.Now().Add(within); time.Now().Before(end); {
			if _, err := conn.Write([]byte(word)); err != nil {
				t.Fatal(err)
			}
			if err := listeners[port].SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			for text := make([]byte, 10); ; {
				n, _, err := listeners[port].ReadFrom(text)
				if err != nil {
					break
				}
				if string(text[:n]) == word { // another is a late one from before
					return true
				}
			}
		}
		return false
	}
	for i, lost := range []bool{false, true, false} {
		b.spoil(t, spoil{noDHCP: lost})
		for port, dhcp := range map[int]bool{67: true, 4011: true, 5000: false} {
			want, within := !(dhcp && lost), time.Minute
			if !want {
				within = 300 * time.Millisecond
			}
			if got := heard(port, fmt.Sprint("hello ", i), within); got != want {
				t.Errorf("DHCP lost: %v; a packet to port %d arrived: %v", lost, port, got)
			}
		}
	}
}

// sum is the TCP checksum's sum over a segment with its pseudo header: ffff if the checksum fits (RFC 9293, section 3.1).
func sum(addresses, tcp []byte) uint16 {
	text := append(bytes.Clone(addresses), 0, unix.IPPROTO_TCP, byte(len(tcp)>>8), byte(len(tcp)))
	text = append(text, tcp...)
	if len(text)%2 == 1 {
		text = append(text, 0)
	}
	var s uint32
	for i := 0; i < len(text); i += 2 {
		s += uint32(binary.BigEndian.Uint16(text[i:]))
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// frame is an Ethernet frame with a TCP segment from a web server.
func frame(sequence uint32, flags byte, payload []byte) []byte {
	tcp := make([]byte, 20, 20+len(payload))
	binary.BigEndian.PutUint16(tcp, 80)
	binary.BigEndian.PutUint16(tcp[2:], 40000)
	binary.BigEndian.PutUint32(tcp[4:], sequence)
	tcp[12], tcp[13] = 5<<4, flags
	tcp = append(tcp, payload...)
	ip := make([]byte, 20)
	ip[0], ip[9] = 0x45, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(tcp)))
	copy(ip[12:], []byte{10, 78, 0, 1, 10, 78, 0, 11})
	binary.BigEndian.PutUint16(tcp[16:], ^sum(ip[12:20], tcp))
	ethernet := make([]byte, 14)
	binary.BigEndian.PutUint16(ethernet[12:], unix.ETH_P_IP)
	return append(append(ethernet, ip...), tcp...)
}

func FuzzAFlippedSegmentKeepsItsChecksum(f *testing.F) {
	f.Add(uint32(7), uint16(0), []byte("HTTP/1.1 200 OK"))
	f.Add(uint32(0xfffffffe), uint16(3), []byte("HTTP/1.0 206"))
	f.Fuzz(func(t *testing.T, first uint32, at uint16, payload []byte) {
		payload = append([]byte("HTTP/1.1"), payload[:min(len(payload), 1400)]...)
		flows := &flows{at: int64(at)}
		flows.flip(frame(first-1, 0x12, nil))
		before := frame(first, 0x10, payload)
		after := bytes.Clone(before)
		flows.flip(after)
		if addresses, tcp, ok := segment(after, unix.IPPROTO_TCP); !ok || sum(addresses, tcp) != 0xffff {
			t.Fatalf("the checksum does not fit: %x", after)
		}
		const headers = 14 + 20 + 20
		changed := differences(before[headers:], after[headers:])
		if inside := int(at) < len(payload); inside && (len(changed) != 1 || changed[0] != int(at)) || !inside &&
			len(changed) > 0 {
			t.Fatalf("at %d of %d: changed %v", at, len(payload), changed)
		}
	})
}

func FuzzFramesOfAnyKindAreLookedAt(f *testing.F) {
	f.Add(frame(1, 0x02, nil))
	f.Add(frame(1, 0x10, []byte("HTTP/1.1 200 OK")))
	f.Add([]byte{})
	f.Fuzz(func(_ *testing.T, text []byte) {
		isDHCP(text)
		flows := &flows{at: 1, open: map[[12]byte]*answers{}}
		flows.flip(text)
		flows.flip(text)
	})
}
