package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/monitor"
	"muster/internal/protocol"
)

// doorRetry is how often it is tried to listen in a cluster's network: it may not be there yet, or another controller of
// this host listens.
const doorRetry = 500 * time.Millisecond

// door is where the agents of one cluster's guests come in.
type door struct {
	stop context.CancelFunc
	done chan struct{}
}

func (d door) shut() {
	d.stop()
	<-d.done
}

// serveGuests listens, until ctx ends, in the network of every cluster that has guests, for as long as it has any.
func (k *controller) serveGuests(ctx context.Context, watch *monitor.Monitor) error {
	doors := map[string]door{}
	defer func() {
		for _, d := range doors {
			d.shut()
		}
	}()
	k.db.Follow(ctx, networkRests, networkLooks, func() {
		if err := k.followGuests(ctx, watch, doors); err != nil && ctx.Err() == nil {
			k.Log.Error("cannot look for clusters with guests", "error", err)
		}
	})
	return nil
}

// followGuests makes the doors that are open those that are needed.
func (k *controller) followGuests(ctx context.Context, watch *monitor.Monitor, doors map[string]door) error {
	var clusters []string
	err := k.db.View(ctx, func(tx *core.Tx) (err error) {
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
		within, stop := context.WithCancel(ctx)
		d := door{stop, make(chan struct{})}
		doors[cluster] = d
		go func() {
			defer close(d.done)
			k.keepDoor(within, watch, cluster)
		}()
	}
	for cluster, d := range doors {
		if !needed[cluster] {
			d.shut()
			delete(doors, cluster)
		}
	}
	return nil
}

// keepDoor lets agents of one cluster's guests in until ctx ends.
func (k *controller) keepDoor(ctx context.Context, watch *monitor.Monitor, cluster string) {
	said := ""
	for ctx.Err() == nil {
		err := k.listenWithin(ctx, watch, cluster)
		if err != nil && ctx.Err() == nil && !errors.Is(err, os.ErrNotExist) && err.Error() != said {
			said = err.Error()
			k.Log.Warn("this controller cannot listen to the guests of a cluster", "cluster", cluster, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(doorRetry):
		}
	}
}

func (k *controller) listenWithin(ctx context.Context, watch *monitor.Monitor, cluster string) error {
	config, err := k.authority.ServerTLS(time.Now())
	if err != nil {
		return err
	}
	plain, err := k.shared.Listen(ctx, cluster, protocol.AgentPort)
	if err != nil {
		return err
	}
	return k.doors.Limiter(plain, k.budget.ClusterLimits()).Serve(ctx, config, watch.HandlerWithin(cluster))
}

// enrolHypervisor sees to it that this host is in the inventory as a machine that holds guests.
func (k *controller) enrolHypervisor(ctx context.Context) error {
	name, err := hostMachine()
	if err != nil {
		return err
	}
	return k.db.Update(ctx, func(tx *core.Tx) error {
		m, err := machine.Get(ctx, tx, name)
		switch {
		case err == nil && !m.Hosts:
			return fmt.Errorf("make this host a hypervisor: machine %s exists and is not a hypervisor; remove it first", name)
		case err == nil:
			return nil
		case !errors.Is(err, core.ErrNotFound):
			return err
		}
		tx.Log(core.Event{Type: "machine.enrolled", Machine: name, Text: "this host, as a hypervisor"})
		return machine.Add(ctx, tx, inventory.Machine{ID: admission.NewID("m"), Name: name,
			Substrate: k.admission.Substrates.Guests(), Hosts: true})
	})
}

// hostMachine is the name of this host as a machine that holds guests.
func hostMachine() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name this host as a hypervisor: %w", err)
	}
	return hypervisorName(host), nil
}

// hypervisorName makes the name of a machine from that of a host.
func hypervisorName(host string) string {
	name := []byte{}
	for _, c := range []byte(host) {
		switch {
		case 'A' <= c && c <= 'Z':
			name = append(name, c-'A'+'a')
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			name = append(name, c)
		case c == '.':
			return withMark(name)
		case len(name) > 0 && name[len(name)-1] != '-':
			name = append(name, '-')
		}
	}
	return withMark(name)
}

func withMark(name []byte) string {
	const longest = 40
	for len(name) > longest || len(name) > 0 && name[len(name)-1] == '-' {
		name = name[:len(name)-1]
	}
	if len(name) == 0 {
		name = []byte("host")
	}
	return string(name) + "-hv"
}
