package serve

import (
	"context"
	"errors"

	"muster/internal/core"
	"muster/internal/drivers"
	"muster/internal/drivers/power"
	"muster/internal/drivers/substrate"
	"muster/internal/hostd"
	"muster/internal/hostd/calls"
	"muster/internal/inventory"
	"muster/internal/kinds/host/hosting"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine/machinelife"
	"muster/internal/kit/private"
)

// substrates are those of the site.
func (k *controller) substrates() substrate.Registry {
	if k.Substrates != nil {
		return k.Substrates
	}
	return drivers.Substrates()
}

// openSubstrates opens all that there are. The first that makes what clusters share makes it for the others.
func (k *controller) openSubstrates(ctx context.Context) error {
	all := k.admission.Substrates
	env := substrate.Env{
		Binary:  k.Binary,
		Sockets: k.dir.Sockets(),
		Log:     k.Log,
		Site:    k.admission.Catalogue,
		Images:  hostd.Stored{Store: k.images},
		Keys:    k.authority,
		Host:    substrate.Host{Machine: hosting.HypervisorName(k.host), Guests: k.LocalHypervisor, Divide: k.Divide},
		Boots:   machinelife.Boots{DB: k.db},
		Power:   k.power,
		Place:   k.ports.Place,
		Notices: machinelife.Notices{DB: k.db, Log: k.Log},
	}
	agent, err := k.startAgent(ctx, env)
	if err != nil {
		return err
	}
	k.providers = map[string]life.Provider{}
	for _, f := range all {
		env.Dir = f.In(k.Data)
		opened, err := k.openSubstrate(ctx, f, env, agent)
		if err != nil {
			return err
		}
		if made, makes := opened.(calls.Host); makes && k.shared == nil {
			k.shared = made
		}
		if w, works := opened.(substrate.Worker); works {
			k.workers = append(k.workers, w)
		}
		if k.providers[f.Name], err = life.NewProvider(ctx, f, opened, k.admission.Catalogue); err != nil {
			return err
		}
	}
	if k.shared == nil {
		return errors.New("no substrate of the list makes the networks of clusters")
	}
	return nil
}

// openSubstrate opens one here, or calls the one that the agent of this host has opened.
func (k *controller) openSubstrate(ctx context.Context, f substrate.Factory, env substrate.Env, agent *calls.Agent) (
	substrate.Substrate, error) {
	switch {
	case !f.ByAgent:
		return f.Open(ctx, env)
	case f.Caps.Guest:
		here, err := agent.Guests(ctx, f.Name)
		return hosting.New(here, env.Host.Machine, k.shared, k.db, life.Deadlines(f, f.Deadlines, k.admission.Catalogue)), err
	}
	return agent.Host(f.Name), nil
}

// enrolHypervisor sees to it that this host is in the inventory as a machine that holds guests.
func (k *controller) enrolHypervisor(ctx context.Context) error {
	return k.db.Update(ctx, func(tx *core.Tx) error {
		return hosting.Enrol(ctx, tx, inventory.Machine{ID: core.NewID("m"), Name: hosting.HypervisorName(k.host),
			Substrate: k.admission.Substrates.Guests()})
	})
}

// power is what switches a machine.
func (k *controller) power(m substrate.Machine) (power.Driver, error) {
	site := power.Site{Programs: private.Dir(k.dir.Commands()), Secrets: private.Dir(k.dir.Secrets())}
	return drivers.Power().Open(site, power.Target{
		Machine: m.Name, Power: m.Power, MACs: m.MACs, Network: m.On, Address: m.Address, UEFI: m.Facts.System.UEFI,
	})
}
