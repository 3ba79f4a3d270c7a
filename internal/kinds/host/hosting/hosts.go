// Package hosting has guests carried by their hosts: the controller's own, by its agent, and those that are machines of their
// own, by rows, which their agents fetch.
//
// What enters: the calls of substrates. What leaves: the same to the host that carries a guest.
package hosting

import (
	"context"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/remote"
	"muster/internal/hostd/calls"
	"muster/internal/kinds/host"
)

// patience is how long a handler waits for a hypervisor elsewhere: handlers are few, and a report wakes the next.
const patience = 2 * time.Second

// Hosts carry guests. Which of them carries one is asked each time. They are a substrate.Mover and a substrate.Sleeper, too.
type Hosts struct {
	calls.Guests // of the controller's host
	elsewhere    remoteHosts
	name         string // of the controller's host, as a machine that holds guests
	networks     calls.Host
}

var (
	_ substrate.Mover   = Hosts{}
	_ substrate.Sleeper = Hosts{}
)

// New are the controller's host, which has a name as a machine that holds guests, and all others, which may be silent, and move a
// guest, for as long as the deadlines say. networks has the networks of clusters.
func New(here calls.Guests, name string, networks calls.Host, db *core.Store, d substrate.Deadlines) Hosts {
	return Hosts{here, newRemoteHosts(db, d), name, networks}
}

// remoteHosts are machines of their own.
type remoteHosts struct {
	*remote.Driver
	*remote.Mover
	db *core.Store
}

func newRemoteHosts(db *core.Store, d substrate.Deadlines) remoteHosts {
	return remoteHosts{
		remote.New(remote.Config{Ledger: ledger{db}, Silence: d.Silence, Patience: patience}),
		remote.NewMover(remote.MoverConfig{Migrations: migrations{db}, Silence: d.Silence, Patience: patience, Limit: d.Move}),
		db,
	}
}

// Carries says whether a node is, or was to be, on such a host.
func (h remoteHosts) Carries(ctx context.Context, node string) (bool, error) {
	return core.Look(ctx, h.db, func(tx *core.Tx) (bool, error) { return host.Elsewhere(ctx, tx, node) })
}

// of finds who carries, or carried, a node's guest.
func (g Hosts) of(ctx context.Context, node string) (s substrate.Substrate, elsewhere bool, err error) {
	if elsewhere, err = g.elsewhere.Carries(ctx, node); elsewhere {
		return g.elsewhere, true, err
	}
	return g.Guests, false, err
}

// at is a host, by its name.
func (g Hosts) at(host string) substrate.Sleeper {
	if host == g.name {
		return g.Guests
	}
	return g.elsewhere
}

// introduce is done before an agent elsewhere calls, over an uplink, and wants an answer.
func (g Hosts) introduce(ctx context.Context, n substrate.Node) error {
	return g.networks.Introduce(ctx, n.Cluster, n.Address.Addr())
}

// Ensure is Substrate's; so are Observe, Remove and List.
func (g Hosts) Ensure(ctx context.Context, n substrate.Node) error {
	s, elsewhere, err := g.of(ctx, n.Node)
	if err == nil && elsewhere {
		err = g.introduce(ctx, n)
	}
	if err != nil {
		return err
	}
	return s.Ensure(ctx, n)
}

func (g Hosts) Observe(ctx context.Context, r substrate.Ref) (substrate.Observation, error) {
	s, _, err := g.of(ctx, r.Node)
	if err != nil {
		return substrate.Observation{}, err
	}
	return s.Observe(ctx, r)
}

func (g Hosts) Remove(ctx context.Context, r substrate.Ref) error {
	s, _, err := g.of(ctx, r.Node)
	if err != nil {
		return err
	}
	return s.Remove(ctx, r)
}

func (g Hosts) List(ctx context.Context) ([]substrate.Ref, error) {
	all, err := g.elsewhere.List(ctx)
	if err != nil {
		return nil, err
	}
	here, err := g.Guests.List(ctx)
	return append(here, all...), err
}

// Reaches is Mover's; so are Move and Forget. From the controller's host and to it no guest moves.
func (g Hosts) Reaches(host string) bool { return host != g.name && g.elsewhere.Reaches(host) }

func (g Hosts) Move(ctx context.Context, n substrate.Node, from, to string) error {
	return g.elsewhere.Move(ctx, n, from, to)
}

func (g Hosts) Forget(ctx context.Context, r substrate.Ref, host string) error {
	return g.elsewhere.Forget(ctx, r, host)
}

// CanSuspend is Sleeper's; so are Sleep and Wake.
func (g Hosts) CanSuspend(host string) bool { return g.at(host).CanSuspend(host) }

func (g Hosts) Sleep(ctx context.Context, r substrate.Ref, host string) (int64, error) {
	return g.at(host).Sleep(ctx, r, host)
}

func (g Hosts) Wake(ctx context.Context, n substrate.Node, host string) error {
	if host != g.name {
		if err := g.introduce(ctx, n); err != nil {
			return err
		}
	}
	return g.at(host).Wake(ctx, n, host)
}
