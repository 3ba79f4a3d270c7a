package cli

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) tunnel() *cobra.Command {
	c := &cobra.Command{
		Use:    "tunnel NAME [NODE]",
		Hidden: true,
		Short:  "Carry an SSH connection to a cluster's node",
		Long: `Connect standard input and output with the SSH port of a cluster's node, the head if none is named, by way of the controller.
` + "`muster ssh`" + ` uses it as its ProxyCommand; so can a configuration of your own.`,
		Example: `  ssh -o ProxyCommand='muster tunnel hello' alice@head`,
		Args:    cobra.RangeArgs(1, 2),
	}
	return a.verb(c, func(ctx context.Context, args []string) error {
		controller, err := a.connect()
		if err != nil {
			return err
		}
		conn, buffered, err := controller.upgrade(ctx,
			apiv1.Tunnel.Ask(apiv1.TunnelInput{ClusterRef: apiv1.ClusterRef{Cluster: args[0]}, Node: strings.Join(args[1:], ""),
				Upgrade: apiv1.TunnelProtocol}))
		if err != nil {
			return err
		}
		return a.relay(ctx, conn, buffered)
	})
}

// dialPatience is how long the controller may take to answer a request for a tunnel.
const dialPatience = 30 * time.Second

// upgrade asks for a tunnel. http.Client could too, but its connection cannot be closed in one direction.
func (c *client) upgrade(ctx context.Context, ask apiv1.Ask) (net.Conn, io.Reader, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, nil, c.lost(err)
	}
	from, err := c.shake(ctx, conn, ask)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, from, nil
}

// shake turns an HTTP connection into a tunnel. What it returns may have read ahead of the connection.
func (c *client) shake(ctx context.Context, conn net.Conn, ask apiv1.Ask) (io.Reader, error) {
	request, err := ask.Request(ctx, c.base.String(), c.token)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Connection", "Upgrade")
	if err := errors.Join(conn.SetDeadline(time.Now().Add(dialPatience)), request.Write(conn)); err != nil {
		return nil, c.lost(err)
	}
	from := bufio.NewReader(conn)
	response, err := http.ReadResponse(from, request)
	if err != nil {
		return nil, c.lost(err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, c.problem(response)
	}
	return from, conn.SetDeadline(time.Time{})
}

func (c *client) dial(ctx context.Context) (net.Conn, error) {
	address := net.JoinHostPort(c.base.Hostname(), cmp.Or(c.base.Port(), c.base.Scheme))
	if c.base.Scheme == "https" {
		return (&tls.Dialer{Config: &tls.Config{NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}}).
			DialContext(ctx, "tcp", address)
	}
	return c.dialer(ctx, "tcp", address)
}

// dialer goes by the controller's own socket where there is one: it has room for root of its host when its address has none.
func (c *client) dialer(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialPatience}
	if c.control != "" {
		if conn, err := d.DialContext(ctx, "unix", c.control); err == nil {
			return conn, nil
		}
	}
	return d.DialContext(ctx, network, address)
}

// relay copies both ways until the far side ends. When standard input ends, the far side is told, and may go on.
func (a *app) relay(ctx context.Context, conn net.Conn, from io.Reader) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }()
	go func() {
		_, err := io.Copy(conn, a.in)
		if half, ok := conn.(interface{ CloseWrite() error }); ok && err == nil {
			_ = half.CloseWrite()
		}
	}()
	if _, err := io.Copy(a.out.raw(), from); err != nil && ctx.Err() == nil {
		return fmt.Errorf("the connection through the controller broke: %w", err)
	}
	return nil
}
