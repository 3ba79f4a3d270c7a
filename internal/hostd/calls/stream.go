package calls

import (
	"bufio"
	"errors"
	"net"
)

// stream is a connection that was taken over from HTTP: what came early is read first.
type stream struct {
	net.Conn
	early *bufio.Reader
}

func (s stream) Read(p []byte) (int, error) {
	if s.early != nil && s.early.Buffered() > 0 {
		return s.early.Read(p[:min(len(p), s.early.Buffered())])
	}
	return s.Conn.Read(p)
}

// CloseWrite says that nothing more comes from here. A connection that cannot say so is closed.
func (s stream) CloseWrite() error {
	if half, can := s.Conn.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return s.Conn.Close()
}

// gone is a connection whose other end has gone.
type gone struct{ net.Conn }

var errGone = errors.New("the caller has gone")

func (gone) Read([]byte) (int, error)  { return 0, errGone }
func (gone) Write([]byte) (int, error) { return 0, errGone }
func (gone) Close() error              { return nil }
