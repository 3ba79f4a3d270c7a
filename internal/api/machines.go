package api

import (
	"context"
	"fmt"
	"slices"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/spec"
)

func (a *API) listMachines(ctx context.Context, in *apiv1.ListMachinesInput) (*output[apiv1.List[apiv1.Machine]], error) {
	class, known := a.Admission.Catalogue.Find(in.Class)
	if in.Class != "" && !known {
		return nil, noClass(in.Class)
	}
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Machine]) error {
		out.Items = []apiv1.Machine{}
		of := machine.Filter{Phase: core.Phase(in.Phase), Network: in.Network, Rack: in.Rack}
		if in.Cluster != "" {
			c, err := a.find(ctx, tx, in.Cluster)
			if err != nil {
				return err
			}
			of.ClusterID = c.ID
		}
		machines, err := pageOfClass(ctx, tx, of, class, in.Cursor, in.Limit+1)
		if err != nil || len(machines) == 0 {
			return err
		}
		if len(machines) > in.Limit {
			machines = machines[:in.Limit]
			out.Next = machines[in.Limit-1].Name
		}
		var guests map[string][]machine.Machine
		if slices.ContainsFunc(machines, func(m machine.Listed) bool { return m.Hosts }) {
			all, err := machine.GuestsBetween(ctx, tx, machines[0].Name, machines[len(machines)-1].Name)
			if err != nil {
				return err
			}
			guests = byHost(all)
		}
		for _, m := range machines {
			view := a.listedView(m)
			view.Hosts = shareView(m.Machine, guests[m.ID])
			out.Items = append(out.Items, view)
		}
		return nil
	})
}

// mostAtOnce is how many machines are read at a time to find those of a class.
const mostAtOnce = 1000

// pageOfClass lists machines like machine.Page, of a class if one is given: the database cannot check its conditions.
func pageOfClass(ctx context.Context, tx *core.Tx, of machine.Filter, class inventory.Class, after string,
	limit int) (all []machine.Listed, err error) {
	if class.Name == "" {
		return machine.Page(ctx, tx, of, after, limit)
	}
	for {
		page, err := machine.Page(ctx, tx, of, after, mostAtOnce)
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			if class.Selects(m.Machine.Machine, m.Summary) {
				all = append(all, m)
			}
		}
		if len(all) >= limit || len(page) < mostAtOnce {
			return all[:min(len(all), limit)], nil
		}
		after = page[mostAtOnce-1].Name
	}
}

func (a *API) getMachine(ctx context.Context, in *apiv1.MachineRef) (*output[apiv1.Machine], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.Machine) error {
		m, err := machine.Get(ctx, tx, in.Machine)
		if err != nil {
			return err
		}
		guests, err := machine.GuestsOn(ctx, tx, m.ID)
		*out = a.machineView(m)
		out.Hosts = shareView(m, guests)
		if err == nil {
			out.Ports, err = portViews(ctx, tx, m.ID)
		}
		return err
	})
}

func (a *API) inspectMachine(ctx context.Context, in *apiv1.MachineRef) (*output[apiv1.Machine], error) {
	return a.onMachine(ctx, in.Machine, "inspect", func(ctx context.Context, tx *core.Tx, m machine.Machine) error {
		return machine.AskInspection(ctx, tx, m.ID)
	})
}

func (a *API) maintainMachine(ctx context.Context, in *apiv1.MachineRef) (*output[apiv1.Machine], error) {
	return a.onMachine(ctx, in.Machine, "maintain", func(ctx context.Context, tx *core.Tx, m machine.Machine) error {
		return machine.Want(ctx, tx, m.ID, machine.ForMaintenance)
	})
}

func (a *API) freeMachine(ctx context.Context, in *apiv1.MachineRef) (*output[apiv1.Machine], error) {
	return a.onMachine(ctx, in.Machine, "free", func(ctx context.Context, tx *core.Tx, m machine.Machine) error {
		if m.Phase == machine.Maintenance || m.Phase == machine.Quarantined { // else it never left
			if err := machine.AskInspection(ctx, tx, m.ID); err != nil {
				return err
			}
		}
		return machine.Want(ctx, tx, m.ID, machine.ForService)
	})
}

func (a *API) removeMachine(ctx context.Context, in *apiv1.MachineRef) (*output[apiv1.Machine], error) {
	return a.onMachine(ctx, in.Machine, "remove", func(ctx context.Context, tx *core.Tx, m machine.Machine) error {
		return machine.Want(ctx, tx, m.ID, machine.ForRemoval)
	})
}

// drainMachine is for hypervisors: a machine that carries a node of its own has nothing that could go elsewhere.
func (a *API) drainMachine(ctx context.Context, in *apiv1.MachineRef) (*output[apiv1.Machine], error) {
	return a.onMachine(ctx, in.Machine, "drain", drain)
}

func drain(ctx context.Context, tx *core.Tx, m machine.Machine) error {
	if !m.Hosts {
		return conflict(fmt.Sprintf("machine %s holds no guests that could move", m.Name),
			fmt.Sprintf("`muster machines maintain %s` takes it out of service when its node has gone; `muster machines "+
				"quarantine %s` replaces the node now", m.Name, m.Name))
	}
	return host.DrainMachine(ctx, tx, m.ID)
}

func (a *API) quarantineMachine(ctx context.Context, in *apiv1.QuarantineMachineInput) (*output[apiv1.Machine], error) {
	return a.onMachine(ctx, in.Machine, "quarantine", func(ctx context.Context, tx *core.Tx, m machine.Machine) error {
		why := "by " + identityOf(ctx)
		if in.Body.Reason != "" {
			why += ": " + in.Body.Reason
		}
		return machine.Quarantine(ctx, tx, m, why)
	})
}

func (a *API) placeMachine(ctx context.Context, in *apiv1.PlaceMachineInput) (*output[apiv1.Machine], error) {
	at := locationOf(in.Body.Location)
	if err := at.Check(); err != nil {
		return nil, spec.Diagnostics{{Code: spec.CodeBadValue, Path: "location.unit", Text: err.Error(),
			Hint: "its highest unit is unit + height - 1"}}
	}
	said := "stands in " + at.String()
	return a.onMachine(ctx, in.Machine, said, func(ctx context.Context, tx *core.Tx, m machine.Machine) error {
		return machine.Place(ctx, tx, m.ID, at)
	})
}

func locationOf(l *apiv1.Location) inventory.Location {
	if l == nil {
		return inventory.Location{}
	}
	return inventory.Location{Rack: l.Rack, Unit: l.Unit, Height: max(l.Height, 1), Slot: l.Slot}
}

func (a *API) onMachine(ctx context.Context, name, verb string,
	act func(context.Context, *core.Tx, machine.Machine) error) (*output[apiv1.Machine], error) {
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Machine) error {
		m, err := machine.Get(ctx, tx, name)
		if err != nil {
			return err
		}
		if m.IsGuest() && verb != "quarantine" {
			return conflict(fmt.Sprintf("machine %s is a guest of %s and is there for its node alone", m.Name, m.HostName),
				"do it to "+m.HostName+", or to the cluster")
		}
		if err := act(ctx, tx, m); err != nil {
			return err
		}
		tx.Log(core.Event{Type: "machine.requested", Machine: m.Name, Text: verb + ", by " + identityOf(ctx)})
		m, err = machine.Get(ctx, tx, name)
		*out = a.machineView(m)
		return err
	})
}
