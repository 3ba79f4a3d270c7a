package serve

import (
	"cmp"
	"context"
	"errors"

	"muster/internal/core"
	"muster/internal/drivers"
	"muster/internal/drivers/substrate"
	"muster/internal/hostd"
	"muster/internal/hostd/calls"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
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
	machine, err := hostMachine()
	if err != nil {
		return err
	}
	all := k.admission.Substrates
	env := substrate.Env{
		Binary:  k.Binary,
		Sockets: k.dir.sockets(),
		Log:     k.Log,
		Site:    k.admission.Catalogue,
		Images:  hostd.Stored{Store: k.images},
		Keys:    k.authority,
		Host:    substrate.Host{Machine: machine, Guests: k.LocalHypervisor, Divide: k.Divide},
		Boots:   boots{k.db},
		Power:   newPower(k.dir, drivers.Power()),
		Place:   k.ports.place,
		Notices: notices{k},
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
		if k.providers[f.Name], err = life.NewProvider(ctx, f, opened, k.limits); err != nil {
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
		return guestHosts{here, newHosts(k.db, k.limits(f, f.Deadlines)), env.Host.Machine, k.shared}, err
	}
	return agent.Host(f.Name), nil
}

// limits are deadlines of a substrate as the site file sets them.
func (k *controller) limits(of substrate.Factory, l substrate.Deadlines) substrate.Deadlines {
	if boot := k.admission.Catalogue.BootWithin; boot > 0 && of.Caps.WholeMachine {
		l.Boot, l.Inspection = boot, boot
	}
	if l.Idle > 0 {
		l.Idle = cmp.Or(k.admission.Catalogue.HypervisorIdle, l.Idle)
	}
	l.Silence = cmp.Or(k.admission.Catalogue.Silence, l.Silence)
	l.MaxLostShare = cmp.Or(k.admission.Catalogue.MaxLostShare, l.MaxLostShare)
	return l
}

// notices are what substrates say, in the log of events and in that of the controller.
type notices struct{ *controller }

func (n notices) Machine(ctx context.Context, name, text string) {
	err := n.db.Update(ctx, func(tx *core.Tx) error {
		tx.Log(core.Event{Type: "machine.warning", Machine: name, Text: text})
		return nil
	})
	if err != nil && ctx.Err() == nil {
		n.Log.Error("an alarm could not be written down", "machine", name, "alarm", text, "error", err)
	}
}

func (n notices) Inspect(ctx context.Context, name string) error {
	return n.db.Update(ctx, func(tx *core.Tx) error {
		m, err := machine.Get(ctx, tx, name)
		if errors.Is(err, core.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return machine.AskInspection(ctx, tx, m.ID)
	})
}
