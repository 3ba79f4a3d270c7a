// Package gateway is the SSH gateway: one address at which people log in to every cluster that they may enter.
//
// What enters: SSH connections of people, whose registered keys or login certificates say who they are and whose user
// names say where to. What leaves: connections to sshd of that place, inside its own network, with a certificate signed
// for minutes; rows of sessions and entries of the audit log. The person's own keys stay with them: nothing is forwarded
// to the gateway, nothing is kept there.
package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"

	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/identity"
	"muster/internal/kit/clock"
	"muster/internal/kit/limit"
)

// Limits keep one from taking what others need.
type Limits struct {
	PreAuth   int           // connections that have not said who they are
	Handshake time.Duration // how long they may take to
	PerPerson int           // connections of one person
	Channels  int           // sessions and forwarded connections of one connection,
	Each, All int           // of one person, and of all people
	Sessions  int           // that one person may begin at once; further ones one each second
	KeepAlive time.Duration // between two questions whether the peer is there
	Look      time.Duration // between two looks at who may still be here
	Recorded  Recorded
	Backlog   Backlog
}

// UsualLimits are those of a gateway unless others are set.
func UsualLimits() Limits {
	return Limits{PreAuth: 256, Handshake: 20 * time.Second, PerPerson: 100, Channels: 100, Each: 500, All: 5000, Sessions: 3000,
		KeepAlive: 30 * time.Second, Look: time.Second,
		Recorded: Recorded{Terminal: 256 << 20, Person: 1 << 30, Project: 4 << 30, All: 16 << 30},
		Backlog:  Backlog{Person: 32, Crowded: 8, All: 128}}
}

// Gateway lets people in. Fill the fields, then Serve.
type Gateway struct {
	Name      string   // of this controller
	Hosts     []string // the names by which people reach it, for its host certificate
	DB        *core.Store
	Authority *identity.Authority
	Sources   []Source
	// Resume brings a paused cluster back for a person. A *Refusal says why it cannot.
	Resume     func(ctx context.Context, cluster, person string) error
	Recordings string // directory of what terminals showed, where a project keeps that
	Reserve    int64  // bytes of their disk that recordings leave free; 0: the usual
	Log        *slog.Logger
	Telemetry  *telemetry.Telemetry // nil: nothing is counted
	Limits     Limits

	keys         hostKeys
	preauthLimit preauthLimit
	visitors     visitors
	archive      archive
	backlog      backlog
	sessions     limit.Pace
	channels     limit.Share
	lines        limit.Lines // of the log, that people and places cause
}

// Serve lets people in, from wherever they come, until ctx ends; then it ends their sessions. It begins once it can read its
// keys.
func (g *Gateway) Serve(ctx context.Context, listeners ...net.Listener) error {
	for err := g.loadKeys(ctx); err != nil; err = g.loadKeys(ctx) {
		if ctx.Err() == nil {
			g.Log.ErrorContext(ctx, "the gateway lets nobody in: it cannot load its keys", "error", err)
		}
		if clock.Sleep(ctx, housekeepEvery) != nil {
			break // each listener is closed below
		}
	}
	g.preauthLimit.limit, g.visitors.limit = g.Limits.PreAuth, g.Limits.PerPerson
	g.archive.dir, g.archive.limits, g.archive.reserve = g.Recordings, g.Limits.Recorded, g.Reserve
	g.sessions = limit.Pace{Kind: "sessions", Burst: g.Limits.Sessions, Every: time.Second}
	g.channels = limit.Share{Kind: "sessions and forwarded connections", Each: g.Limits.Each, Total: g.Limits.All,
		Hint: "close some"}
	g.lines = limit.LinesOfUnknown()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { g.watch(ctx); return nil })
	group.Go(func() error { g.housekeep(ctx); return nil })
	for _, l := range listeners {
		group.Go(func() error {
			<-ctx.Done()
			return l.Close()
		})
		group.Go(func() error { return g.accept(ctx, l) })
	}
	return group.Wait()
}

// accept welcomes all who come in by a listener, until ctx ends.
func (g *Gateway) accept(ctx context.Context, l net.Listener) error {
	var open sync.WaitGroup
	defer open.Wait() // each ends with ctx
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("listen for SSH: %w", err)
		case err != nil: // too many files: what is open goes on, and some of it will end
			g.Log.WarnContext(ctx, "cannot let anybody in", "error", err)
			time.Sleep(50 * time.Millisecond)
			continue
		}
		leave := g.preauthLimit.enter(conn) // in the order in which they come
		open.Go(func() { g.welcome(ctx, conn, leave) })
	}
}

// welcome carries one connection from its first byte to its last; leave tells that it has said who it is.
func (g *Gateway) welcome(ctx context.Context, conn net.Conn, leave func()) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	server, channels, requests, err := g.handshake(ctx, conn, leave)
	leave()
	if err != nil {
		g.Telemetry.Handshake(outcomeOf(err))
		g.Log.DebugContext(ctx, "nobody came in", "remote", conn.RemoteAddr().String(), "error", err)
		return
	}
	g.Telemetry.Handshake("let in")
	v := newVisit(g, server)
	if v.refusal = g.visitors.enter(v); v.refusal == nil {
		defer g.visitors.leave(v)
	} else { // it stays until it has heard why, and not where there is no room
		if counted, ok := conn.(interface{ Waits() }); ok {
			counted.Waits()
		}
		told := time.AfterFunc(g.Limits.Handshake, func() { _ = server.Close() })
		defer told.Stop()
	}
	v.carry(ctx, channels, requests)
}

// handshake finds out who it is, within the time that there is for it. Before they are told that they are in, they have
// said who it is: a crowd that comes in the next moment puts out no person who was let in.
func (g *Gateway) handshake(ctx context.Context, conn net.Conn, leave func()) (*ssh.ServerConn, <-chan ssh.NewChannel,
	<-chan *ssh.Request, error) {
	line, begun := hello(conn)
	if err := conn.SetDeadline(time.Now().Add(g.Limits.Handshake)); err != nil {
		return nil, nil, nil, err
	}
	config := g.serverConfig(ctx)
	speak(&config.Config, line)
	config.AuthLogCallback = func(_ ssh.ConnMetadata, _ string, err error) {
		if err == nil {
			leave()
			if counted, ok := conn.(interface{ Known() }); ok {
				counted.Known()
			}
		}
	}
	server, channels, requests, err := ssh.NewServerConn(begun, config)
	if err != nil {
		return nil, nil, nil, err
	}
	return server, channels, requests, conn.SetDeadline(time.Time{})
}

// outcomeOf is the word for the metrics of a handshake that failed.
func outcomeOf(err error) string {
	var refused *ssh.ServerAuthError
	var slow net.Error
	switch {
	case errors.As(err, &refused):
		return "no key"
	case errors.As(err, &slow) && slow.Timeout():
		return "too slow"
	case errors.Is(err, net.ErrClosed):
		return "made room"
	}
	return "broken"
}

// newID is a random name, as all of Muster's are: a letter for the kind, then hexadecimal digits.
func newID(kind string) string {
	var random [8]byte
	_, _ = rand.Read(random[:])
	return kind + hex.EncodeToString(random[:])
}
