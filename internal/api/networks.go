package api

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
)

func (a *API) networkView(n inventory.Network) apiv1.Network {
	return apiv1.Network{
		Name: n.Name, Namespace: n.Namespace, Interface: n.Interface, Address: text(n.Address), Mode: string(n.Mode),
		First: text(n.First), Last: text(n.Last), Gateway: text(n.Gateway), Unknown: string(n.Unknown), Relays: n.RelayMACs(),
		Switch: a.Drivers.Switches.Named(n.Switch).Name, SwitchBridge: n.SwitchBridge, SwitchDatabase: n.SwitchDatabase,
		Warning: a.Drivers.Switches.Warning(n),
	}
}

// text is an address, empty if there is none.
func text(a interface {
	IsValid() bool
	String() string
}) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func (a *API) listNetworks(ctx context.Context, in *apiv1.Page) (*output[apiv1.List[apiv1.Network]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.Network]) error {
		networks, err := network.List(ctx, tx)
		*out = pagedAs(*in, networks, func(n inventory.Network) string { return n.Name }, a.networkView)
		return err
	})
}

func (a *API) putNetwork(ctx context.Context, in *apiv1.PutNetworkInput) (*output[apiv1.Network], error) {
	n := inventory.Network{
		Name: in.Network, Namespace: in.Body.Namespace, Interface: in.Body.Interface,
		Mode: inventory.Mode(in.Body.Mode), Unknown: inventory.Unknown(in.Body.Unknown),
		Relays: strings.ToLower(strings.Join(in.Body.Relays, ",")),
		Switch: in.Body.Switch, SwitchBridge: in.Body.SwitchBridge, SwitchDatabase: in.Body.SwitchDatabase,
	}
	if in.Body.Name != "" && in.Body.Name != in.Network {
		return nil, invalid(fmt.Sprintf("name: %q is not the %q of the path", in.Body.Name, in.Network),
			"a network keeps its name")
	}
	var err error
	if n.Address, err = netip.ParsePrefix(in.Body.Address); err != nil {
		return nil, invalid(fmt.Sprintf("address: %q", in.Body.Address),
			"write the controller's own address there with the prefix length, as in 10.78.0.1/16")
	}
	for _, field := range []struct {
		name, text string
		address    *netip.Addr
	}{{"first", in.Body.First, &n.First}, {"last", in.Body.Last, &n.Last}, {"gateway", in.Body.Gateway, &n.Gateway}} {
		if field.text == "" {
			continue
		}
		if *field.address, err = netip.ParseAddr(field.text); err != nil {
			return nil, invalid(fmt.Sprintf("%s: %q is no address", field.name, field.text), "write an IPv4 address")
		}
	}
	if err := cmp.Or(n.Validate(), a.Drivers.Switches.Check(n)); err != nil {
		return nil, invalid(err.Error(), "")
	}
	err = a.DB.Update(ctx, func(tx *core.Tx) error {
		if without, err := a.withoutPort(ctx, tx, n); err != nil {
			return err
		} else if len(without) > 0 {
			return conflict(fmt.Sprintf("the switch ports of these machines of network %s are not known: %s", n.Name,
				strings.Join(without, ", ")),
				"remove them with `muster machines remove`, and enrol them again with --port")
		}
		tx.Log(core.Event{Type: "network.requested", Text: fmt.Sprintf("network %s on %s, by %s", n.Name, n.Interface,
			identityOf(ctx))})
		return network.Put(ctx, tx, n)
	})
	return &output[apiv1.Network]{Body: a.networkView(n)}, err
}

// withoutPort names the machines that could not be put into a segment of the network.
func (a *API) withoutPort(ctx context.Context, tx *core.Tx, n inventory.Network) ([]string, error) {
	if !a.Drivers.Switches.Isolates(n) {
		return nil, nil
	}
	machines, err := machine.List(ctx, tx)
	var without []string
	for _, m := range machines {
		if m.Network == n.Name && !m.IsGuest() && len(m.Ports) == 0 {
			without = append(without, m.Name)
		}
	}
	return without, err
}

func (a *API) removeNetwork(ctx context.Context, in *apiv1.NetworkRef) (*output[apiv1.Nothing], error) {
	err := a.DB.Update(ctx, func(tx *core.Tx) error {
		machines, err := machine.List(ctx, tx)
		if err != nil {
			return err
		}
		var on []string
		for _, m := range machines {
			if m.Network == in.Network {
				on = append(on, m.Name)
			}
		}
		if len(on) > 0 {
			return conflict(fmt.Sprintf("machines boot from network %s: %s", in.Network, strings.Join(on, ", ")),
				"remove them first, with `muster machines remove`")
		}
		tx.Log(core.Event{Type: "network.requested", Text: fmt.Sprintf("network %s removed, by %s", in.Network, identityOf(ctx))})
		return network.Remove(ctx, tx, in.Network)
	})
	return nil, err
}

func (a *API) listUnknown(ctx context.Context, in *apiv1.Page) (*output[apiv1.List[apiv1.UnknownMachine]], error) {
	return viewed(ctx, a, func(tx *core.Tx, out *apiv1.List[apiv1.UnknownMachine]) error {
		strangers, err := network.DiscoveredMachines(ctx, tx)
		*out = pagedAs(*in, strangers, func(s network.DiscoveredMachine) string { return s.MAC },
			func(s network.DiscoveredMachine) apiv1.UnknownMachine {
				return apiv1.UnknownMachine{MAC: s.MAC, Network: s.Network, MACs: some(s.MACs), Facts: factsView(s.Facts),
					FirstSeen: s.FirstSeen, LastSeen: s.LastSeen}
			})
		return err
	})
}
