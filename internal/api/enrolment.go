package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/kit/lists"
	"muster/internal/kit/pattern"
	"muster/internal/spec"
)

// addMachines enrols machines.
func (a *API) addMachines(ctx context.Context, in *apiv1.AddMachinesInput) (*output[apiv1.List[apiv1.Machine]], error) {
	b := in.Body
	enrols := a.Admission.Substrates.Of(b.Substrate).Enrols
	switch {
	case b.Name != "" && b.Count > 1:
		return nil, invalid("name: one name cannot be given to several machines",
			"leave the name out, or enrol one at a time")
	case enrols == substrate.ByNumber && len(b.Machines) > 0:
		return nil, invalid(fmt.Sprintf("machines: %s machines are not listed", b.Substrate), "give count, or substrate "+
			strings.Join(a.Admission.Substrates.Enrolled(substrate.ByList), " or "))
	case enrols == substrate.ByList && len(b.Machines) == 0:
		return nil, invalid("machines: no machine is listed", "give name, macs, network and power of at least one")
	}
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Machine]) error {
		out.Items = []apiv1.Machine{}
		machines, err := a.newMachines(ctx, tx, in)
		if err == nil {
			err = tx.LockSite(ctx) // before any row is, as who places a machine locks it
		}
		if err != nil {
			return err
		}
		for i, m := range machines {
			m.ID = core.NewID("m")
			if err := machine.Add(ctx, tx, m); err != nil {
				return err
			}
			if m.Location.Rack != "" {
				err = machine.Place(ctx, tx, m.ID, m.Location)
			}
			switch {
			case errors.Is(err, core.ErrExists):
				return spec.Diagnostics{{Code: spec.CodeBadValue, Path: fmt.Sprintf("machines[%d].location.unit", i),
					Text: err.Error(), Hint: "a place has one machine"}}
			case err != nil:
				return err
			}
			tx.Log(core.Event{Type: "machine.enrolled", Machine: m.Name, Text: "enrolled by " + identityOf(ctx)})
			stored, err := machine.Get(ctx, tx, m.ID)
			if err != nil {
				return err
			}
			out.Items = append(out.Items, a.machineView(stored))
		}
		return nil
	})
}

// newMachines is what a request asks to enrol.
func (a *API) newMachines(ctx context.Context, tx *core.Tx, in *apiv1.AddMachinesInput) ([]inventory.Machine, error) {
	b := in.Body
	if a.Admission.Substrates.Of(b.Substrate).Enrols == substrate.ByList {
		return a.wholeMachines(ctx, tx, b.Substrate, b.Machines)
	}
	known, err := machine.List(ctx, tx)
	if err != nil {
		return nil, err
	}
	used := lists.SetBy(known, func(m machine.Machine) string { return m.Name })
	var machines []inventory.Machine
	for number := 1; len(machines) < b.Count; number++ {
		name := b.Name
		if name == "" {
			name = fmt.Sprintf("%s-%d", b.Substrate, number)
			if used[name] {
				continue
			}
		}
		machines = append(machines, inventory.Machine{Name: name, Substrate: b.Substrate,
			Facts: inventory.Facts{CPUs: b.CPUs, MemoryMiB: b.MemoryMiB}})
	}
	return machines, nil
}

// portName is what an interface can be called (Linux, dev_valid_name), without what would need quotes.
var portName = pattern.New(`^[A-Za-z0-9@._-]{1,15}$`)

// portsInUse are machines' names by "NETWORK/PORT".
func portsInUse(ctx context.Context, tx *core.Tx) (map[string]string, error) {
	machines, err := machine.List(ctx, tx)
	ports := map[string]string{}
	for _, m := range machines {
		for _, p := range m.Ports {
			ports[m.Network+"/"+p] = m.Name
		}
	}
	return ports, err
}

// wholeMachines checks every machine of a list before any is enrolled, and says all that is wrong.
func (a *API) wholeMachines(ctx context.Context, tx *core.Tx, kind string, list []apiv1.NewMachine) ([]inventory.Machine, error) {
	var machines []inventory.Machine
	var wrong spec.Diagnostics
	names, macs := map[string]string{}, map[string]string{}
	ports, err := portsInUse(ctx, tx)
	if err != nil {
		return nil, err
	}
	for i, n := range list {
		path := fmt.Sprintf("machines[%d]", i)
		bad := func(field, text, hint string) {
			wrong = append(wrong, spec.Diagnostic{Code: spec.CodeBadValue, Path: path + "." + field, Text: text, Hint: hint})
		}
		m := inventory.Machine{Name: n.Name, Substrate: kind, Network: n.Network,
			Power: inventory.Power{Control: n.Power, Credentials: n.Credentials}, Location: locationOf(n.Location)}
		if other, twice := names[n.Name]; twice {
			bad("name", fmt.Sprintf("%s is the name of %s too", n.Name, other), "names are unique")
		}
		names[n.Name] = path
		if err := m.Location.Check(); err != nil {
			bad("location.unit", err.Error(), "its highest unit is unit + height - 1")
		}
		on, err := network.Get(ctx, tx, n.Network)
		if isNotFound(err) {
			bad("network", fmt.Sprintf("there is no network %q", n.Network),
				"`muster networks list` shows those there are; `muster networks add` makes one")
		} else if err != nil {
			return nil, err
		}
		for j, text := range n.MACs {
			mac, err := net.ParseMAC(text)
			field := fmt.Sprintf("macs[%d]", j)
			switch {
			case err != nil || len(mac) != 6:
				bad(field, fmt.Sprintf("%q is not a MAC address", text), "write six pairs of hex digits, as in 52:54:00:12:34:56")
				continue
			case mac[0]&1 == 1:
				bad(field, fmt.Sprintf("%s is a group address", mac), "give the NIC's own")
			case macs[mac.String()] != "":
				bad(field, fmt.Sprintf("%s is listed twice, here and for %s", mac, macs[mac.String()]),
					"a MAC belongs to one machine")
			}
			macs[mac.String()] = path
			m.MACs = append(m.MACs, mac.String())
			if err := network.ForgetDiscovered(ctx, tx, mac.String()); err != nil {
				return nil, err
			}
		}
		switch {
		case a.Drivers.Switches.Isolates(on) && len(n.Ports) == 0:
			bad("ports", fmt.Sprintf("missing; the switch of network %s keeps clusters apart, and has to know where the "+
				"machine is", n.Network), "name the switch's port of each MAC, in their order: --port, or the column ports of a list")
		case len(n.Ports) > 0 && len(n.Ports) != len(n.MACs):
			bad("ports", fmt.Sprintf("%d ports for %d MACs", len(n.Ports), len(n.MACs)), "name one for each MAC, in their order")
		}
		for j, port := range n.Ports {
			key := n.Network + "/" + port
			switch {
			case !portName.MatchString(port):
				bad(fmt.Sprintf("ports[%d]", j), fmt.Sprintf("%q is no port", port),
					"write the switch's own name of it, as in eth7 or m1n0")
			case ports[key] != "":
				bad(fmt.Sprintf("ports[%d]", j), fmt.Sprintf("%s is the port of %s", port, ports[key]), "a port has one machine")
			}
			ports[key] = n.Name
		}
		m.Ports = n.Ports
		if err := a.Drivers.Power.Validate(m.Power); err != nil {
			bad("power", err.Error(), "`muster machines add --help` shows the kinds")
		}
		machines = append(machines, m)
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return machines, nil
}
