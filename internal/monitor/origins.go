package monitor

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"

	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
)

// origin is where a call comes from: at this host's sockets, an address of a network of machines, or one of a cluster's network.
type origin struct {
	network, cluster string
	address          netip.Addr
}

// origins remembers from where agents called whose machine was there, and whose nodes they are, so that the database is asked
// once for each.
type origins struct {
	mu sync.Mutex
	of map[identity.Agent]whereabouts
}

// whereabouts are where an agent was, and whose node its machine is.
type whereabouts struct {
	origin
	payer string
}

// mostOrigins bounds what is remembered; beyond it all is asked for again.
const mostOrigins = 1 << 17

func (o *origins) payer(who identity.Agent, at origin) (payer string, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, is := o.of[who]
	return p.payer, is && p.origin == at
}

func (o *origins) add(who identity.Agent, at whereabouts) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil || len(o.of) >= mostOrigins {
		o.of = map[identity.Agent]whereabouts{}
	}
	o.of[who] = at
}

// there refuses a call that does not come from where its agent's machine is: a copy of a certificate and its key is of no use
// elsewhere. What is no more is left to the handler of the call. The payer is whom the database's time is counted for.
func (m *Monitor) there(r *http.Request, who identity.Agent) (payer string, err error) {
	address, _ := callerAddress(r)
	here := origin{on(r), within(r), address}
	if payer, known := m.origins.payer(who, here); known {
		return payer, nil
	}
	payer, err = core.Look(r.Context(), m.db, func(tx *core.Tx) (string, error) { return atAgent(r.Context(), tx, who, r) })
	switch {
	case errors.Is(err, core.ErrNotFound):
		return who.Node, nil
	case err == nil:
		m.origins.add(who, whereabouts{here, payer})
	}
	return payer, err
}

// atAgent checks where the agent of a node, or of a machine that has none, calls from. The payer is the node's project, or the
// machine.
func atAgent(ctx context.Context, tx *core.Tx, who identity.Agent, r *http.Request) (payer string, err error) {
	n, err := node.Get(ctx, tx, who.Node)
	if errors.Is(err, core.ErrNotFound) {
		_, _, err = at(ctx, tx, who.Node, r)
		return who.Node, err
	}
	if err != nil {
		return "", err
	}
	c, err := cluster.Get(ctx, tx, n.Cluster)
	switch {
	case err != nil:
	case n.IsGuest():
		err = atGuest(n, r)
	default:
		_, _, err = at(ctx, tx, n.MachineID, r)
	}
	return core.OfProject(c.Project), err
}
