package agents

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"muster/internal/inventory"
	"muster/internal/kinds/network"
	"muster/internal/kit/clock"
	"muster/internal/netboot"
	"muster/internal/netboot/onlink"
	"muster/internal/protocol"
)

// looks is how often changes are looked for that another replica made, and rests how long at least lies between two looks;
// serviceRetry is how long the services of a network rest after they failed.
const (
	looks        = 2 * time.Second
	rests        = 100 * time.Millisecond
	serviceRetry = 2 * time.Second
)

// Networks runs the boot services and the agents' door on every network that there is, until ctx ends. A network whose services
// fail is told of and tried again; the others go on.
func (d *Doors) Networks(ctx context.Context) error {
	follow(ctx, d, "cannot look for networks", network.List, func(n inventory.Network) string { return n.Name }, d.keep,
		d.forgetNeighbours)
	return nil
}

// forgetNeighbours takes away what the kernel was told of the machines of a network that was removed.
func (d *Doors) forgetNeighbours(n inventory.Network) {
	link, err := onlink.Open(n.Namespace, n.Interface)
	if err != nil {
		return // its interface is gone, and they with it
	}
	defer link.Close()
	if err := link.Forget(); err != nil {
		d.Log.Warn("the kernel still holds addresses of a network that was removed", "network", n.Name, "error", err)
	}
}

// keep serves one network until ctx ends.
func (d *Doors) keep(ctx context.Context, n inventory.Network) {
	if text := d.Switches.Warning(n); text != "" {
		d.Log.Warn(text, "network", n.Name)
	}
	defer d.trouble(n.Name, "")
	for ctx.Err() == nil {
		if err := d.network(ctx, n); err != nil && ctx.Err() == nil && d.trouble(n.Name, err.Error()) {
			d.Log.Error("machines of a network are not served", "network", n.Name, "error", err)
		}
		_ = clock.Sleep(ctx, serviceRetry)
	}
}

// network runs the boot services and the agents' door of one network.
func (d *Doors) network(ctx context.Context, n inventory.Network) error {
	init, err := d.first()
	if err != nil {
		return err
	}
	link, err := onlink.Open(n.Namespace, n.Interface)
	if err != nil {
		return err
	}
	defer link.Close()
	plain, err := link.Listen(strings.TrimPrefix(protocol.Endpoint(n.Address.Addr()), "https://"))
	if err != nil {
		return fmt.Errorf("listen for agents: %w", err)
	}
	config, err := d.Authority.ServerTLS(time.Now())
	if err != nil {
		return errors.Join(err, plain.Close())
	}
	d.trouble(n.Name, "")
	d.Log.Info("machines of a network are served", "network", n.Name, "interface", n.Interface, "mode", n.Mode)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		gate := d.Limits.Limiter(plain, d.Budget.AgentsLimits("agents"))
		gate.Context = onlink.WithCaller
		return gate.Serve(ctx, config, d.Monitor.HandlerOn(n.Name))
	})
	group.Go(func() error { return d.Monitor.Listen(ctx, n.Name) })
	group.Go(func() error {
		return netboot.Serve(ctx, netboot.Config{
			Network: n, Link: link, Controller: d.boots, Blobs: d.Files, Init: init, Log: d.Log, Telemetry: d.Telemetry,
			Firmware: d.Firmware,
		})
	})
	return group.Wait()
}

// trouble notes why the machines of a network are not served; "" that they are. It says whether that is something new.
func (d *Doors) trouble(network, why string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.troubles[network].Why == why {
		return false
	}
	delete(d.troubles, network)
	if why != "" {
		d.troubles[network] = Trouble{why, time.Now()}
	}
	return true
}

// Trouble is why machines are not served, and since when.
type Trouble struct {
	Why   string
	Since time.Time
}

// Unserved are the networks whose machines this controller cannot serve.
func (d *Doors) Unserved() map[string]Trouble {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.troubles)
}
