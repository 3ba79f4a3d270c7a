// Package limit keeps one caller from using up what others need: connections, time to read and write, concurrent requests,
// tries, and lines of the log.
//
// A connection is one of three: it waits (before or between requests), it serves a stranger (not authenticated), or it
// serves somebody known. Where there is no room for a new one, the one goes that has waited longest, then the oldest of a
// stranger: so many idle connections lock no client out. Those of known callers stay; shares bound how many they have.
package limit

import (
	"container/list"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of one door.
type Limits struct {
	Door string // its name in metrics
	// Total is how many connections there may be at once; Each is how many of one address that do not serve anybody known,
	// 0 for as many as there is room for. A /64 of IPv6 is one address; those of this host may be a proxy's, and are not counted.
	Total, Each int
	Header      time.Duration // to the end of the TLS handshake, and then of a request's headers
	Idle        time.Duration // between two requests
	Body        time.Duration // for a whole request's body; 0: as long as something comes
	Stall       time.Duration // in which a part of a body must come, or a part of an answer be taken
	Plain       bool          // HTTP without TLS: who finds no room is told so
}

// Meter counts connections and refusals.
type Meter interface {
	// Connections is told of each that begins, by 1, and of each that ends, by -1.
	Connections(door string, change int)
	// Refused is told of a connection or request that a limit has kept out.
	Refused(door, limit string)
}

// Group is doors that have so many connections together.
type Group struct {
	Meter Meter // nil: nothing is counted

	mu  sync.Mutex
	all scope
}

// NewGroup bounds its doors together by total connections.
func NewGroup(total int, m Meter) *Group { return &Group{Meter: m, all: scope{most: total}} }

// Limiter is a listener with limits.
type Limiter struct {
	net.Listener
	// Context adds to the context of a connection's requests, as http.Server.ConnContext does; nil: nothing.
	Context func(context.Context, net.Conn) context.Context

	limits Limits
	group  *Group
	all    scope             // the door's
	of     map[string]*scope // by address
	last   chan struct{}     // room for connections that are told why they go
}

// partings is how many connections are told at a time that there is no room.
const partings = 32

// Limiter makes a door of a listener.
func (g *Group) Limiter(l net.Listener, limits Limits) *Limiter {
	return &Limiter{Listener: l, limits: limits, group: g, all: scope{most: limits.Total}, of: map[string]*scope{},
		last: make(chan struct{}, partings)}
}

// class is what a connection does.
type class int

const (
	waits class = iota
	stranger
	known
	gone
)

// scope is the connections that are counted together.
type scope struct {
	most   int
	open   int          // of all classes
	places [2]list.List // of *conn, by class waits and stranger, the oldest first
}

func (s *scope) strangers() int { return s.places[waits].Len() + s.places[stranger].Len() }

// oldest is the connection that would go first; nil if all serve somebody known.
func (s *scope) oldest() *conn {
	for i := range s.places {
		if first := s.places[i].Front(); first != nil {
			return first.Value.(*conn)
		}
	}
	return nil
}

// conn is a connection that has been let in. It keeps its place until it is closed, no matter what has taken it over.
type conn struct {
	net.Conn
	limiter *Limiter
	who     string // "": not counted by address
	scopes  []*scope
	class   class
	places  [3]*list.Element // in the scopes
}

// Accept returns the next connection that there is room for.
func (g *Limiter) Accept() (net.Conn, error) {
	for {
		plain, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: plain, limiter: g}
		if who := AddressOf(plain.RemoteAddr().String()); !who.Here {
			c.who = who.Key
		}
		if g.enter(c) {
			return c, nil
		}
		g.part(plain)
	}
}

// enter finds room for a connection, if need be by closing others.
func (g *Limiter) enter(c *conn) bool {
	g.group.mu.Lock()
	var put []*conn
	room := true
	makeRoom := func(s *scope, limit string) {
		old := s.oldest()
		g.refused(limit)
		if room = old != nil; room {
			old.leave()
			put = append(put, old)
		}
	}
	c.scopes = []*scope{&g.all, &g.group.all}
	if c.who != "" && g.limits.Each > 0 {
		own := g.of[c.who]
		if own == nil {
			own = &scope{}
		}
		if own.strangers() >= g.limits.Each {
			makeRoom(own, "address")
		}
		c.scopes = append(c.scopes, own)
	}
	if room && g.all.open >= g.all.most {
		makeRoom(&g.all, "door")
	}
	if room && g.group.all.open >= g.group.all.most {
		makeRoom(&g.group.all, "doors")
	}
	if room {
		if len(c.scopes) == len(c.places) {
			g.of[c.who] = c.scopes[len(c.places)-1]
		}
		for i, s := range c.scopes {
			s.open++
			c.places[i] = s.places[waits].PushBack(c)
		}
		if g.group.Meter != nil {
			g.group.Meter.Connections(g.limits.Door, 1)
		}
	}
	g.group.mu.Unlock()
	for _, old := range put {
		g.limits.forget(old.Conn)
		_ = old.Conn.Close()
	}
	return room
}

func (g *Limiter) refused(limit string) {
	if g.group.Meter != nil {
		g.group.Meter.Refused(g.limits.Door, limit)
	}
}

// NetConn is the connection that was let in.
func (c *conn) NetConn() net.Conn { return c.Conn }

// leave gives a connection's place up. The group must be locked. It may be done again.
func (c *conn) leave() {
	if c.class == gone {
		return
	}
	c.become(gone)
	for _, s := range c.scopes {
		s.open--
	}
	if own := c.limiter.of[c.who]; own != nil && own.open == 0 {
		delete(c.limiter.of, c.who)
	}
	if m := c.limiter.group.Meter; m != nil {
		m.Connections(c.limiter.limits.Door, -1)
	}
}

// become changes what a connection does. The group must be locked.
func (c *conn) become(now class) {
	if c.class == gone {
		return
	}
	for i, s := range c.scopes {
		if c.places[i] != nil {
			s.places[c.class].Remove(c.places[i])
			c.places[i] = nil
		}
		if now == waits || now == stranger {
			c.places[i] = s.places[now].PushBack(c)
		}
	}
	c.class = now
}

func (c *conn) turn(now class) {
	c.limiter.group.mu.Lock()
	defer c.limiter.group.mu.Unlock()
	c.become(now)
}

// Close ends the connection and gives its place up.
func (c *conn) Close() error {
	c.limiter.group.mu.Lock()
	c.leave()
	c.limiter.group.mu.Unlock()
	c.limiter.limits.forget(c.Conn)
	return c.Conn.Close()
}

// forget has the kernel give up, once a connection is closed, what its peer does not take for the time in which a part of an
// answer must be taken. Else it keeps that for minutes, and counts it for no process (tcp(7), TCP_USER_TIMEOUT).
func (l Limits) forget(c net.Conn) {
	tcp, is := c.(syscall.Conn)
	if !is || l.Stall == 0 {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { // fails where it is no TCP
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(l.Stall.Milliseconds()))
		})
	}
}

// CloseWrite ends one direction, as TCP and unix sockets can.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// ReadFrom lets the kernel carry what it can.
func (c *conn) ReadFrom(from io.Reader) (int64, error) {
	if to, ok := c.Conn.(io.ReaderFrom); ok {
		return to.ReadFrom(from)
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, from)
}

// connOf is the connection of ours below those that TLS and others have put around it.
func connOf(c net.Conn) *conn {
	for c != nil {
		if ours, ok := c.(*conn); ok {
			return ours
		}
		around, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = around.NetConn()
	}
	return nil
}

// changed is told by the server what becomes of a connection.
func changed(c net.Conn, state http.ConnState) {
	ours := connOf(c)
	switch {
	case ours == nil:
	case state == http.StateActive:
		ours.turn(stranger)
	case state == http.StateIdle:
		ours.turn(waits)
	}
}

type connKey struct{}

// Known tells that the connection itself is of somebody known, until it is closed: for what is not HTTP.
func (c *conn) Known() { c.turn(known) }

type reservedKey struct{}

// Reserved marks the requests of who always has room: the administrator of the controller's host.
func Reserved(ctx context.Context) context.Context {
	return context.WithValue(ctx, reservedKey{}, true)
}

// IsReserved says whether a request is such a one.
func IsReserved(ctx context.Context) bool { return ctx.Value(reservedKey{}) != nil }

// Waits tells that the connection may go first where there is no room, no matter whose it is.
func (c *conn) Waits() { c.turn(waits) }

// Known tells that the request of ctx is of somebody known: its connection stays until it has its answer.
func Known(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.turn(known)
	}
}

// noRoom is all that a connection is told for which there is no room.
const noRoom = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 2\r\nConnection: " +
	"close\r\n\r\n" +
	`{"title":"Service Unavailable","status":503,"code":"unavailable","detail":"the controller has as many connections as it may have, ` +
	`all of callers that it knows (try again in a moment; an operator sees them in muster_connections)"}` + "\n"

// part closes a connection, telling why where that can be understood and not too many are being told.
func (g *Limiter) part(c net.Conn) {
	select {
	case g.last <- struct{}{}:
	default:
		_ = c.Close()
		return
	}
	go func() {
		defer func() { _ = c.Close(); <-g.last }()
		if !g.limits.Plain {
			return
		}
		_ = c.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err := io.WriteString(c, noRoom); err != nil {
			return
		}
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 64<<10)) // else what it still sends would destroy the answer on its way
	}()
}
