package admission

import (
	"context"
	"errors"
	"fmt"

	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kit/lists"
	"muster/internal/place"
)

// Elsewhere finds another host for the guest that carries a node: of its class, with room for it. If the guest is to go there
// while it runs, that host is a hypervisor already, reaches is true for it, and the guest sees the same machine there; a nil
// reaches says that another guest may take its place. The guest is returned as it would be there. why says that there is none.
// To act on it, call it in the transaction that does.
func (a *Admission) Elsewhere(ctx context.Context, tx *core.Tx, n node.Node,
	reaches func(host machine.Machine) bool) (g host.Guest, why string, err error) {
	if err := cluster.LockAdmission(ctx, tx); err != nil {
		return g, "", err
	}
	machines, err := machine.List(ctx, tx)
	if err != nil {
		return g, "", err
	}
	here := lists.By(machines, func(m machine.Machine) string { return m.ID })
	guest, h := here[n.MachineID], here[n.HostID]
	class, known := a.Catalogue.Find(n.Class)
	if guest.Allocation == nil || !known {
		return g, "its class " + n.Class + " no longer exists", nil
	}
	asked := guestOf(member{vm: n.VM}, class)
	var hosts []place.Host
	var of []machine.Machine
	others := 0
	for _, r := range a.rooms(machines, "") {
		if r.machine.ID == h.ID || !class.Has(r.machine.Machine) || reaches != nil && !(r.machine.Hosts && reaches(r.machine)) {
			continue
		}
		others++
		at := []place.Host{{Name: r.machine.Name, Room: r.Room}}
		placed, err := spread(asked, 1, at, nil)
		if reaches != nil && err == nil && placed[0].Allocation.View(r.Facts) != guest.Allocation.View(h.Facts) {
			continue // whatever is best for it there
		}
		hosts, of = append(hosts, at[0]), append(of, r.machine)
	}
	if others > 0 && len(hosts) == 0 {
		return g, fmt.Sprintf("no other host of class %s has the same CPUs and memory layout", class.Name), nil
	}
	placed, err := spread(asked, 1, hosts, nil)
	var short *place.GuestShortage
	if errors.As(err, &short) {
		return g, fmt.Sprintf("no other host of class %s has room for it: %s", class.Name, short), nil
	}
	if err != nil {
		return g, "", err
	}
	to := of[placed[0].Host]
	allocation := placed[0].Allocation
	allocation.Guest = guest.Name
	facts := host.PartFacts(to.Facts, allocation, asked.CPUs, asked.MemoryMiB)
	return host.Guest{Machine: inventory.Machine{ID: guest.ID, Name: guest.Name, Substrate: guest.Substrate, Host: to.ID,
		Facts: facts}, Allocation: allocation}, "", nil
}
