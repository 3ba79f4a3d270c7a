package netboot

import (
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"muster/internal/netboot/onlink"
)

const (
	doorAll   = 1024             // connections at once
	doorEach  = 128              // connections of one machine
	piece     = 1 << 20          // bytes that are sent under one deadline
	pieceWait = 30 * time.Second // for a machine to take a piece: 35 kB/s, a thousand machines at once on a slow link
)

// door lets so many connections in that memory stays bounded, and no single machine keeps the others out. It hands out
// plain TCP connections, so that the kernel can send files by itself.
type door struct {
	net.Listener
	mu    sync.Mutex
	open  map[string]int
	total int
}

// Accept waits for a connection that there is room for; others are closed at once, and their machines come again.
func (d *door) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil || d.enter(conn) {
			return conn, err
		}
		_ = conn.Close()
	}
}

func (d *door) enter(conn net.Conn) bool {
	who := machineOf(conn)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.total >= doorAll || d.open[who] >= doorEach {
		return false
	}
	d.open[who]++
	d.total++
	return true
}

// changed is told by the server what becomes of a connection.
func (d *door) changed(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	who := machineOf(conn)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.total--; d.open[who] > 1 {
		d.open[who]--
	} else {
		delete(d.open, who)
	}
}

// machineOf says whose a connection is: of the NIC that its frames come from, which may have as many addresses as it likes, or
// where that is not known of its address.
func machineOf(conn net.Conn) string {
	if c, ok := conn.(*onlink.Conn); ok && c.Caller.Sender != nil {
		return c.Caller.Sender.String()
	}
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	return host
}

// paced is a response that goes on as long as the machine takes a piece of it in time, however long it is.
type paced struct {
	http.ResponseWriter
	control *http.ResponseController
	sent    int64 // bytes
}

func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *paced) Write(text []byte) (int, error) {
	n, err := p.ResponseWriter.Write(text)
	p.sent += int64(n)
	return n, err
}

// ReadFrom is what io.Copy uses. Each piece goes to the connection as the kernel likes it: a file, or a limited part of one.
func (p *paced) ReadFrom(from io.Reader) (total int64, err error) {
	defer func() { p.sent += total }()
	to, ok := p.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{p.ResponseWriter}, from)
	}
	rest := &io.LimitedReader{R: from, N: 1<<63 - 1}
	if limited, ok := from.(*io.LimitedReader); ok {
		rest = limited
	}
	for rest.N > 0 {
		_ = p.control.SetWriteDeadline(time.Now().Add(pieceWait))
		part := &io.LimitedReader{R: rest.R, N: min(rest.N, piece)}
		n, err := to.ReadFrom(part)
		total += n
		rest.N -= n
		if err != nil || part.N > 0 {
			return total, err // part.N > 0: nothing is left to read
		}
	}
	return total, nil
}
