// Package nfsclient is an NFSv4.0 client (RFC 7530) that is what a server has to expect: it claims any user and any
// groups, comes from any address and port that its machine lets it have, and asks for whatever file handle it is given.
//
// Tests find out by it what a server gives to whom. Nothing is cached and nothing is repeated; a Client is for one
// goroutine.
package nfsclient

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// Who is the user that a call says it comes from.
type Who struct {
	UID, GID uint32
	Groups   []uint32 // at most 16
}

// Handle is a file's, as a server gives it out or as somebody made it up.
type Handle []byte

// Status is an nfsstat4 that is not 0.
type Status uint32

// The answers that tests ask for by name.
const (
	Perm      Status = 1
	NoEntry   Status = 2
	Access    Status = 13
	Exists    Status = 17
	NotDir    Status = 20
	Stale     Status = 70
	BadHandle Status = 10001
	WrongSec  Status = 10016
	OldMinor  Status = 10021 // MINOR_VERS_MISMATCH
)

func (s Status) Error() string { return fmt.Sprintf("the NFS server answers with error %d", uint32(s)) }

// Refused is an answer of the RPC layer: the call was not executed.
type Refused string

func (r Refused) Error() string { return "the RPC is refused: " + string(r) }

// Client is a connection to a server and the user that its calls come from.
type Client struct {
	Who   Who
	Minor uint32 // minor version that calls say

	conn net.Conn
	call uint32
	id   uint64 // of SETCLIENTID
	seq  uint32 // of the open-owner
}

// wait is how long a call may take.
const wait = 20 * time.Second

// New makes a client of a connection, which Close closes.
func New(conn net.Conn, who Who) *Client { return &Client{Who: who, conn: conn, call: 0x6e667300} }

// Dial connects to a server from this address and port; an invalid address and port 0 are any.
func Dial(ctx context.Context, server netip.AddrPort, from netip.AddrPort, who Who) (*Client, error) {
	dialer := net.Dialer{Timeout: wait}
	if from.Addr().IsValid() || from.Port() != 0 {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(from)
	}
	conn, err := dialer.DialContext(ctx, "tcp", server.String())
	if err != nil {
		return nil, err
	}
	return New(conn, who), nil
}

// Privileged connects from a port that only root may use.
func Privileged(ctx context.Context, server netip.AddrPort, from netip.Addr, who Who) (c *Client, err error) {
	for port := uint16(1023); port > 600; port-- {
		if c, err = Dial(ctx, server, netip.AddrPortFrom(from, port), who); err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return nil, err
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// As is the same connection with calls of another user.
func (c *Client) As(who Who) *Client {
	c.Who = who
	return c
}

// Numbers of operations: RFC 7530, section 16.
const (
	opAccess       = 3
	opClose        = 4
	opCommit       = 5
	opCreate       = 6
	opGetAttr      = 9
	opGetHandle    = 10
	opLookUp       = 15
	opLookUpParent = 16
	opOpen         = 18
	opOpenConfirm  = 20
	opPutHandle    = 22
	opPutRoot      = 24
	opRead         = 25
	opReadDir      = 26
	opReadLink     = 27
	opRemove       = 28
	opSetAttr      = 34
	opSetClient    = 35
	opConfirm      = 36
	opWrite        = 38
)

// Op is one operation of a compound: its number and arguments, and who reads its result.
type Op struct {
	code   uint32
	args   []byte
	result func(*reader)
}

// encode joins numbers, opaque byte slices and strings as XDR does.
func encode(values ...any) (text []byte) {
	for _, v := range values {
		switch v := v.(type) {
		case int:
			text = binary.BigEndian.AppendUint32(text, uint32(v))
		case uint32:
			text = binary.BigEndian.AppendUint32(text, v)
		case uint64:
			text = binary.BigEndian.AppendUint64(text, v)
		case string:
			text = append(text, opaque([]byte(v))...)
		case Handle:
			text = append(text, opaque(v)...)
		case []byte:
			text = append(text, opaque(v)...)
		case raw:
			text = append(text, v...)
		default:
			panic(fmt.Sprintf("no such XDR: %T", v))
		}
	}
	return text
}

type raw []byte // no length before it

func opaque(b []byte) []byte {
	text := binary.BigEndian.AppendUint32(nil, uint32(len(b)))
	text = append(text, b...)
	return append(text, make([]byte, -len(b)&3)...)
}

// reader reads XDR; once it is short it reads zeros.
type reader struct {
	text  []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.text) {
		r.short, r.text = true, nil
		return make([]byte, max(min(n, 8), 0))
	}
	b := r.text[:n]
	r.text = r.text[n:]
	return b
}

func (r *reader) word() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) long() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

func (r *reader) opaque() []byte {
	n := int(r.word())
	b := r.take(n)
	r.take(-n & 3)
	return b
}

// Compound sends operations in one call. The first that fails ends it, and is the error: a Status.
func (c *Client) Compound(ops ...Op) error {
	c.call++
	groups := []any{len(c.Who.Groups)}
	for _, g := range c.Who.Groups {
		groups = append(groups, g)
	}
	credential := append(encode(1, "client", c.Who.UID, c.Who.GID), encode(groups...)...)
	text := encode(c.call, 0, 2, 100003, 4, 1, 1, credential, 0, 0, "", c.Minor, len(ops))
	for _, op := range ops {
		text = append(text, encode(op.code, raw(op.args))...)
	}
	if err := c.conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	if _, err := c.conn.Write(append(encode(1<<31|uint32(len(text))), text...)); err != nil {
		return err
	}
	r, err := c.answer()
	if err != nil {
		return err
	}
	status := r.word()
	r.opaque() // the call's tag
	n := int(r.word())
	for i := 0; i < n && i < len(ops) && !r.short; i++ {
		code, failed := r.word(), r.word()
		if failed != 0 {
			return Status(failed)
		}
		if code != ops[i].code {
			return fmt.Errorf("operation %d is answered as %d", ops[i].code, code)
		}
		if ops[i].result != nil {
			ops[i].result(r)
		}
	}
	switch {
	case r.short:
		return errors.New("the answer is too short")
	case status != 0:
		return Status(status)
	case n != len(ops):
		return fmt.Errorf("%d of %d operations are answered", n, len(ops))
	}
	return nil
}

// answer reads the reply of a call up to its result.
func (c *Client) answer() (*reader, error) {
	var text []byte
	for last := false; !last; {
		var mark [4]byte
		if _, err := io.ReadFull(c.conn, mark[:]); err != nil {
			return nil, err
		}
		n := binary.BigEndian.Uint32(mark[:])
		last = n>>31 == 1
		if n &= 1<<31 - 1; n > 16<<20 {
			return nil, fmt.Errorf("an answer of %d bytes", n)
		}
		part := make([]byte, n)
		if _, err := io.ReadFull(c.conn, part); err != nil {
			return nil, err
		}
		text = append(text, part...)
	}
	r := &reader{text: text}
	number, kind := r.word(), r.word()
	switch {
	case number != c.call || kind != 1:
		return nil, errors.New("the answer is to another call")
	case r.word() != 0:
		return nil, Refused(fmt.Sprintf("reason %d, %d", r.word(), r.word()))
	}
	r.word()
	r.opaque() // verifier
	if failed := r.word(); failed != 0 {
		return nil, Refused(fmt.Sprintf("accepted, error %d", failed))
	}
	return r, nil
}
