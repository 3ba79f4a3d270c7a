package controller

import (
	"context"
	"encoding/json"
	"fmt"

	"muster/internal/agent/protocol"
	"muster/internal/drivers/power"
	"muster/internal/drivers/substrate/metal"
	"muster/internal/environment/identity"
	"muster/internal/environment/images"
	"muster/internal/inventory"
	"muster/internal/lifecycle"
	"muster/internal/private"
	"muster/internal/store"
)

// inspectorImage is the name of the image that looks at machines.
const inspectorImage = "inspector"

// metalInspector looks at whole machines by booting the inspector image on them.
type metalInspector struct {
	driver    *metal.Driver
	db        *store.Store
	authority *identity.Authority
	images    *images.Store
}

func (i metalInspector) Inspect(ctx context.Context, in lifecycle.Inspection) (lifecycle.Inspected, error) {
	m := in.Machine
	var on inventory.Network
	err := i.db.View(ctx, func(tx *store.Tx) (err error) {
		on, err = tx.Network(ctx, m.Network)
		return err
	})
	if err != nil {
		return lifecycle.Inspected{}, err
	}
	image, err := i.images.Get(inspectorImage)
	if err != nil {
		return lifecycle.Inspected{}, fmt.Errorf("inspect machine %s: %w; `muster images build %s` makes it", m.Name, err, inspectorImage)
	}
	p, err := i.driver.Inspect(ctx, metal.Inspection{
		Machine: m, Number: in.Number, Image: image.Digest, Erase: in.Erase,
		File: protocol.Boot{Node: m.ID, Name: m.Name, Boot: in.Number, Authority: i.authority.AgentsPEM(), Endpoints: []string{protocol.Endpoint(on.Address.Addr())}},
	})
	if err != nil || p.Findings == nil {
		return lifecycle.Inspected{Doing: p.Doing, Stuck: p.Stuck}, err
	}
	seen := lifecycle.Inspected{Done: true, Checks: p.Findings.Checks, Erased: p.Findings.Erased, Key: p.Key}
	if err := json.Unmarshal(p.Findings.Facts, &seen.Facts); err != nil {
		return lifecycle.Inspected{Stuck: fmt.Sprintf("sent facts that cannot be read: %v", err)}, nil
	}
	seen.Facts.BMC, seen.Unread = p.Accounts, p.Unread // not what the machine says of itself
	return seen, nil
}

func (i metalInspector) Rest(ctx context.Context, m inventory.Machine) (string, error) {
	return i.driver.Rest(ctx, m)
}

// localInspector looks at the machines of this host.
type localInspector struct{}

func (localInspector) Inspect(_ context.Context, in lifecycle.Inspection) (lifecycle.Inspected, error) {
	facts, err := inspectLocal(in.Machine)
	if err != nil {
		return lifecycle.Inspected{Stuck: "inspection: " + err.Error()}, nil
	}
	return lifecycle.Inspected{Done: true, Facts: facts}, nil
}

// Rest has nothing to do: a part of this host without a node is nothing.
func (localInspector) Rest(context.Context, inventory.Machine) (string, error) { return "", nil }

// newPower makes drivers of power controls.
func newPower(d dir, all power.Registry) func(metal.Machine) (power.Driver, error) {
	site := power.Site{Programs: private.Dir(d.commands()), Secrets: private.Dir(d.secrets())}
	return func(m metal.Machine) (power.Driver, error) {
		return all.Open(site, power.Target{
			Machine: m.Name, Power: m.Power, MACs: m.MACs, Network: m.On, Address: m.Address, UEFI: m.Facts.System.UEFI,
		})
	}
}
