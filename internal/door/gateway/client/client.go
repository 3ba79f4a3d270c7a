// Package client logs in to places through the SSH gateway of the same process, for people whom the API has let in. The gateway
// checks, lists, records and ends these sessions as any other.
//
// What enters: who asks, and the place. What leaves: SSH connections to the gateway.
package client

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/door/gateway/target"
	"muster/internal/identity"
	"muster/internal/kit/limit"
	"muster/internal/kit/pipes"
)

// Client comes to one gateway.
type Client struct {
	Door *pipes.Inside // where the gateway lets in

	authority *identity.Authority
	log       *slog.Logger
	lines     limit.Lines // of the log, that people cause
}

// New makes one. Authority certifies keys for the gateway.
func New(authority *identity.Authority, log *slog.Logger) *Client {
	return &Client{Door: pipes.NewInside(), authority: authority, log: log, lines: limit.LinesOfUnknown()}
}

// Who is somebody whom the API has let in.
type Who struct {
	Person string
	Token  string // ID of the token or login; the gateway ends what came with it when it ends
	Owner  string // what all requests of one browser have, and no other's
	Remote net.Addr
}

// certificateLife is how long a certificate opens the gateway: long enough to connect.
const certificateLife = 5 * time.Minute

// Why there is no session.
var (
	ErrUnreachable = errors.New("the gateway cannot be reached")
	ErrCut         = errors.New("the connection has ended")
)

// Connect logs somebody in to the gateway, for PROJECT/NAME. Whether that can be entered, a session says. The connection ends
// with ctx, which who calls ends once it is closed. An error is ErrUnreachable; the log says why.
func (c *Client) Connect(ctx context.Context, who Who, place string) (*ssh.Client, error) {
	way := target.Target{
		Name: place, Account: place, Host: "gateway:22",
		Dial:  func(ctx context.Context) (net.Conn, error) { return c.Door.Dial(ctx, who.Remote) },
		Known: ssh.InsecureIgnoreHostKey(), // the other end is in this process
		Certify: func(key ssh.PublicKey) (string, error) {
			return c.authority.CertifyLogin(string(ssh.MarshalAuthorizedKey(key)), who.Person, who.Token, time.Now(),
				certificateLife)
		},
	}
	conn, channels, requests, err := way.Connect(ctx)
	if err != nil {
		if say, omitted := c.lines.Say(who.Person, time.Now()); say && ctx.Err() == nil {
			c.log.WarnContext(ctx, "somebody does not get to the gateway", "person", who.Person, "error", err, "omitted", omitted)
		}
		return nil, ErrUnreachable
	}
	client := ssh.NewClient(conn, channels, requests)
	context.AfterFunc(ctx, func() { _ = client.Close() })
	return client, nil
}

// Session begins a session. What a place that cannot be entered says, comes on its stderr. An error is ErrCut, or what the
// gateway says, for the person to read.
func Session(client *ssh.Client) (*ssh.Session, error) {
	session, err := client.NewSession()
	if refused, is := errors.AsType[*ssh.OpenChannelError](err); is {
		return nil, errors.New(refused.Message)
	}
	if err != nil {
		return nil, ErrCut
	}
	return session, nil
}
