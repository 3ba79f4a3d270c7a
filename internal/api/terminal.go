package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	apiv1 "muster/api/v1"
	"muster/internal/door/console"
	"muster/internal/door/gateway/client"
	"muster/internal/door/terminal"
	"muster/internal/kinds/cluster"
)

// openTerminal has a browser show a terminal on a cluster: one that it had before, or a new one.
func (a *API) openTerminal(ctx context.Context, in *apiv1.TerminalInput) (*huma.StreamResponse, error) {
	c, node, err := a.admitting(ctx, in.Cluster, in.Node)
	asked := askedOf(ctx)
	switch {
	case err != nil:
		return nil, err
	case in.Node != "" && c.Phase == cluster.Paused:
		return nil, conflict(fmt.Sprintf("cluster %s is paused", c.Name),
			"`muster resume "+c.Name+"` brings it back, and so may a terminal on its head")
	case node.ID == "" && in.Node != "": // what is no node's name never comes to a shell
		return nil, noNode(c, in.Node)
	case node.ID == "" && c.Phase != cluster.Paused: // the gateway brings a paused one back
		return nil, notNow(c)
	case console.Foreign(asked.request()): // for any caller: browsers open a WebSocket to another site without asking it first
		return nil, foreign()
	case !strings.EqualFold(in.Upgrade, "websocket"): // last: it tells a browser that nothing else is in the way
		return nil, problem(http.StatusUpgradeRequired, "this path only upgrades connections",
			"open it as a WebSocket of protocol "+apiv1.TerminalProtocol)
	}
	at, size := terminal.Place{Cluster: c.ID, Ref: c.Project + "/" + c.Name, Node: in.Node}, terminal.Size{Columns: in.Columns,
		Rows: in.Rows}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer a.streams(ctx, hctx.Operation().OperationID)()
		r, w := humago.Unwrap(hctx)
		socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{apiv1.TerminalProtocol},
			InsecureSkipVerify: true}) // as it is not another site's
		if err != nil { // it has answered
			asked.status = http.StatusBadRequest
			return
		}
		asked.status = http.StatusSwitchingProtocols
		a.audit(hctx, callerOf(ctx)) // now: the terminal may be shown for days
		who := inside(ctx)
		if in.Terminal != "" {
			one, is := a.Terminals.Find(in.Terminal, who.Owner, at)
			if !is {
				terminal.Gone(ctx, socket, "this terminal has ended")
				return
			}
			one.Show(ctx, socket, size, in.From)
			return
		}
		// it goes on when the browser has gone for a while
		beyond := context.WithoutCancel(ctx)
		within, cancel := a.lasting(beyond, c.ID, stillEnters(beyond, c.ID))
		one, err := a.Terminals.Open(within, cancel, who, at, size)
		if err != nil {
			cancel()
			terminal.Gone(ctx, socket, err.Error())
			return
		}
		one.Show(ctx, socket, size, in.From)
	}}, nil
}

// inside is who asks, for the gateway.
func inside(ctx context.Context) client.Who {
	asked, token := askedOf(ctx), callerOf(ctx).Token
	return client.Who{Person: identityOf(ctx), Token: token, Remote: address(asked.request().RemoteAddr),
		Owner: cmp.Or(asked.cookie, token)} // a browser has its cookie
}

// address is the remote address of a request.
type address string

// Network is net.Addr's.
func (a address) Network() string { return "tcp" }

// String is net.Addr's.
func (a address) String() string { return string(a) }
