package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/kit/lists"
	"muster/internal/netboot"
	"muster/internal/netboot/onlink"
	"muster/internal/protocol"
)

// Admit says whether a caller is the machine of a MAC, or the unknown machine that has it.
func (c *Controller) Admit(ctx context.Context, networkName string, mac net.HardwareAddr, who onlink.Caller) error {
	var hold net.HardwareAddr
	err := c.DB.View(ctx, func(tx *core.Tx) error {
		on, err := network.Get(ctx, tx, networkName)
		if err != nil {
			return err
		}
		machineID, err := machine.OwnerOf(ctx, tx, networkName, mac.String())
		if err != nil {
			return err
		}
		if machineID == "" {
			return admitUnknown(ctx, tx, on, mac.String(), who)
		}
		m, err := machine.Get(ctx, tx, machineID)
		if err == nil {
			hold, err = AdmitMachine(ctx, tx, on, m, who)
		}
		return err
	})
	if err == nil && hold != nil {
		err = who.Hold(hold)
	}
	return err
}

// Known says of each of these MACs whether it is an enrolled machine's, or of a network that offers enrolment.
func (c *Controller) Known(ctx context.Context, networkName string, macs []net.HardwareAddr) ([]bool, error) {
	known := make([]bool, len(macs))
	err := c.DB.View(ctx, func(tx *core.Tx) error {
		on, err := network.Get(ctx, tx, networkName)
		if err != nil {
			return err
		}
		words := lists.Map(macs, net.HardwareAddr.String)
		owners, err := network.Owners(ctx, tx, networkName, words)
		for i, mac := range words {
			known[i] = owners[mac] != "" || on.Unknown == inventory.UnknownEnrol
		}
		return err
	})
	return known, err
}

// AdmitMachine says whether a caller is an enrolled machine: by its frames, and by the address that it has. What is for
// that address is to be sent to hold alone; nil: nothing is changed about who is known to have it.
func AdmitMachine(ctx context.Context, tx *core.Tx, on inventory.Network, m machine.Machine,
	who onlink.Caller) (hold net.HardwareAddr, err error) {
	if m.Network != on.Name {
		return nil, fmt.Errorf("%w: it is on network %q", onlink.ErrUnknownMachine, m.Network)
	}
	if err := who.Is(m.MACs); err != nil {
		return nil, err
	}
	if on.Mode == inventory.ModeOwn {
		lease, err := LeaseAt(ctx, tx, on, who.Address)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(m.MACs, lease.MAC) {
			return nil, fmt.Errorf("%w: %s is not its lease", onlink.ErrUnknownMachine, who.Address)
		}
		return net.ParseMAC(lease.MAC)
	}
	if err := taken(ctx, tx, on, m.ID, who.Address); err != nil || !on.Address.Contains(who.Address) {
		return nil, err
	}
	// Root of a machine in use may call from any address that no other machine has yet: only what boots now has something to lose
	// by ARP. Until its boot has switched a machine on, what runs there is what ran before.
	boot, err := machine.BootOn(ctx, tx, m.ID)
	if errors.Is(err, core.ErrNotFound) ||
		err == nil && (boot.Ending || boot.PoweredAt.IsZero() || boot.Step == protocol.StepAgent) {
		return nil, nil
	}
	return who.Sender, err
}

// admitUnknown says whether a caller is the machine that has a MAC, which is not enrolled.
func admitUnknown(ctx context.Context, tx *core.Tx, on inventory.Network, mac string, who onlink.Caller) error {
	if on.Unknown != inventory.UnknownEnrol {
		return netboot.ErrUnknown
	}
	if err := who.Is([]string{mac}); err != nil {
		return err
	}
	if on.Mode != inventory.ModeOwn {
		return taken(ctx, tx, on, "", who.Address)
	}
	lease, err := LeaseAt(ctx, tx, on, who.Address)
	if err == nil && lease.MAC != mac {
		err = fmt.Errorf("%w: %s is not its lease", onlink.ErrUnknownMachine, who.Address)
	}
	return err
}

// LeaseAt is the lease of an address that is not over; the zero Lease if there is none.
func LeaseAt(ctx context.Context, tx *core.Tx, on inventory.Network, address netip.Addr) (network.Lease, error) {
	if !address.Is4() {
		return network.Lease{}, nil
	}
	lease, err := network.LeaseAt(ctx, tx, on.Name, address)
	if errors.Is(err, core.ErrNotFound) {
		return network.Lease{}, nil
	}
	if err != nil || lease.Expires.IsZero() {
		return lease, err
	}
	now, err := tx.Now(ctx)
	if !lease.Expires.After(now) {
		return network.Lease{}, err
	}
	return lease, err
}

// taken says that an address that another DHCP server gives is at this moment that of a machine other than this one: one
// whose first stage has come from there, with the proof of its boot. Of a machine that is off the server may have given it
// to somebody else.
func taken(ctx context.Context, tx *core.Tx, on inventory.Network, machineID string, address netip.Addr) error {
	lease, err := LeaseAt(ctx, tx, on, address)
	if err != nil || lease.MAC == "" {
		return err
	}
	owner, err := machine.OwnerOf(ctx, tx, on.Name, lease.MAC)
	if err != nil || owner == "" || owner == machineID {
		return err
	}
	boot, err := machine.BootOn(ctx, tx, owner)
	if errors.Is(err, core.ErrNotFound) {
		return nil
	}
	if err == nil && order[boot.Step] >= order[protocol.StepInit] {
		err = fmt.Errorf("%w: %s is the address of another machine, which is on", onlink.ErrUnknownMachine, address)
	}
	return err
}

// Held lists the leases of enrolled machines. Of addresses that another server gives, they are those of machines that are on.
func (c *Controller) Held(ctx context.Context, networkName string) ([]netboot.Lease, error) {
	var held []netboot.Lease
	err := c.DB.View(ctx, func(tx *core.Tx) error {
		held = nil
		on, err := network.Get(ctx, tx, networkName)
		if err != nil {
			return err
		}
		leases, err := network.HeldLeases(ctx, tx, networkName)
		for _, l := range leases {
			mac, wrong := net.ParseMAC(l.MAC)
			if wrong == nil && (on.Mode == inventory.ModeOwn || order[l.Step] >= order[protocol.StepInit]) {
				held = append(held, netboot.Lease{MAC: mac, Address: l.Address, Known: true})
			}
		}
		return err
	})
	return held, err
}
