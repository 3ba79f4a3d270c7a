// Package clienttest is a gateway for tests of what goes through it: it lets in one person, to one place.
package clienttest

import (
	"crypto/ed25519"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"

	"muster/internal/door/gateway/client"
	"muster/internal/identity"
)

// Place is where the gateway lets in.
const Place = "aero/cfd"

// Alice is whom it lets in.
func Alice() client.Who {
	return client.Who{Person: "alice", Token: "t-alice", Owner: "alice's browser",
		Remote: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}}
}

// Gateway lets Alice in to Place.
type Gateway struct {
	Client *client.Client
	Begun  atomic.Int64 // connections, since it was made

	open sync.Map // *ssh.ServerConn
}

// New makes one, which ends with the test. Session is the place's.
func New(t testing.TB, session func(ssh.Channel, <-chan *ssh.Request)) *Gateway {
	t.Helper()
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	alice := Alice()
	config := &ssh.ServerConfig{PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if c, is := key.(*ssh.Certificate); is && authority.IsLoginCA(c.SignatureKey) && c.KeyId == alice.Token &&
			c.ValidPrincipals[0] == alice.Person && meta.User() == Place && meta.RemoteAddr().String() == alice.Remote.String() {
			return nil, nil
		}
		return nil, errors.New("not alice")
	}}
	config.AddHostKey(key)
	g := &Gateway{Client: client.New(authority, slog.New(slog.DiscardHandler))}
	go g.serve(config, session)
	t.Cleanup(func() {
		_ = g.Client.Door.Close()
		g.Cut()
	})
	return g
}

// Cut ends all connections, as the gateway does when somebody may no longer be there.
func (g *Gateway) Cut() {
	g.open.Range(func(conn, _ any) bool {
		_ = conn.(*ssh.ServerConn).Close()
		return true
	})
}

// Connected is how many connections there are.
func (g *Gateway) Connected() (n int) {
	g.open.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}

func (g *Gateway) serve(config *ssh.ServerConfig, session func(ssh.Channel, <-chan *ssh.Request)) {
	for {
		raw, err := g.Client.Door.Accept()
		if err != nil {
			return
		}
		g.Begun.Add(1)
		go func() {
			conn, channels, requests, err := ssh.NewServerConn(raw, config)
			if err != nil {
				return
			}
			g.open.Store(conn, true)
			defer g.open.Delete(conn)
			go ssh.DiscardRequests(requests)
			for opened := range channels {
				if channel, asked, err := opened.Accept(); err == nil {
					go session(channel, asked)
				}
			}
		}()
	}
}
