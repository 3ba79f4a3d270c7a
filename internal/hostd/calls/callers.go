package calls

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// caller is one who has come in at a port that a controller listens at.
type caller struct {
	ID   string // to be taken by accept
	From string // its address, inside the cluster's network
}

// takeWithin is how long a caller waits for the controller to take it.
const takeWithin = 10 * time.Second

// callers are those whom the controller has not taken yet.
type callers struct {
	mu      sync.Mutex
	waiting map[string]net.Conn
}

func (c *callers) put(conn net.Conn) caller {
	who := caller{ID: rand.Text(), From: conn.RemoteAddr().String()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[who.ID] = conn
	time.AfterFunc(takeWithin, func() {
		if late := c.take(who.ID); late != nil {
			_ = late.Close()
		}
	})
	return who
}

// take is nil for one who is not there, or not any more.
func (c *callers) take(id string) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.waiting[id]
	delete(c.waiting, id)
	return conn
}

// listen listens for as long as the controller holds the connection, and tells it of each caller.
func (s *server) listen(ctx context.Context, in listenIn) (then, error) {
	listener, err := s.Host.Listen(ctx, in.Cluster, in.Port)
	if err != nil {
		return nil, err
	}
	return func(conn net.Conn, _ *bufio.Reader) {
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer stop()
		go func() { // it says nothing: the end of reading is the end of it
			_, _ = io.Copy(io.Discard, conn)
			_ = listener.Close()
		}()
		defer listener.Close()
		defer conn.Close()
		tell := json.NewEncoder(conn)
		for {
			who, err := listener.Accept()
			if err != nil {
				return
			}
			if tell.Encode(s.callers.put(who)) != nil {
				return
			}
		}
	}, nil
}

// accept joins the connection to a caller.
func (s *server) accept(ctx context.Context, id string) (then, error) {
	who := s.callers.take(id)
	if who == nil {
		return nil, fmt.Errorf("caller %.40q: %w", id, os.ErrNotExist)
	}
	return s.join(ctx, who), nil
}
