package monitor

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"

	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/kinds/node"
)

// origin is where a call comes from: at this host's sockets, an address of a network of machines, or one of a cluster's network.
type origin struct {
	network, cluster string
	address          netip.Addr
}

// origins remembers from where agents called whose machine was there, so that the database is asked once for each.
type origins struct {
	mu sync.Mutex
	of map[identity.Agent]origin
}

// mostOrigins bounds what is remembered; beyond it all is asked for again.
const mostOrigins = 1 << 17

func (o *origins) has(who identity.Agent, at origin) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	known, is := o.of[who]
	return is && known == at
}

func (o *origins) add(who identity.Agent, at origin) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil || len(o.of) >= mostOrigins {
		o.of = map[identity.Agent]origin{}
	}
	o.of[who] = at
}

// there refuses a call that does not come from where its agent's machine is: whoever has copied a certificate and its key can do
// nothing with them elsewhere. What is no more is left to the handler of the call.
func (m *Monitor) there(r *http.Request, who identity.Agent) error {
	address, _ := callerAddress(r)
	here := origin{on(r), within(r), address}
	if m.origins.has(who, here) {
		return nil
	}
	err := m.db.View(r.Context(), func(tx *core.Tx) error { return atAgent(r.Context(), tx, who, r) })
	switch {
	case errors.Is(err, core.ErrNotFound):
		return nil
	case err == nil:
		m.origins.add(who, here)
	}
	return err
}

// atAgent checks where the agent of a node, or of a machine that has none, calls from.
func atAgent(ctx context.Context, tx *core.Tx, who identity.Agent, r *http.Request) error {
	n, err := node.Get(ctx, tx, who.Node)
	machineID := who.Node
	switch {
	case err == nil && n.IsGuest():
		return atGuest(n, r)
	case err == nil:
		machineID = n.MachineID
	case !errors.Is(err, core.ErrNotFound):
		return err
	}
	_, _, err = at(ctx, tx, machineID, r)
	return err
}
