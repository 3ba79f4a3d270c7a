package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	switches "muster/internal/drivers/switch"
	"muster/internal/inventory"
	"muster/internal/store"
)

// Network is where machines boot.
type Network struct {
	Name      string   `json:"name,omitempty" maxLength:"63" doc:"as in the path"`
	Namespace string   `json:"namespace,omitempty" maxLength:"4000" pattern:"^(/[ -~]*)?$" doc:"path of the network namespace that the interface is in; empty: the host's own"`
	Interface string   `json:"interface" pattern:"^[A-Za-z0-9@._-]+$" maxLength:"15" doc:"of the controller's host; a bridge, if clusters with nodes on that host shall span the network"`
	Address   string   `json:"address" maxLength:"18" doc:"the controller's own there, with prefix length" example:"10.78.0.1/16"`
	Mode      string   `json:"mode" enum:"own,proxy,off" doc:"own: Muster is the DHCP server; proxy: the site has one, and Muster adds what to boot; off: the site's server does all"`
	First     string   `json:"first,omitempty" maxLength:"15" doc:"address given to machines, in mode own"`
	Last      string   `json:"last,omitempty" maxLength:"15"`
	Gateway   string   `json:"gateway,omitempty" maxLength:"15" doc:"told to machines, in mode own"`
	Unknown   string   `json:"unknown" enum:"ignore,enrol" doc:"what becomes of machines that nobody has enrolled: no answer, or they boot the inspector and are offered for enrolment"`
	Relays    []string `json:"relays,omitempty" maxItems:"16" doc:"MACs, on the network, of routers and DHCP relays that machines are behind: what comes from there is believed without the machine's own frames"`
	Switch    string   `json:"switch,omitempty" enum:"none,bridge,ovs" doc:"what keeps clusters apart on it: bridge: machines' ports are interfaces beside the network's, a bridge; ovs: they are Open vSwitch's; none: nothing does"`
	// Of Open vSwitch.
	SwitchBridge   string `json:"switch_bridge,omitempty" pattern:"^[A-Za-z0-9@._-]*$" maxLength:"15" doc:"of switch ovs: its bridge of the machines' ports"`
	SwitchDatabase string `json:"switch_database,omitempty" pattern:"^(unix:/[ -~]+)?$" maxLength:"200" doc:"of switch ovs: where its database is reached" example:"unix:/run/openvswitch/db.sock"`
	Warning        string `json:"warning,omitempty" readOnly:"true" doc:"what is not kept apart"`
}

// UnknownMachine asked to boot and is not enrolled. Nothing of what it says is proved.
type UnknownMachine struct {
	MAC       string          `json:"mac" doc:"that asked to boot"`
	Network   string          `json:"network"`
	MACs      []string        `json:"macs" doc:"all that it says it has"`
	Facts     inventory.Facts `json:"facts" doc:"what it says it is"`
	FirstSeen time.Time       `json:"first_seen"`
	LastSeen  time.Time       `json:"last_seen"`
}

type networkRef struct {
	Network string `path:"network" doc:"name" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"`
}

func (a *API) registerNetworks(api huma.API) {
	tags := []string{"machines"}
	op := func(id, method, path, summary string, errors ...int) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: tags, Errors: errors}
	}
	huma.Register(api, op("list-networks", http.MethodGet, "/v1/networks", "List the networks that machines boot from"), a.listNetworks)
	huma.Register(api, op("put-network", http.MethodPut, "/v1/networks/{network}", "Add a network, or change it", 422), a.putNetwork)
	remove := op("remove-network", http.MethodDelete, "/v1/networks/{network}", "Remove a network that no machine boots from", 404, 409)
	huma.Register(api, remove, a.removeNetwork)
	huma.Register(api, op("list-unknown-machines", http.MethodGet, "/v1/unknown-machines", "List machines that asked to boot and are not enrolled"), a.listUnknown)
}

func networkView(n inventory.Network) Network {
	return Network{
		Name: n.Name, Namespace: n.Namespace, Interface: n.Interface, Address: text(n.Address), Mode: string(n.Mode),
		First: text(n.First), Last: text(n.Last), Gateway: text(n.Gateway), Unknown: string(n.Unknown), Relays: n.RelayMACs(),
		Switch: cmp.Or(n.Switch, inventory.SwitchNone), SwitchBridge: n.SwitchBridge, SwitchDatabase: n.SwitchDatabase, Warning: switches.Warning(n),
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

func (a *API) listNetworks(ctx context.Context, in *Page) (*listOutput[Network], error) {
	out := &listOutput[Network]{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		networks, err := tx.Networks(ctx)
		var all []Network
		for _, n := range networks {
			all = append(all, networkView(n))
		}
		out.Body = pageOf(*in, all, func(n Network) string { return n.Name })
		return err
	})
	return out, a.tell(err, nil)
}

func (a *API) putNetwork(ctx context.Context, in *struct {
	Network string `path:"network" doc:"name" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"`
	Body    Network
}) (*struct{ Body Network }, error) {
	n := inventory.Network{
		Name: in.Network, Namespace: in.Body.Namespace, Interface: in.Body.Interface,
		Mode: inventory.Mode(in.Body.Mode), Unknown: inventory.Unknown(in.Body.Unknown), Relays: strings.ToLower(strings.Join(in.Body.Relays, ",")),
		Switch: in.Body.Switch, SwitchBridge: in.Body.SwitchBridge, SwitchDatabase: in.Body.SwitchDatabase,
	}
	bad := func(text, hint string) error { return problem(http.StatusUnprocessableEntity, "invalid", text, hint) }
	if in.Body.Name != "" && in.Body.Name != in.Network {
		return nil, bad(fmt.Sprintf("name: %q is not the %q of the path", in.Body.Name, in.Network), "a network keeps its name")
	}
	var err error
	if n.Address, err = netip.ParsePrefix(in.Body.Address); err != nil {
		return nil, bad(fmt.Sprintf("address: %q", in.Body.Address), "write the controller's own address there with the prefix length, as in 10.78.0.1/16")
	}
	for _, field := range []struct {
		name, text string
		address    *netip.Addr
	}{{"first", in.Body.First, &n.First}, {"last", in.Body.Last, &n.Last}, {"gateway", in.Body.Gateway, &n.Gateway}} {
		if field.text == "" {
			continue
		}
		if *field.address, err = netip.ParseAddr(field.text); err != nil {
			return nil, bad(fmt.Sprintf("%s: %q is no address", field.name, field.text), "write an IPv4 address")
		}
	}
	if err := n.Validate(); err != nil {
		return nil, bad(err.Error(), "")
	}
	err = a.DB.Update(ctx, func(tx *store.Tx) error {
		if without, err := withoutPort(ctx, tx, n); err != nil {
			return err
		} else if len(without) > 0 {
			return problem(http.StatusConflict, "conflict", fmt.Sprintf("nobody said on which ports of the switch these machines of network %s are: %s", n.Name, strings.Join(without, ", ")),
				"remove them with `muster machines remove`, and enrol them again with --port")
		}
		tx.Log(store.Event{Type: "network.requested", Text: fmt.Sprintf("network %s on %s, by %s", n.Name, n.Interface, identityOf(ctx))})
		return tx.PutNetwork(ctx, n)
	})
	return &struct{ Body Network }{networkView(n)}, a.tell(err, nil)
}

// withoutPort names the machines that could not be put into a segment of the network.
func withoutPort(ctx context.Context, tx *store.Tx, n inventory.Network) ([]string, error) {
	if !n.Isolates() {
		return nil, nil
	}
	machines, err := tx.Machines(ctx)
	var without []string
	for _, m := range machines {
		if m.Network == n.Name && m.Host == "" && len(m.Ports) == 0 {
			without = append(without, m.Name)
		}
	}
	return without, err
}

func (a *API) removeNetwork(ctx context.Context, in *networkRef) (*struct{}, error) {
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		machines, err := tx.Machines(ctx)
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
			return problem(http.StatusConflict, "conflict", fmt.Sprintf("machines boot from network %s: %s", in.Network, strings.Join(on, ", ")), "remove them first, with `muster machines remove`")
		}
		tx.Log(store.Event{Type: "network.requested", Text: fmt.Sprintf("network %s removed, by %s", in.Network, identityOf(ctx))})
		return tx.RemoveNetwork(ctx, in.Network)
	})
	return nil, a.tell(err, nil)
}

func (a *API) listUnknown(ctx context.Context, in *Page) (*listOutput[UnknownMachine], error) {
	out := &listOutput[UnknownMachine]{}
	err := a.DB.View(ctx, func(tx *store.Tx) error {
		strangers, err := tx.Strangers(ctx)
		var all []UnknownMachine
		for _, s := range strangers {
			all = append(all, UnknownMachine{s.MAC, s.Network, some(s.MACs), s.Facts, s.FirstSeen, s.LastSeen})
		}
		out.Body = pageOf(*in, all, func(m UnknownMachine) string { return m.MAC })
		return err
	})
	return out, a.tell(err, nil)
}
