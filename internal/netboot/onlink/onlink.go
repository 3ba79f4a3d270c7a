// Package onlink identifies the other end of a connection on a network of machines: not by what the caller claims, but by
// the frame that opened the connection, and by the kernel's table of neighbours.
//
// What enters: connections on one interface. What leaves: a Caller for each, and permanent entries in the table of
// neighbours, which no ARP packet changes. This package decides nothing: its callers know which MAC is whose.
package onlink

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"muster/internal/kit/netns"
)

// ErrUnknownMachine says that a caller is not who it says it is.
var ErrUnknownMachine = errors.New("this is for another machine")

// Link is one interface of a network namespace. It may be used from many goroutines.
type Link struct {
	namespace, card string
	index           int
	socket          *nl.SocketHandle

	mu     sync.Mutex
	pinned map[netip.Addr]pin // what this process has written
}

type pin struct {
	mac [6]byte
	at  time.Time
}

// Open opens the interface card in the namespace at path; "" is the host's own. The Link holds a socket until Close.
func Open(path, card string) (*Link, error) {
	l := &Link{namespace: path, card: card, pinned: map[netip.Addr]pin{}}
	err := netns.Do(path, func() error {
		found, err := net.InterfaceByName(card)
		if err != nil {
			return fmt.Errorf("interface %s: %w", card, err)
		}
		l.index = found.Index
		socket, err := nl.Subscribe(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open a netlink socket: %w", err)
		}
		l.socket = &nl.SocketHandle{Socket: socket}
		return nil
	})
	return l, err
}

// Close ends the Link. The neighbours that it wrote stay.
func (l *Link) Close() { l.socket.Socket.Close() }

// tcpSaveSYN asks for the frame that began a connection with its Ethernet header: 2 for TCP_SAVE_SYN, from Linux 5.10 on.
const tcpSaveSYN = 2

// Listen listens for TCP on an address of the interface, "HOST:PORT", and hears no caller that comes in elsewhere. What it
// accepts is *Conn.
func (l *Link) Listen(address string) (net.Listener, error) {
	config := netns.BoundTo(l.card, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_SAVE_SYN, tcpSaveSYN)
	})
	var plain net.Listener
	err := netns.Do(l.namespace, func() (err error) {
		plain, err = config.Listen(context.Background(), "tcp4", address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on TCP %s of %s: %w", address, l.card, err)
	}
	return listener{plain, l}, nil
}

type listener struct {
	net.Listener
	link *Link
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	plain := conn.(*net.TCPConn)
	return &Conn{plain, Caller{Address: addressOf(plain), Sender: senderOf(plain), Neighbours: l.link}}, nil
}

// Conn is a connection with who is at its other end.
type Conn struct {
	*net.TCPConn
	Caller Caller
}

func addressOf(conn *net.TCPConn) netip.Addr {
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// senderOf reads the sender of the frame that began a connection; nil if the kernel has not kept it, as under a flood that it
// answers with cookies. It can be read once.
func senderOf(conn *net.TCPConn) net.HardwareAddr {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil
	}
	frame := make([]byte, 128) // longer ones are cut off
	length := uint32(len(frame))
	var failed syscall.Errno
	outer := raw.Control(func(fd uintptr) {
		_, _, failed = unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.IPPROTO_TCP, unix.TCP_SAVED_SYN,
			uintptr(unsafe.Pointer(&frame[0])), uintptr(unsafe.Pointer(&length)), 0)
	})
	if outer != nil || failed != 0 {
		return nil
	}
	return senderIn(frame[:min(int(length), len(frame))])
}

// senderIn is the sender of an Ethernet frame with IPv4 in it; nil if it is none.
func senderIn(frame []byte) net.HardwareAddr {
	const header = 14
	if len(frame) < header+20 || binary.BigEndian.Uint16(frame[12:]) != unix.ETH_P_IP || frame[header]>>4 != 4 {
		return nil
	}
	return net.HardwareAddr(slices.Clone(frame[6:12]))
}

// Caller is who is at the other end of a connection.
type Caller struct {
	Address netip.Addr
	Sender  net.HardwareAddr // of the frame that began the connection; nil: not known
	// Neighbours is the link's table. Nil, as in tests without a link: Sender alone counts.
	Neighbours Neighbours
}

// Neighbours is the kernel's table of who has which address on a link.
type Neighbours interface {
	// Look is who the kernel sends to for an address, and whether that is certain, or hangs on ARP; nil: it does not know.
	Look(address netip.Addr) (mac net.HardwareAddr, pinned bool, err error)
	// Pin makes it certain.
	Pin(address netip.Addr, mac net.HardwareAddr) error
}

type callerKey struct{}

// With says who a request is from.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// WithCaller is for http.Server.ConnContext: a connection of a Link's, also below TLS, gives its Caller to the requests on it.
func WithCaller(ctx context.Context, conn net.Conn) context.Context {
	for {
		switch c := conn.(type) {
		case *Conn:
			return With(ctx, c.Caller)
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return ctx
		}
	}
}

// CallerIn is who a request is from. The zero Caller, which no machine is, if it did not come over a Link.
func CallerIn(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// Is returns nil if the caller is one of these MACs: the frame that began the connection comes from there, and what is sent
// to the caller's address goes there. Where the kernel has not kept that frame, the address must be pinned: then no other machine
// can have gone on with the connection. An ErrUnknownMachine says who it is instead.
func (c Caller) Is(macs []string) error {
	var neighbour net.HardwareAddr
	pinned := false
	if c.Neighbours != nil {
		var err error
		if neighbour, pinned, err = c.Neighbours.Look(c.Address); err != nil {
			return err
		}
	}
	switch {
	case c.Sender == nil && (!pinned || neighbour == nil):
		return fmt.Errorf("%w: nothing tells the MAC of %s", ErrUnknownMachine, c.Address)
	case c.Sender != nil && !slices.Contains(macs, c.Sender.String()):
		return fmt.Errorf("%w: the frames of %s come from %s", ErrUnknownMachine, c.Address, c.Sender)
	case neighbour != nil && !slices.Contains(macs, neighbour.String()):
		return fmt.Errorf("%w: what is sent to %s goes to %s", ErrUnknownMachine, c.Address, neighbour)
	}
	return nil
}

// Hold has everything that is sent to the caller's address go to mac, and nowhere else, whatever ARP says.
func (c Caller) Hold(mac net.HardwareAddr) error {
	if c.Neighbours == nil {
		return nil
	}
	return c.Neighbours.Pin(c.Address, mac)
}
