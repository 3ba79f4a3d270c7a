package rackd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/netns"
)

// spoil is what is wrong with a cable; the zero value is a good one.
type spoil struct {
	noDHCP    bool
	unplugged bool
	slow      bool
	corrupt   int64 // > 0: of each HTTP answer's connection, the bytes at multiples of this offset are flipped
}

// slowRate is what a slow cable carries each way, in bytes a second: 256 kbit/s.
const slowRate = 256_000 / 8

// cable joins a machine's tap with the bridge. A good one is the kernel's business alone: the tap is a port of the bridge.
// On a bad one the port is disabled, and every frame goes through this process: between a packet socket on the tap and a
// second tap, which is the port instead. Addresses stay what they are, so neither end can tell but by the damage.
type cable struct {
	namespace string
	port      string // name of the machine's tap

	lock sync.Mutex
	bad  *badCable
	gone bool // the machine has lost its power
}

// badCable is a cable through this process.
type badCable struct {
	spoil   spoil
	machine *os.File // packet socket on the machine's tap
	bridge  *os.File // the tap that is the port of the bridge
	ended   sync.WaitGroup
}

// spoil makes the cable as bad as that.
func (c *cable) spoil(s spoil) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.gone || c.bad == nil && s == (spoil{}) || c.bad != nil && c.bad.spoil == s {
		return nil
	}
	c.takeOut()
	if s == (spoil{}) {
		return setPort(c.namespace, c.port, portForwarding)
	}
	machine, err := listenOn(c.namespace, c.port)
	if err != nil {
		return err
	}
	queue := usualQueue
	if s.slow {
		queue = 32 // a second's worth
	}
	bridge, err := tap(c.namespace, c.port+"x", c.port, queue)
	if err != nil {
		machine.Close()
		return err
	}
	if err := setPort(c.namespace, c.port, portDisabled); err != nil {
		machine.Close()
		bridge.Close()
		return err
	}
	c.bad = &badCable{spoil: s, machine: machine, bridge: bridge}
	c.bad.ended.Add(2)
	go c.bad.carry(bridge, machine, &flows{at: s.corrupt})
	go c.bad.carry(machine, bridge, nil)
	return nil
}

// repair ends what the cable needs of this process; no process has the machine's tap open any more.
func (c *cable) repair() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.gone = true
	c.takeOut()
}

func (c *cable) takeOut() {
	if c.bad == nil {
		return
	}
	c.bad.machine.Close()
	c.bad.bridge.Close()
	c.bad.ended.Wait()
	c.bad = nil
}

// headerSize is that of struct virtio_net_hdr, which precedes every frame on both sides (VirtIO 1.1, section 5.1.6).
const headerSize = 10

// carry takes frames from one side to the other until either is closed. Those that the other side has no room for are
// lost, as on any cable.
func (b *badCable) carry(from, to *os.File, towards *flows) {
	defer b.ended.Done()
	buffer := make([]byte, headerSize+65536+64)
	free := time.Now() // when a slow cable has carried what came so far
	for {
		n, err := from.Read(buffer)
		if errors.Is(err, os.ErrClosed) || errors.Is(err, io.EOF) {
			return
		}
		if err != nil { // the interface is down, or gone, which means that this cable will be closed
			time.Sleep(time.Millisecond)
			continue
		}
		if n <= headerSize || b.spoil.unplugged {
			continue
		}
		packet := buffer[:n]
		if b.spoil.noDHCP && isDHCP(packet[headerSize:]) {
			continue
		}
		if b.spoil.slow {
			if now := time.Now(); now.After(free) {
				free = now
			}
			free = free.Add(time.Duration(n-headerSize) * time.Second / slowRate)
			time.Sleep(time.Until(free))
		}
		if towards != nil && b.spoil.corrupt > 0 {
			towards.flip(packet[headerSize:])
		}
		_, _ = to.Write(packet)
	}
}

// listenOn hears every frame that comes out of an interface, and sends into it.
func listenOn(namespace, name string) (*os.File, error) {
	var file *os.File
	err := netns.Do(namespace, func() error {
		link, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}) // in the network's order
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1), // our own
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}))
		if err != nil {
			unix.Close(fd)
			return err
		}
		file = os.NewFile(uintptr(fd), "packets of "+name)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", name, err)
	}
	return file, nil
}

// segment is the transport layer of an IPv4 packet in an Ethernet frame. ok is false for others, and for fragments.
func segment(frame []byte, protocol byte) (addresses, transport []byte, ok bool) {
	const ethernet, least = 14, 20
	if len(frame) < ethernet+least || binary.BigEndian.Uint16(frame[12:]) != unix.ETH_P_IP {
		return nil, nil, false
	}
	ip := frame[ethernet:]
	header, total := int(ip[0]&0xf)*4, int(binary.BigEndian.Uint16(ip[2:]))
	fragment := binary.BigEndian.Uint16(ip[6:])&0x3fff != 0 // more to come, or not the first
	if ip[0]>>4 != 4 || header < least || total < header || total > len(ip) || ip[9] != protocol || fragment {
		return nil, nil, false
	}
	return ip[12:20], ip[header:total], true
}

// isDHCP says whether a frame is from or for a DHCP server: RFC 2131, and port 4011 of PXE 2.1's boot servers.
func isDHCP(frame []byte) bool {
	_, udp, ok := segment(frame, unix.IPPROTO_UDP)
	if !ok || len(udp) < 8 {
		return false
	}
	ports := []uint16{67, 68, 4011}
	return slices.Contains(ports, binary.BigEndian.Uint16(udp)) || slices.Contains(ports, binary.BigEndian.Uint16(udp[2:]))
}

// flows are the connections whose answers a machine is getting.
type flows struct {
	at   int64                 // every at-th byte of a connection is flipped: a second try on it fares no better
	open map[[12]byte]*answers // by addresses and ports
}

type answers struct {
	first uint32 // sequence number of the first byte
	http  bool   // the first bytes say so
}

// mostFlows bounds the memory; a machine that boots has a few.
const mostFlows = 4096

// flip changes one byte of a TCP segment towards the machine, if that byte is in it, and makes the checksum fit, so that
// nothing below the application can tell. A byte sent again is flipped again (RFC 9293).
func (f *flows) flip(frame []byte) {
	addresses, tcp, ok := segment(frame, unix.IPPROTO_TCP)
	if !ok || len(tcp) < 20 {
		return
	}
	header := int(tcp[12]>>4) * 4
	if header < 20 || header > len(tcp) {
		return
	}
	key := [12]byte(slices.Concat(addresses, tcp[:4]))
	sequence, payload := binary.BigEndian.Uint32(tcp[4:]), tcp[header:]
	const syn = 0x02
	if tcp[13]&syn != 0 {
		if f.open == nil || len(f.open) >= mostFlows {
			f.open = map[[12]byte]*answers{}
		}
		f.open[key] = &answers{first: sequence + 1}
		return
	}
	flow := f.open[key]
	if flow == nil || len(payload) == 0 {
		return
	}
	offset := int64(sequence - flow.first) // sequence numbers wrap at 4 GiB, and so does this
	if offset == 0 {
		flow.http = len(payload) > 7 && string(payload[:7]) == "HTTP/1."
	}
	strike := f.at
	if f.at > 0 {
		strike = max(f.at, (offset+f.at-1)/f.at*f.at) // the next multiple
	}
	if at := strike - offset; flow.http && at >= 0 && at < int64(len(payload)) {
		change(tcp, header+int(at))
	}
}

// change flips the bits of one byte and updates the checksum for it (RFC 1624, equation 3).
func change(tcp []byte, at int) {
	word := at &^ 1
	read := func() uint16 {
		if word+1 == len(tcp) {
			return uint16(tcp[word]) << 8 // padded for the sum
		}
		return binary.BigEndian.Uint16(tcp[word:])
	}
	before := read()
	tcp[at] = ^tcp[at]
	sum := uint32(^binary.BigEndian.Uint16(tcp[16:])) + uint32(^before) + uint32(read())
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(tcp[16:], ^uint16(sum))
}
