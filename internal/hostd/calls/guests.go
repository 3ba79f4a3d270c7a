package calls

import (
	"context"

	"muster/internal/drivers/substrate"
)

// GuestsClient is Guests.
type GuestsClient struct {
	nodes
	always traitsOut // what does not change as long as the host is the same
}

var _ Guests = (*GuestsClient)(nil)

// Guests is the substrate of that name whose nodes are guests. What never changes of it is asked at once, which may take a while.
func (a *Agent) Guests(ctx context.Context, substrate string) (*GuestsClient, error) {
	c := nodes{a, substrate}
	always, err := traits.of(ctx, c, none{})
	return &GuestsClient{c, always}, err
}

// CanSuspend is substrate.Sleeper's; so are Sleep and Wake.
func (c *GuestsClient) CanSuspend(string) bool { return c.always.CanSuspend }

func (c *GuestsClient) Sleep(ctx context.Context, r substrate.Ref, host string) (bytes int64, err error) {
	return sleep.of(ctx, c.nodes, sleepIn{r, host})
}

func (c *GuestsClient) Wake(ctx context.Context, n substrate.Node, host string) error {
	return tell(ctx, wake, c.nodes, wakeIn{n, host})
}

// Emulates is substrate.Emulator's.
func (c *GuestsClient) Emulates() bool { return c.always.Emulates }

// guests answers all this, by a driver whose host is the one that it is on, whatever that is called.
func (at routes) guests(g Guests) {
	answers(at, traits, func(context.Context, none) (traitsOut, error) { return traitsOut{g.CanSuspend(""), g.Emulates()}, nil })
	answers(at, sleep, func(ctx context.Context, in sleepIn) (int64, error) { return g.Sleep(ctx, in.Of, in.Host) })
	does(at, wake, func(ctx context.Context, in wakeIn) error { return g.Wake(ctx, in.Node, in.Host) })
}
