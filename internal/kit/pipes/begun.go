package pipes

import "net"

// Begun is a connection whose first bytes have been read already. They are read again.
type Begun struct {
	net.Conn
	First []byte
}

// NetConn is the connection as it came.
func (b *Begun) NetConn() net.Conn { return b.Conn }

func (b *Begun) Read(into []byte) (int, error) {
	if len(b.First) > 0 && len(into) > 0 {
		n := copy(into, b.First)
		b.First = b.First[n:]
		return n, nil
	}
	return b.Conn.Read(into)
}
