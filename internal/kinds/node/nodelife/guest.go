package nodelife

import (
	"context"
	"fmt"
	"reflect"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/host"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/protocol"
)

// Nodes and machines that are guests: what differs from whole machines. A guest's machine is there for its one node: it is
// made reserved, and removed when the node has left it. It is not inspected, and never quarantined: what its failure casts a
// doubt on is its host.

// apart says why the node's machine, or the host of it, is set apart; "" if it is not.
func (n nodeView) apart() string {
	for _, m := range []machine.Machine{n.machine, n.host} {
		if m.QuarantineReason != "" {
			return fmt.Sprintf("machine %s is quarantined: %s", m.Name, m.QuarantineReason)
		}
	}
	return ""
}

// attachGuest completes the boot file of a guest, whose NIC is on its cluster's network itself. There it finds the
// controllers at the gateway's address, and /home on the head.
func (n nodeView) attachGuest(file *protocol.BootFile) {
	mac := substrate.MAC(n.cluster.Segment, n.Slot).String()
	file.Endpoints = []string{protocol.Endpoint(substrate.Gateway().Addr())}
	file.Attachment = &protocol.Attachment{
		NIC: mac, MAC: mac, Address: substrate.Address(n.Slot).String(), Home: substrate.Address(substrate.HeadSlot).Addr().
			String() + ":/home",
		Gateway: protocol.Neighbour{Address: substrate.Gateway().Addr().String(),
			MAC: substrate.MAC(n.cluster.Segment, substrate.GatewaySlot).String()},
	}
}

// blameHost tells of a guest's failure at its host, and has that looked at again. It is not set apart for it: it may hold
// other clusters' guests, and what a tenant does in one of them must not take it from all. The failed node's successor
// goes elsewhere if it can: see admission.
func (n nodeView) blameHost(ctx context.Context, tx *core.Tx) error {
	tx.Log(core.Event{Type: "machine.warning", Machine: n.host.Name, Text: fmt.Sprintf("its guest %s failed: %s", n.machine.Name,
		n.Reason)})
	return machine.AskInspection(ctx, tx, n.host.ID)
}

// settleAllocation adds to an outcome that the guest has what it was seen to have of its host, which has the last word. If the
// database has given some of that to another meanwhile, it is the guest that is here which ends: the other was promised it.
func (w Handlers) settleAllocation(ctx context.Context, n nodeView, seen substrate.Observation, o core.Outcome) core.Outcome {
	if n.machine.Allocation == nil || seen.Allocation == nil || seen.Boot != n.Boot ||
		reflect.DeepEqual(seen.Allocation, n.machine.Allocation) {
		return o
	}
	g := host.Guest{Machine: n.machine.Machine, Allocation: *seen.Allocation}
	g.Facts = host.PartFacts(n.host.Facts, g.Allocation, g.Facts.CPUs, g.Facts.MemoryMiB)
	holder, err := core.Look(ctx, w.DB, func(tx *core.Tx) (string, error) { return host.Holder(ctx, tx, g) })
	switch {
	case err != nil:
		return core.Retry(err)
	case holder != "":
		return n.fail("%s gave it cores or devices that guest %s has", n.host.Name, holder).Because(life.CauseMachine)
	}
	return o.With(func(ctx context.Context, tx *core.Tx) error {
		if err := cluster.LockAdmission(ctx, tx); err != nil { // placement of guests sees all of it, or nothing
			return err
		}
		tx.Log(core.Event{Type: "machine.part", Machine: n.machine.Name,
			Text: fmt.Sprintf("%s gave it other cores or devices than were chosen for it", n.host.Name)})
		if err := host.SetAllocation(ctx, tx, g); err != nil {
			return err
		}
		return fabrics.Rejoin(ctx, tx, n.ID, n.Cluster, g.Machine, g.Allocation.Devices)
	})
}

// awaitsHost says what a guest's node waits for that is placed on a machine which is no hypervisor yet; fails is why it waits in
// vain. Both are "" where its host is there.
func (n nodeView) awaitsHost() (waits, fails string) {
	h := n.host
	switch {
	case !h.HostsOnDemand() || h.Phase == machine.InUse:
		return "", ""
	case h.Phase == machine.Quarantined || h.Phase == machine.Maintenance || h.Desired != machine.ForService:
		return "", fmt.Sprintf("machine %s is %s", h.Name, h.Phase)
	}
	return fmt.Sprintf("waits for its host %s, which is %s: %s", h.Name, h.Phase, h.Reason), ""
}
