package netboot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/mdlayher/packet"
	"golang.org/x/sync/errgroup"

	"muster/internal/core/telemetry"
	"muster/internal/inventory"
	"muster/internal/kit/clock"
	"muster/internal/kit/limit"
	"muster/internal/kit/netns"
	"muster/internal/kit/wrap"
	"muster/internal/netboot/onlink"
	"muster/internal/protocol"
)

// httpPort is where the boot services speak HTTP.
const httpPort = 8069

// Config says what to serve, and where.
type Config struct {
	Network    inventory.Network
	Controller Controller
	Blobs      Blobs
	Init       []byte   // our part of the initramfs, a cpio archive; the image's drivers follow it
	Firmware   []string // folders with iPXE's files: an operator's own first
	Log        *slog.Logger
	Link       *onlink.Link // of the network's interface; nil: Serve opens one of its own

	Telemetry *telemetry.Telemetry // nil: nothing is counted
}

const (
	houseWait = 5 * time.Second  // for an answer of the Controller; a machine asks again anyway
	noteQueue = 1024             // steps that wait to be told to the Controller; more are dropped
	pinsEvery = 10 * time.Second // it is looked whether the pins are what the Controller knows
)

// server is the boot services of one network. Nothing in it changes after open.
type server struct {
	Config
	firmware firmware
	notes    chan protocol.BootProgress
	said     limit.Lines // of strangers

	dhcp, pxe, tftp *net.UDPConn // dhcp and pxe only where the mode has them
	dhcpIn, pxeIn   *frames      // what dhcp and pxe would hear
	ownLink         bool
	http            net.Listener
	ndp             *packet.Conn
	hardware        net.HardwareAddr // of the interface
	mtu             int
}

// Serve answers the machines of one network until ctx ends, or with an error as soon as a socket cannot be opened or its
// interface is gone. It may be called again at any time: nothing is kept.
func Serve(ctx context.Context, c Config) error {
	s, err := open(c)
	if err != nil {
		return fmt.Errorf("boot services of network %s: %w", c.Network.Name, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, s.close)
	run := func(what string, serve func(context.Context) error) {
		group.Go(func() error {
			// A socket that was closed because ctx has ended is no error.
			if err := serve(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("boot services of network %s: %s: %w", c.Network.Name, what, err)
			}
			return nil
		})
	}
	if s.dhcp != nil {
		run("DHCP", func(ctx context.Context) error { return s.serveDHCP(ctx, s.dhcp, s.dhcpIn, s.answerer()) })
	}
	if s.pxe != nil {
		run("PXE", func(ctx context.Context) error { return s.serveDHCP(ctx, s.pxe, s.pxeIn, s.proxyBoot) })
	}
	run("TFTP", s.serveTFTP)
	run("HTTP", s.serveHTTP)
	run("router advertisements", s.serveNDP)
	run("notes", s.takeNotes)
	run("neighbours", s.keepPins)
	return group.Wait()
}

// open opens every socket in the network's namespace, bound to its interface.
func open(c Config) (*server, error) {
	if err := c.Network.Validate(); err != nil {
		return nil, err
	}
	s := &server{Config: c, firmware: c.Firmware, notes: make(chan protocol.BootProgress, noteQueue),
		said: saidOfStrangers()}
	if s.Link == nil {
		link, err := onlink.Open(c.Network.Namespace, c.Network.Interface)
		if err != nil {
			return nil, err
		}
		s.Link, s.ownLink = link, true
	}
	if err := netns.Do(c.Network.Namespace, s.openHere); err != nil {
		s.close()
		return nil, err
	}
	for _, name := range s.firmware.missing() {
		c.Log.Warn("a boot file is missing: machines that need it will not boot", "network", c.Network.Name, "file", name,
			"folders", c.Firmware)
	}
	return s, nil
}

// openHere opens the sockets in the namespace of the current thread.
func (s *server) openHere() (err error) {
	card, err := net.InterfaceByName(s.Network.Interface)
	if err != nil {
		return fmt.Errorf("interface %s: %w", s.Network.Interface, err)
	}
	s.hardware, s.mtu = card.HardwareAddr, card.MTU
	anywhere := netip.IPv4Unspecified() // broadcasts are not addressed to us
	if s.Network.Mode != inventory.ModeOff {
		if s.dhcp, s.dhcpIn, err = s.listenDHCP(card, anywhere, 67); err != nil {
			return err
		}
	}
	if s.Network.Mode == inventory.ModeProxy {
		if s.pxe, s.pxeIn, err = s.listenDHCP(card, s.address(), 4011); err != nil {
			return err
		}
	}
	if s.tftp, err = s.listenUDP(s.address(), 69); err != nil {
		return err
	}
	if s.http, err = s.Link.Listen(netip.AddrPortFrom(s.address(), httpPort).String()); err != nil {
		return err
	}
	if s.ndp, err = listenNDP(card); err != nil {
		return fmt.Errorf("open a packet socket on %s: %w", card.Name, err)
	}
	return nil
}

func (s *server) address() netip.Addr { return s.Network.Address.Addr() }

// base is the URL that all paths begin with.
func (s *server) base() string {
	return "http://" + netip.AddrPortFrom(s.address(), httpPort).String()
}

// listenUDP binds a socket to the interface: what comes in elsewhere is not for this network, and broadcasts leave here without
// a route.
func (s *server) listenUDP(address netip.Addr, port uint16) (*net.UDPConn, error) {
	at := netip.AddrPortFrom(address, port).String()
	conn, err := netns.BoundTo(s.Network.Interface, nil).ListenPacket(context.Background(), "udp4", at)
	if err != nil {
		return nil, fmt.Errorf("listen on UDP %s of %s: %w", at, s.Network.Interface, err)
	}
	return conn.(*net.UDPConn), nil
}

// listenDHCP keeps a port, and hears what comes to it as frames.
func (s *server) listenDHCP(card *net.Interface, address netip.Addr, port uint16) (*net.UDPConn, *frames, error) {
	conn, err := s.listenUDP(address, port)
	if err != nil {
		return nil, nil, err
	}
	if err := deaf(conn); err != nil {
		return conn, nil, fmt.Errorf("set the filter of UDP port %d of %s: %w", port, card.Name, err)
	}
	in, err := listenFrames(card, port)
	return conn, in, wrap.Errorf(err, "open a packet socket on %s", card.Name)
}

// close closes every socket that is open.
func (s *server) close() {
	for _, conn := range []*net.UDPConn{s.dhcp, s.pxe, s.tftp} {
		if conn != nil {
			_ = conn.Close()
		}
	}
	for _, in := range []*frames{s.dhcpIn, s.pxeIn} {
		if in != nil {
			in.close()
		}
	}
	if s.http != nil {
		_ = s.http.Close()
	}
	if s.ndp != nil {
		_ = s.ndp.Close()
	}
}

// keepPins has the kernel know who has the addresses of enrolled machines, also after this host was restarted, and
// forget it of machines that have left.
func (s *server) keepPins(ctx context.Context) error {
	for {
		limited, cancel := context.WithTimeout(ctx, houseWait)
		held, err := s.Controller.Held(limited, s.Network.Name)
		cancel()
		wanted := make(map[netip.Addr]net.HardwareAddr, len(held))
		for _, l := range held {
			if s.Network.Address.Contains(l.Address) && l.Address != s.address() {
				wanted[l.Address] = l.MAC
			}
		}
		if err == nil {
			err = s.Link.Keep(wanted)
		}
		if err != nil && ctx.Err() == nil {
			s.trouble("cannot keep who has which address", err)
		}
		if clock.Sleep(ctx, pinsEvery) != nil {
			return nil
		}
	}
}

// saidOfStrangers is how many lines somebody who is not trusted causes, and all such together: anybody may have any MAC.
func saidOfStrangers() limit.Lines { return limit.Lines{Window: 10 * time.Second, Each: 1, All: 20} }

// tell logs the packets of somebody who is not trusted, not more than once in a while for each.
func (s *server) tell(who, what string, more ...any) {
	if say, omitted := s.said.Say(who+what, time.Now()); say {
		s.Log.Warn(what, append(more, "network", s.Network.Name, "omitted", omitted)...)
	}
}

// note tells the Controller, a little later, that a machine has reached a step. It never waits: these steps are not proved, and a
// machine must not boot slower because of them.
func (s *server) note(mac net.HardwareAddr, step protocol.BootStep, detail string) {
	select {
	case s.notes <- protocol.BootProgress{MAC: mac.String(), Step: step, Detail: detail}:
	default:
		s.Log.Debug("too many machines boot at once to note this step", "mac", mac.String(), "step", step)
	}
}

// takeNotes passes the notes on.
func (s *server) takeNotes(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-s.notes:
			limited, cancel := context.WithTimeout(ctx, houseWait)
			err := s.Controller.Seen(limited, s.Network.Name, p, "")
			cancel()
			if err != nil && !errors.Is(err, ErrUnknown) {
				s.trouble("cannot note a boot's step", err, "mac", p.MAC, "step", p.Step)
			}
		}
	}
}

// trouble logs what the Controller could not do, unless it was told to stop.
func (s *server) trouble(what string, err error, more ...any) {
	if !errors.Is(err, context.Canceled) {
		s.Log.Error(what, append(more, "network", s.Network.Name, "error", err)...)
	}
}
