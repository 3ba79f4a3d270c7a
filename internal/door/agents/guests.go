package agents

import (
	"context"
	"errors"
	"os"
	"time"

	"muster/internal/kinds/host"
	"muster/internal/kit/clock"
	"muster/internal/protocol"
)

// doorRetry is how often it is tried to listen in a cluster's network: it may not be there yet, or another controller of
// this host listens.
const doorRetry = 500 * time.Millisecond

// Guests listens, until ctx ends, in the network of every cluster that has guests, for as long as it has any.
func (d *Doors) Guests(ctx context.Context) error {
	follow(ctx, d, "cannot look for clusters with guests", host.WithGuests, func(cluster string) string { return cluster },
		d.keepDoor, func(string) {})
	return nil
}

// keepDoor lets agents of one cluster's guests in until ctx ends.
func (d *Doors) keepDoor(ctx context.Context, cluster string) {
	said := ""
	for ctx.Err() == nil {
		err := d.listenWithin(ctx, cluster)
		if err != nil && ctx.Err() == nil && !errors.Is(err, os.ErrNotExist) && err.Error() != said {
			said = err.Error()
			d.Log.Warn("this controller cannot listen to the guests of a cluster", "cluster", cluster, "error", err)
		}
		_ = clock.Sleep(ctx, doorRetry)
	}
}

func (d *Doors) listenWithin(ctx context.Context, cluster string) error {
	config, err := d.Authority.ServerTLS(time.Now())
	if err != nil {
		return err
	}
	plain, err := d.Clusters.Listen(ctx, cluster, protocol.AgentPort)
	if err != nil {
		return err
	}
	return d.Limits.Limiter(plain, d.Budget.ClusterLimits()).Serve(ctx, config, d.Monitor.HandlerWithin(cluster))
}
