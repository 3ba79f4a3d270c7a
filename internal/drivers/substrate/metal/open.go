package metal

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/protocol"
)

// switchAgain is how long a machine may look off after it was switched on.
const switchAgain = 15 * time.Second

// machines is the driver with the images that machines boot for their own sake.
type machines struct {
	*Driver
	images substrate.Images
	keys   substrate.Keys
}

var (
	_ substrate.Inspector        = machines{}
	_ substrate.HypervisorBooter = machines{}
)

func openDriver(_ context.Context, e substrate.Env) (substrate.Substrate, error) {
	driver := New(Config{Ledger: e.Boots, Power: e.Power, Again: switchAgain, Place: e.Place})
	return machines{driver, e.Images, e.Keys}, nil
}

// Inspect boots the inspector image on a machine.
func (o machines) Inspect(ctx context.Context, in substrate.Inspection) (substrate.Inspected, error) {
	p, err := o.own(ctx, in, inventory.InspectorImage, o.Driver.Inspect)
	if err != nil || p.Findings == nil {
		return substrate.Inspected{Doing: p.Doing, Stuck: p.Stuck}, err
	}
	seen := substrate.Inspected{Done: true, Checks: p.Findings.Checks, Erased: p.Findings.Erased, Key: p.Key}
	if err := json.Unmarshal(p.Findings.Facts, &seen.Facts); err != nil {
		return substrate.Inspected{Stuck: fmt.Sprintf("sent facts that cannot be read: %v", err)}, nil
	}
	seen.Facts.BMC, seen.Unread = p.Accounts, p.Unread // not what the machine says of itself
	return seen, nil
}

// Host boots the hypervisor image on a machine.
func (o machines) Host(ctx context.Context, m inventory.Machine, number int64) (doing, stuck string, err error) {
	p, err := o.own(ctx, substrate.Inspection{Machine: m, Number: number}, inventory.HypervisorImage, o.Driver.Host)
	return p.Doing, p.Stuck, err
}

// End switches a hypervisor off.
func (o machines) End(ctx context.Context, m inventory.Machine) error { return o.EndHost(ctx, m) }

// own takes a machine's boot of an image of the site's own a step further.
func (o machines) own(ctx context.Context, in substrate.Inspection, image string,
	step func(context.Context, Inspection) (Progress, error)) (Progress, error) {
	digest, err := o.images.Named(image)
	if err != nil {
		return Progress{}, fmt.Errorf("boot image %s on machine %s: %w; `muster images build %[1]s` makes it", image,
			in.Machine.Name, err)
	}
	m, err := o.config.Ledger.Machine(ctx, in.Machine.Name)
	if err != nil {
		return Progress{}, fmt.Errorf("boot image %s on machine %s: %w", image, in.Machine.Name, err)
	}
	return step(ctx, Inspection{
		Machine: in.Machine, Number: in.Number, Image: digest, Erase: in.Erase,
		File: protocol.BootFile{
			Node: m.ID, Name: m.Name, Boot: in.Number, Authority: o.keys.AgentsPEM(),
			Endpoints: []string{protocol.Endpoint(m.On.Address.Addr())},
		},
	})
}
