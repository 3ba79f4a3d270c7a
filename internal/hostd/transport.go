package hostd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"muster/internal/kit/clock"
	"muster/internal/kit/limit"
	"muster/internal/kit/pipes"
	"muster/internal/protocol"
)

// A guest's memory goes from host to host as TLS 1.3 (RFC 8446) between their agents. Each shows the certificate of its boot,
// and accepts that of one boot of one machine, which the controller has named. The move itself is the application protocol that
// they agree on (ALPN, RFC 7301), so a connection belongs to one move before its first byte.

// Keys are this host's part of the ways to others.
type Keys struct {
	Certificate func() *tls.Certificate // of this boot, as it is now
	Roots       *x509.CertPool          // who gives them
}

const (
	greetWithin    = 15 * time.Second // for a connection and both certificates
	protocolPrefix = "muster-move/"

	mostWires = 128 // connections at once; of one address 16 that have not shown their certificate yet
)

// protocolOf names the way of a move.
func protocolOf(node string, number int64) string {
	return protocolPrefix + node + "/" + strconv.FormatInt(number, 10)
}

// peer is one boot of another host.
type peer struct {
	machine string
	boot    int64
}

// check says whether a connection is with a peer.
func (k Keys) check(of peer) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the other host shows no certificate")
		}
		leaf := s.PeerCertificates[0]
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: k.Roots,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			return fmt.Errorf("the certificate of the other host: %w", err)
		}
		if who := leaf.Subject; who.CommonName != of.machine || who.SerialNumber != strconv.FormatInt(of.boot, 10) {
			return fmt.Errorf("the other host is %s, boot %s, and not %s, boot %d", who.CommonName, who.SerialNumber, of.machine,
				of.boot)
		}
		return nil
	}
}

// config is for either side. The names in these certificates are machines', and both sides are clients to the controller: so
// each looks at the other's certificate itself.
func (k Keys) config(way string, of peer) (*tls.Config, error) {
	var own *tls.Certificate
	if k.Certificate != nil {
		own = k.Certificate()
	}
	if own == nil {
		return nil, errors.New("this host has no certificate now")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*own}, NextProtos: []string{way},
		SessionTicketsDisabled: true,
		ClientAuth:             tls.RequireAnyClientCert, InsecureSkipVerify: true, VerifyConnection: k.check(of),
	}, nil
}

// dial opens the way of a move to the host that awaits it.
func (k Keys) dial(ctx context.Context, address, way string, to peer) (net.Conn, error) {
	config, err := k.config(way, to)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, greetWithin)
	defer cancel()
	var plain net.Dialer
	wire, err := plain.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	secret := tls.Client(wire, config)
	if err := secret.HandshakeContext(ctx); err != nil {
		wire.Close()
		return nil, fmt.Errorf("meet the other host at %s: %w", address, err)
	}
	return secret, nil
}

// receiver lets other hosts' guests in. It is open while some are awaited. Its methods may be called at the same time.
type receiver struct {
	keys   Keys
	inside func(context.Context) (net.Conn, error) // to what makes guests here
	say    func(format string, args ...any)

	mu       sync.Mutex
	ways     map[string]awaited
	listener net.Listener // nil: it is shut
	stop     func()       // ends what comes in by it and was not let in yet
	lines    limit.Lines  // about those that are not let in
	work     sync.WaitGroup
}

// awaited is one way that is let in.
type awaited struct {
	from peer
	ctx  context.Context // ends when it is not awaited any more
	end  context.CancelFunc
}

// open lets one more way in and says where. It listens once, however many ways there are, and however often one is opened.
func (g *receiver) open(ctx context.Context, at netip.AddrPort, way string, from peer) (address string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener == nil {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", at.String())
		if err != nil {
			return "", fmt.Errorf("let guests of other hosts come: %w", err)
		}
		gate := limit.NewGroup(mostWires, nil).Limiter(listener, limit.Limits{Total: mostWires, Each: mostWires / 8})
		within, stop := context.WithCancel(context.WithoutCancel(ctx))
		g.listener, g.stop = gate, stop
		g.work.Go(func() { g.accept(within, gate) })
	}
	if known, is := g.ways[way]; !is || known.from != from {
		if is {
			known.end()
		}
		if g.ways == nil {
			g.ways = map[string]awaited{}
		}
		within, end := context.WithCancel(context.WithoutCancel(ctx))
		g.ways[way] = awaited{from, within, end}
	}
	return g.listener.Addr().String(), nil
}

// keep shuts all ways but these, with what goes through them, and the gate after the last.
func (g *receiver) keep(ways []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, way := range g.ways {
		if !slices.Contains(ways, name) {
			way.end()
			delete(g.ways, name)
		}
	}
	if len(g.ways) == 0 && g.listener != nil {
		_ = g.listener.Close()
		g.stop()
		g.listener = nil
	}
}

// shut is keep of none, and returns when nothing goes through any more.
func (g *receiver) shut() {
	g.keep(nil)
	g.work.Wait()
}

func (g *receiver) accept(ctx context.Context, listener net.Listener) {
	for {
		wire, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // as where there are no descriptors left
			_ = clock.Sleep(ctx, time.Second)
			continue
		}
		g.work.Go(func() {
			defer wire.Close()
			if err := g.admit(ctx, wire); err != nil {
				if yes, omitted := g.lines.Say(wire.RemoteAddr().String(), time.Now()); yes {
					g.say("a guest from %s: %v (%d lines left out before)", wire.RemoteAddr(), err, omitted)
				}
			}
		})
	}
}

// admit carries one connection, if it is of a way that is awaited.
func (g *receiver) admit(ctx context.Context, wire net.Conn) error {
	var way awaited
	secret := tls.Server(wire, &tls.Config{MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			for _, name := range hello.SupportedProtos {
				if w, is := g.ways[name]; is {
					way = w
					return g.keys.config(name, w.from)
				}
			}
			return nil, errors.New("it is not awaited")
		}})
	greet, cancel := context.WithTimeout(ctx, greetWithin)
	defer cancel()
	if err := secret.HandshakeContext(greet); err != nil {
		return err
	}
	if counted, ok := wire.(interface{ Known() }); ok {
		counted.Known()
	}
	near, err := g.inside(way.ctx)
	if err != nil {
		return err
	}
	_ = pipes.Join(way.ctx, secret, near) // that it has ended is all there is to know; who sends says why
	return nil
}

// addressOf is an interface's first address that others reach.
func addressOf(name string) (netip.AddrPort, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("where guests of other hosts can come: %w", err)
	}
	all, err := link.Addrs()
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("where guests of other hosts can come: %w", err)
	}
	for _, one := range all {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil && prefix.Addr().IsGlobalUnicast() {
			return netip.AddrPortFrom(prefix.Addr(), protocol.MovePort), nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("where guests of other hosts can come: %s has no address", name)
}
