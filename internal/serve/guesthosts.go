package serve

import (
	"context"

	"muster/internal/drivers/substrate"
	"muster/internal/hostd/calls"
)

// guestHosts carry guests: the controller's own host, by its agent, and those that are machines of their own. Which of them
// carries one is asked each time.
type guestHosts struct {
	calls.Guests // of the controller's host
	elsewhere    hosts
	name         string // of the controller's host, as a machine that holds guests
	networks     calls.Host
}

var (
	_ substrate.Mover   = guestHosts{}
	_ substrate.Sleeper = guestHosts{}
)

// of finds who carries, or carried, a node's guest.
func (g guestHosts) of(ctx context.Context, node string) (s substrate.Substrate, elsewhere bool, err error) {
	if elsewhere, err = g.elsewhere.Carries(ctx, node); elsewhere {
		return g.elsewhere, true, err
	}
	return g.Guests, false, err
}

// at is a host, by its name.
func (g guestHosts) at(host string) substrate.Sleeper {
	if host == g.name {
		return g.Guests
	}
	return g.elsewhere
}

// introduce is done before an agent elsewhere calls, over an uplink, and wants an answer.
func (g guestHosts) introduce(ctx context.Context, n substrate.Node) error {
	return g.networks.Introduce(ctx, n.Cluster, n.Address.Addr())
}

// Ensure is Substrate's; so are Observe, Remove and List.
func (g guestHosts) Ensure(ctx context.Context, n substrate.Node) error {
	s, elsewhere, err := g.of(ctx, n.Node)
	if err == nil && elsewhere {
		err = g.introduce(ctx, n)
	}
	if err != nil {
		return err
	}
	return s.Ensure(ctx, n)
}

func (g guestHosts) Observe(ctx context.Context, r substrate.Ref) (substrate.Observation, error) {
	s, _, err := g.of(ctx, r.Node)
	if err != nil {
		return substrate.Observation{}, err
	}
	return s.Observe(ctx, r)
}

func (g guestHosts) Remove(ctx context.Context, r substrate.Ref) error {
	s, _, err := g.of(ctx, r.Node)
	if err != nil {
		return err
	}
	return s.Remove(ctx, r)
}

func (g guestHosts) List(ctx context.Context) ([]substrate.Ref, error) {
	all, err := g.elsewhere.List(ctx)
	if err != nil {
		return nil, err
	}
	here, err := g.Guests.List(ctx)
	return append(here, all...), err
}

// Reaches is Mover's; so are Move and Forget. From the controller's host and to it no guest moves.
func (g guestHosts) Reaches(host string) bool { return host != g.name && g.elsewhere.Reaches(host) }

func (g guestHosts) Move(ctx context.Context, n substrate.Node, from, to string) error {
	return g.elsewhere.Move(ctx, n, from, to)
}

func (g guestHosts) Forget(ctx context.Context, r substrate.Ref, host string) error {
	return g.elsewhere.Forget(ctx, r, host)
}

// CanSuspend is Sleeper's; so are Sleep and Wake.
func (g guestHosts) CanSuspend(host string) bool { return g.at(host).CanSuspend(host) }

func (g guestHosts) Sleep(ctx context.Context, r substrate.Ref, host string) (int64, error) {
	return g.at(host).Sleep(ctx, r, host)
}

func (g guestHosts) Wake(ctx context.Context, n substrate.Node, host string) error {
	if host != g.name {
		if err := g.introduce(ctx, n); err != nil {
			return err
		}
	}
	return g.at(host).Wake(ctx, n, host)
}
