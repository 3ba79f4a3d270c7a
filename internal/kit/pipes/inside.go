package pipes

import (
	"context"
	"errors"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// Inside is a listener for connections that begin in the same process: what they carry passes no network.
type Inside struct {
	begun  chan net.Conn
	closed chan struct{}
	shut   func()
}

// NewInside makes one.
func NewInside() *Inside {
	closed := make(chan struct{})
	return &Inside{begun: make(chan net.Conn), closed: closed, shut: sync.OnceFunc(func() { close(closed) })}
}

// Dial connects with who accepts, and waits until somebody does. The other end sees from as the remote address.
func (i *Inside) Dial(ctx context.Context, from net.Addr) (net.Conn, error) {
	near, end, err := Pair(unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	far, err := FileConn(end)
	if err != nil {
		return nil, errors.Join(err, near.Close())
	}
	select {
	case i.begun <- addressed{far, from}:
		return near, nil
	case <-i.closed:
		err = net.ErrClosed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return nil, errors.Join(err, near.Close(), far.Close())
}

// Accept is net.Listener's.
func (i *Inside) Accept() (net.Conn, error) {
	select {
	case conn := <-i.begun:
		return conn, nil
	case <-i.closed:
		return nil, net.ErrClosed
	}
}

// Close is net.Listener's. It may be called again.
func (i *Inside) Close() error {
	i.shut()
	return nil
}

// Addr is net.Listener's: the listener has no address.
func (i *Inside) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// addressed is a connection with the remote address that it is said to have.
type addressed struct {
	net.Conn
	from net.Addr
}

// RemoteAddr is net.Conn's.
func (a addressed) RemoteAddr() net.Addr { return a.from }
