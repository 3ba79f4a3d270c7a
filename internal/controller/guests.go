package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"muster/internal/admission"
	"muster/internal/agent/protocol"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/local"
	"muster/internal/drivers/substrate/remote"
	"muster/internal/drivers/substrate/vm"
	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/inventory"
	"muster/internal/lifecycle"
	"muster/internal/monitor"
	"muster/internal/store"
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
	err := k.db.View(ctx, func(tx *store.Tx) (err error) {
		clusters, err = tx.WithGuests(ctx)
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
			k.Log.Warn("the guests of a cluster are not heard by this controller", "cluster", cluster, "error", err)
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
	plain, err := k.local.Listen(cluster, protocol.AgentPort)
	if err != nil {
		return err
	}
	return k.doors.Limiter(plain, k.budget.ClusterLimits()).Serve(ctx, config, watch.HandlerWithin(cluster))
}

// openGuests makes the ground of guests: on machines of their own, and on this host, if it holds any, or did before.
func (k *controller) openGuests(firstStage func() ([]byte, error)) (lifecycle.Provider, error) {
	provider, err := k.openHere(firstStage)
	elsewhere := remote.New(remote.Config{Ledger: hostingLedger{k.db}, Silence: provider.Limits.Silence, Patience: hypervisorPatience})
	provider.RemoteMover = remote.NewMover(remote.MoverConfig{
		Migrations: migrations{k.db}, Silence: provider.Limits.Silence, Patience: hypervisorPatience, Limit: provider.Limits.Move,
	})
	provider.RemoteSleeper = restRoutes{elsewhere, k.local.Introduce}
	provider.Substrate = guestRoutes{k.db, provider.Substrate, elsewhere, k.local.Introduce}
	return provider, err
}

// openHere makes the ground of guests on this host.
func (k *controller) openHere(firstStage func() ([]byte, error)) (lifecycle.Provider, error) {
	guest := vm.Factory()
	provider := lifecycle.Provider{Substrate: noGuests{}, Inspector: hypervisorInspector{}, Limits: k.limits(guest, guest.Deadlines)}
	if _, err := os.Stat(k.dir.guests()); err != nil && !k.LocalHypervisor {
		return provider, nil
	}
	var err error
	if k.devices, err = k.openDevices(); err != nil {
		return provider, err
	}
	driver, err := vm.New(vm.Config{
		Devices: k.devices,
		Dir:     k.dir.guests(), Images: k.guestImage, FirstStage: firstStage, Binary: k.Binary, Ports: ports{k.local}, Log: k.Log,
		Facts: func(context.Context) (inventory.Facts, error) { return inspectHost() },
	})
	if err != nil {
		return provider, err
	}
	provider.Inspector = hypervisorInspector{k.devices}
	fleet := vm.Fleet(func(host string) (vm.Host, error) {
		if own, err := os.Hostname(); err != nil || host != hypervisorName(own) {
			return nil, errors.Join(err, fmt.Errorf("this controller's host is not %s, and it reaches no other", host))
		}
		return driver, nil
	})
	provider.Mover, provider.Sleeper = fleet, fleet
	provider.Substrate = driver
	if driver.Emulates() {
		provider.Limits = k.limits(guest, guest.Emulated)
	}
	return provider, nil
}

// guestImage finds the files that a guest boots from.
func (k *controller) guestImage(digest string) (vm.Image, error) {
	image, err := findImage(k.images, digest)
	if err != nil {
		return vm.Image{}, err
	}
	if image.Kernel == nil || image.Drivers == nil {
		return vm.Image{}, fmt.Errorf("image %s has no kernel", image.Name)
	}
	return vm.Image{Kernel: filepath.Join(image.Dir, image.Kernel.File), Drivers: filepath.Join(image.Dir, image.Drivers.File), Root: image.Squashfs()}, nil
}

// ports are the clusters' networks as guests are cabled to them.
type ports struct{ *local.Driver }

func (ports) PortName(node string) string { return local.PortName(node) }

// enrolHypervisor sees to it that this host is in the inventory as a machine that holds guests.
func (k *controller) enrolHypervisor(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this host as a hypervisor: %w", err)
	}
	name := hypervisorName(host)
	return k.db.Update(ctx, func(tx *store.Tx) error {
		m, err := tx.Machine(ctx, name)
		switch {
		case err == nil && !m.Hosts:
			return fmt.Errorf("make this host a hypervisor: machine %s is there and is none; remove it first", name)
		case err == nil:
			return nil
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
		tx.Log(store.Event{Type: "machine.enrolled", Machine: name, Text: "this host, as a hypervisor"})
		return tx.AddMachine(ctx, inventory.Machine{ID: admission.NewID("m"), Name: name, Substrate: k.admission.Substrates.Guests(), Hosts: true})
	})
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

// hypervisorInspector looks at this host as one that holds guests.
type hypervisorInspector struct {
	devices *devices.Driver // nil: it gives none
}

func (i hypervisorInspector) Inspect(context.Context, lifecycle.Inspection) (lifecycle.Inspected, error) {
	facts, err := inspectHost()
	if err == nil && i.devices != nil {
		err = markLost(facts.Devices, i.devices)
	}
	if err != nil {
		return lifecycle.Inspected{Stuck: "inspection: " + err.Error()}, nil
	}
	return lifecycle.Inspected{Done: true, Facts: facts}, nil
}

// Rest has nothing to do: what a hypervisor holds beside its guests is nothing.
func (hypervisorInspector) Rest(context.Context, inventory.Machine) (string, error) { return "", nil }

// noGuests is the substrate of guests at a controller whose host holds none. Others may: it knows nothing of theirs.
type noGuests struct{}

var errNoGuests = errors.New("this controller's host holds no guests; start it with --local-hypervisor")

func (noGuests) Ensure(context.Context, substrate.Node) error { return errNoGuests }
func (noGuests) Observe(context.Context, substrate.Ref) (substrate.Observation, error) {
	return substrate.Observation{}, errNoGuests
}
func (noGuests) Remove(context.Context, substrate.Ref) error   { return errNoGuests }
func (noGuests) List(context.Context) ([]substrate.Ref, error) { return nil, nil }
