package calls

import (
	"context"
	"encoding/json"
	"net"
)

// listener hands out who comes in at a port on the host.
type listener struct {
	*Client
	ctx   context.Context // ends with it
	end   context.CancelFunc
	conn  *stream
	hear  *json.Decoder
	where address
}

// Listen listens on the host until the listener is closed, or the host goes.
func (c *Client) Listen(ctx context.Context, cluster string, port int) (net.Listener, error) {
	conn, err := listen.takeOver(ctx, c.nodes, listenIn{cluster, port})
	if err != nil {
		return nil, err
	}
	within, end := context.WithCancel(context.WithoutCancel(ctx))
	return &listener{c, within, end, conn, json.NewDecoder(conn), address("cluster " + cluster + " on host " + c.host)}, nil
}

// Accept passes over those who have gone meanwhile.
func (l *listener) Accept() (net.Conn, error) {
	for {
		var who caller
		if err := l.hear.Decode(&who); err != nil {
			if l.ctx.Err() != nil {
				err = net.ErrClosed
			}
			return nil, err
		}
		if conn, err := accept.takeOver(l.ctx, l.nodes, who.ID); err == nil {
			return arrived{conn, address(who.From)}, nil
		}
	}
}

func (l *listener) Close() error {
	l.end()
	return l.conn.Close()
}

func (l *listener) Addr() net.Addr { return l.where }

// arrived is a caller's connection, with the address that it came from.
type arrived struct {
	*stream
	from address
}

func (a arrived) RemoteAddr() net.Addr { return a.from }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
