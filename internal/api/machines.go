package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/store"
)

type machineRef struct {
	Machine string `path:"machine" doc:"name" maxLength:"63"`
}

type machineOutput struct{ Body Machine }

func (a *API) registerMachines(api huma.API) {
	tags := []string{"machines"}
	op := func(id, method, path, summary string, errors ...int) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: tags, Errors: errors}
	}
	huma.Register(api, op("list-machines", http.MethodGet, "/v1/machines", "List machines"), a.listMachines)
	enrol := op("add-machines", http.MethodPost, "/v1/machines", "Enrol machines", 409, 422)
	enrol.DefaultStatus = http.StatusCreated
	huma.Register(api, enrol, a.addMachines)
	huma.Register(api, op("get-machine", http.MethodGet, "/v1/machines/{machine}", "Show a machine", 404), a.getMachine)
	for _, verb := range []struct {
		name, summary string
		act           func(context.Context, *store.Tx, store.Machine) error
	}{
		{"inspect", "Inspect a machine again when it is free", func(ctx context.Context, tx *store.Tx, m store.Machine) error { return tx.AskInspection(ctx, m.ID) }},
		{"maintain", "Take a machine out of service as soon as it is free", func(ctx context.Context, tx *store.Tx, m store.Machine) error {
			return tx.WantMachine(ctx, m.ID, store.ForMaintenance)
		}},
		{"drain", "Take a hypervisor out of service and have its guests go to other hosts", drain},
		{"free", "Put a machine back into service, after an inspection", func(ctx context.Context, tx *store.Tx, m store.Machine) error {
			if m.Phase == store.Maintenance || m.Phase == store.Quarantined { // else it never left
				if err := tx.AskInspection(ctx, m.ID); err != nil {
					return err
				}
			}
			return tx.WantMachine(ctx, m.ID, store.ForService)
		}},
	} {
		huma.Register(api, op(verb.name+"-machine", http.MethodPost, "/v1/machines/{machine}/"+verb.name, verb.summary, 404, 409), func(ctx context.Context, in *machineRef) (*machineOutput, error) {
			return a.onMachine(ctx, in.Machine, verb.name, verb.act)
		})
	}
	apart := op("quarantine-machine", http.MethodPost, "/v1/machines/{machine}/quarantine", "Set a machine apart now; a node on it is ended and replaced", 404)
	huma.Register(api, apart, a.quarantineMachine)
	huma.Register(api, op("remove-machine", http.MethodDelete, "/v1/machines/{machine}", "Remove a machine from the inventory as soon as it is free", 404), func(ctx context.Context, in *machineRef) (*machineOutput, error) {
		return a.onMachine(ctx, in.Machine, "remove", func(ctx context.Context, tx *store.Tx, m store.Machine) error {
			return tx.WantMachine(ctx, m.ID, store.ForRemoval)
		})
	})
}

func (a *API) listMachines(ctx context.Context, in *Page) (*listOutput[Machine], error) {
	out := &listOutput[Machine]{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		machines, err := tx.Machines(ctx)
		if err != nil {
			return err
		}
		cut := pageOf(*in, machines, func(m store.Machine) string { return m.Name })
		out.Body = List[Machine]{Items: []Machine{}, Next: cut.Next}
		guests := byHost(machines)
		for _, m := range cut.Items {
			view := a.machineView(m)
			view.Hosts = shareView(m, guests[m.ID])
			out.Body.Items = append(out.Body.Items, view)
		}
		return nil
	})
	return out, a.tell(err, nil)
}

func (a *API) getMachine(ctx context.Context, in *machineRef) (*machineOutput, error) {
	out := &machineOutput{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		m, err := tx.Machine(ctx, in.Machine)
		if err != nil {
			return err
		}
		guests, err := tx.GuestsOn(ctx, m.ID)
		out.Body = a.machineView(m)
		out.Body.Hosts = shareView(m, guests)
		if err == nil {
			out.Body.Ports, err = portViews(ctx, tx, m.ID)
		}
		return err
	})
	return out, a.tell(err, nil)
}

// drain is for hypervisors: a machine that carries a node of its own has nothing that could go elsewhere.
func drain(ctx context.Context, tx *store.Tx, m store.Machine) error {
	if !m.Hosts {
		return problem(http.StatusConflict, "conflict", fmt.Sprintf("machine %s holds no guests that could move", m.Name),
			fmt.Sprintf("`muster machines maintain %s` takes it out of service when its node has gone; `muster machines quarantine %s` replaces the node now", m.Name, m.Name))
	}
	return tx.DrainMachine(ctx, m.ID)
}

type quarantine struct {
	Machine string `path:"machine" doc:"name" maxLength:"63"`
	Body    struct {
		Reason string `json:"reason,omitempty" maxLength:"200" doc:"why, for whoever looks after the machine"`
	}
}

func (a *API) quarantineMachine(ctx context.Context, in *quarantine) (*machineOutput, error) {
	return a.onMachine(ctx, in.Machine, "quarantine", func(ctx context.Context, tx *store.Tx, m store.Machine) error {
		why := "by " + identityOf(ctx)
		if in.Body.Reason != "" {
			why += ": " + in.Body.Reason
		}
		return tx.QuarantineMachine(ctx, m, why)
	})
}

func (a *API) onMachine(ctx context.Context, name, verb string, act func(context.Context, *store.Tx, store.Machine) error) (*machineOutput, error) {
	out := &machineOutput{}
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		m, err := tx.Machine(ctx, name)
		if err != nil {
			return err
		}
		if m.Host != "" && verb != "quarantine" {
			return problem(http.StatusConflict, "conflict", fmt.Sprintf("machine %s is a guest of %s and is there for its node alone", m.Name, m.HostName), "do it to "+m.HostName+", or to the cluster")
		}
		if err := act(ctx, tx, m); err != nil {
			return err
		}
		tx.Log(store.Event{Type: "machine.requested", Machine: m.Name, Text: verb + ", by " + identityOf(ctx)})
		m, err = tx.Machine(ctx, name)
		out.Body = a.machineView(m)
		return err
	})
	return out, a.tell(err, nil)
}
