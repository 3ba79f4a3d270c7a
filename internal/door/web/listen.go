package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"muster/internal/kit/limit"
	"muster/internal/kit/pipes"
)

// helloWithin is how long a client may take to say hello.
const helloWithin = 10 * time.Second

// Run serves on a listener until ctx ends: HTTPS, and to those who speak HTTP there, where HTTPS is.
func (d *Door) Run(ctx context.Context, l *limit.Limiter) error {
	group, ctx := errgroup.WithContext(ctx)
	secure, plain := split(ctx, l)
	https, http := l.Server(ctx, d), l.Server(ctx, http.HandlerFunc(d.redirect))
	https.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: d.Certificate}
	context.AfterFunc(ctx, func() { _, _, _ = l.Close(), https.Close(), http.Close() })
	group.Go(func() error { return ended(https.ServeTLS(secure, "", "")) })
	group.Go(func() error { return ended(http.Serve(plain)) })
	group.Go(func() error { d.watch(ctx); return nil })
	return group.Wait()
}

func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// redirect sends those who speak HTTP to HTTPS, without having answered anything.
func (d *Door) redirect(w http.ResponseWriter, r *http.Request) {
	asked, ours := d.Place.parse(r.Host)
	switch {
	case !ours:
		misdirected(d.Place).write(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		refusal{status: http.StatusForbidden, title: "Apps are reached by HTTPS only",
			hint: "Send it to " + d.Place.origin(asked.host) + "."}.write(w, r)
	default:
		w.Header().Set("Connection", "close")
		// The slash is ours: a target like x:@evil.example would go on with the host's name.
		to := d.Place.origin(asked.host) + "/" + strings.TrimPrefix(r.URL.EscapedPath(), "/")
		if r.URL.RawQuery != "" {
			to += "?" + r.URL.RawQuery
		}
		http.Redirect(w, r, to, http.StatusPermanentRedirect)
	}
}

// split tells by their first byte connections that begin TLS from those that do not.
func split(ctx context.Context, l net.Listener) (secure, plain net.Listener) {
	tlsConns, others := make(chan net.Conn), make(chan net.Conn)
	failed := make(chan error, 2)
	go func() {
		for {
			c, err := l.Accept()
			var temporary interface{ Temporary() bool }
			if err != nil && ctx.Err() == nil && errors.As(err, &temporary) && temporary.Temporary() {
				time.Sleep(50 * time.Millisecond) // out of file descriptors, most likely
				continue
			}
			if err != nil {
				failed <- err
				failed <- err
				return
			}
			go sort(ctx, c, tlsConns, others)
		}
	}()
	return arrivals{l, tlsConns, failed}, arrivals{l, others, failed}
}

// sort hands a connection to who is to serve it.
func sort(ctx context.Context, c net.Conn, secure, plain chan<- net.Conn) {
	const handshake = 0x16
	var first [1]byte
	_ = c.SetReadDeadline(time.Now().Add(helloWithin))
	if _, err := c.Read(first[:]); err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	to := plain
	if first[0] == handshake {
		to = secure
	}
	select {
	case to <- &pipes.Begun{Conn: c, First: first[:]}:
	case <-ctx.Done():
		_ = c.Close()
	}
}

// arrivals is a listener for one kind of connections.
type arrivals struct {
	net.Listener
	conns  <-chan net.Conn
	failed <-chan error
}

func (a arrivals) Accept() (net.Conn, error) {
	select {
	case c := <-a.conns:
		return c, nil
	case err := <-a.failed:
		return nil, err
	}
}

// Vouches is an authority for web servers.
type Vouches interface {
	// Certify makes a certificate for a host name, good from now on. It is called at each handshake.
	Certify(host string, now time.Time) (*tls.Certificate, error)
}

// Own is the certificates of a door that has an authority of its own, made for the name that is asked for.
func Own(p Place, authority Vouches) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		host := strings.ToLower(hello.ServerName)
		if _, ours := p.parse(host); !ours && host != p.Domain {
			return nil, fmt.Errorf("%q is no name of this door", hello.ServerName)
		}
		return authority.Certify(host, time.Now())
	}
}

// Files is a certificate with its key in files, read again when they have changed.
func Files(certificate, key string, log *slog.Logger) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	var mu sync.Mutex
	var loaded tls.Certificate
	var at time.Time
	load := func() error {
		info, err := os.Stat(certificate)
		if err != nil || info.ModTime().Equal(at) {
			return err
		}
		fresh, err := tls.LoadX509KeyPair(certificate, key)
		if err == nil {
			loaded, at = fresh, info.ModTime()
		}
		return err
	}
	if err := load(); err != nil {
		return nil, fmt.Errorf("read the certificate for web apps: %w", err)
	}
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if err := load(); err != nil { // perhaps they are being replaced: the old one will do
			log.Warn("cannot read the certificate for web apps again", "error", err)
		}
		now := loaded
		return &now, nil
	}, nil
}
