package agents

import (
	"context"
	"errors"
	"os"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/host"
	"muster/internal/kit/clock"
	"muster/internal/protocol"
)

// doorRetry is how often it is tried to listen in a cluster's network: it may not be there yet, or another controller of
// this host listens.
const doorRetry = 500 * time.Millisecond

// Guests listens, until ctx ends, in the network of every cluster that has guests, for as long as it has any.
func (d *Doors) Guests(ctx context.Context) error {
	doors := map[string]begun{}
	defer func() {
		for _, door := range doors {
			door.end()
		}
	}()
	d.DB.Follow(ctx, rests, looks, func() {
		if err := d.followGuests(ctx, doors); err != nil && ctx.Err() == nil {
			d.Log.Error("cannot look for clusters with guests", "error", err)
		}
	})
	return nil
}

// followGuests makes the doors that are open those that are needed.
func (d *Doors) followGuests(ctx context.Context, doors map[string]begun) error {
	var clusters []string
	err := d.DB.View(ctx, func(tx *core.Tx) (err error) {
		clusters, err = host.WithGuests(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	for _, cluster := range clusters {
		needed[cluster] = true
		if _, open := doors[cluster]; open {
			continue
		}
		doors[cluster] = begin(ctx, func(ctx context.Context) { d.keepDoor(ctx, cluster) })
	}
	for cluster, door := range doors {
		if !needed[cluster] {
			door.end()
			delete(doors, cluster)
		}
	}
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
