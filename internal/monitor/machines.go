package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/identity"
	"muster/internal/inventory"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/kinds/node"
	"muster/internal/netboot/control"
	"muster/internal/netboot/onlink"
	"muster/internal/protocol"
)

// testsWithin bounds the health tests of an inspection.
const testsWithin = time.Minute

// callerAddress is where an agent's call comes from. A call over a network of machines comes from the address of the machine's
// lease, so a token taken from one machine is of no use to another.
func callerAddress(r *http.Request) (netip.Addr, bool) {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil { // a unix socket: a node of this host
		return netip.Addr{}, false
	}
	return at.Addr().Unmap(), true
}

// withinKey is the context's key for the cluster in whose network a call came in.
type withinKey struct{}

// within is that cluster; "" for a call that came in elsewhere.
func within(r *http.Request) string {
	cluster, _ := r.Context().Value(withinKey{}).(string)
	return cluster
}

// onKey is the context's key for the network of machines that a call came in on.
type onKey struct{}

// on is that network; "" for a call that came in elsewhere.
func on(r *http.Request) string {
	network, _ := r.Context().Value(onKey{}).(string)
	return network
}

// fromNode checks that a call for a node comes from its machine: a guest's over its cluster's network, from its own
// address there.
func fromNode(ctx context.Context, tx *core.Tx, n node.Node, r *http.Request) error {
	if !n.IsGuest() {
		return from(ctx, tx, n.MachineID, r)
	}
	return atGuest(n, r)
}

func atGuest(n node.Node, r *http.Request) error {
	at, remote := callerAddress(r)
	if !remote || within(r) != n.Cluster || at != substrate.Address(n.Slot).Addr() {
		return fmt.Errorf("%w: it came from the wrong place", errRefused)
	}
	return nil
}

// from checks that a call for a machine comes from that machine, over its own network: from its address there, and by
// frames of its own.
func from(ctx context.Context, tx *core.Tx, machineID string, r *http.Request) error {
	m, network, err := at(ctx, tx, machineID, r)
	if err != nil || !m.BootsFromNetwork() {
		return err
	}
	who := onlink.CallerIn(r.Context())
	hold, err := control.AdmitMachine(ctx, tx, network, m, who)
	if errors.Is(err, onlink.ErrUnknownMachine) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if err == nil && hold != nil {
		err = who.Hold(hold) // its certificates are for it alone
	}
	return err
}

// at is the first half of from: a call comes over a machine's network, from its address there.
func at(ctx context.Context, tx *core.Tx, machineID string, r *http.Request) (m machine.Machine, over inventory.Network,
	err error) {
	if m, err = machine.Get(ctx, tx, machineID); err != nil {
		return m, over, err
	}
	address, remote := callerAddress(r)
	if remote != m.BootsFromNetwork() || within(r) != "" || remote && on(r) != m.Network {
		return m, over, fmt.Errorf("%w: it came from the wrong place", errRefused)
	}
	if !remote {
		return m, over, nil
	}
	if over, err = network.Get(ctx, tx, m.Network); err != nil {
		return m, over, err
	}
	lease, err := control.LeaseAt(ctx, tx, over, address)
	if err == nil && !slices.Contains(m.MACs, lease.MAC) {
		err = fmt.Errorf("%w: it came from %s, which is not the machine's address", errRefused, address)
	}
	return m, over, err
}

// admitInspection lets the agent of a machine's own boot in, for an inspection or as a hypervisor: once by the boot's token,
// later by its certificate.
func (m *Monitor) admitInspection(ctx context.Context, tx *core.Tx, who identity.Agent, fingerprint string, renewal bool,
	r *http.Request) error {
	if err := from(ctx, tx, who.Node, r); err != nil {
		return err
	}
	if renewal {
		boot, err := ownBoot(ctx, tx, who)
		if err == nil && boot.JoinedKey != fingerprint {
			err = fmt.Errorf("%w: its certificate is for one key, and this is another", errRefused)
		}
		return err
	}
	return orRefused(machine.UseInspectionToken(ctx, tx, who.Node, who.Boot, fingerprint))
}

// inspection tells a machine that booted for an inspection what to do.
func (m *Monitor) inspection(w http.ResponseWriter, r *http.Request, who identity.Agent) {
	what, err := core.Look(r.Context(), m.db, func(tx *core.Tx) (protocol.Inspection, error) {
		boot, err := ownBoot(r.Context(), tx, who)
		return protocol.Inspection{Erase: boot.Erase, Within: testsWithin}, err
	})
	m.answer(w, r, what, err)
}

// ownBoot is the boot of a machine for its own sake, if it is the one that its agent is of and goes on, and if the agent
// has the key that joined it.
func ownBoot(ctx context.Context, tx *core.Tx, who identity.Agent) (machine.Boot, error) {
	boot, err := machine.BootOf(ctx, tx, who.Node)
	if err == nil && (!boot.Inspection() || boot.Number != who.Boot || boot.Ending || boot.JoinedKey == "" ||
		boot.JoinedKey != who.Key) {
		err = errRefused
	}
	return boot, err
}

// boundFindings cuts the texts that a machine says, those of its facts too.
func boundFindings(f *protocol.Findings) error {
	if len(f.Facts) == 0 {
		return nil
	}
	var facts inventory.Facts
	err := json.Unmarshal(f.Facts, &facts)
	if err != nil {
		return fmt.Errorf("facts: %w", err)
	}
	facts.Bound()
	f.Facts, err = json.Marshal(facts)
	return err
}

// findings writes down what an inspection says.
func (m *Monitor) findings(w http.ResponseWriter, r *http.Request, who identity.Agent) {
	var findings protocol.Findings
	if !m.read(w, r, bodyLimit, &findings) {
		return
	}
	if err := boundFindings(&findings); err != nil {
		http.Error(w, "unreadable findings: "+err.Error(), http.StatusBadRequest)
		return
	}
	err := m.db.Update(r.Context(), func(tx *core.Tx) error {
		err := orRefused(machine.SaveFindings(r.Context(), tx, who.Node, who.Boot, who.Key, findings))
		tx.Wake(machine.Kind, who.Node)
		return err
	})
	m.answer(w, r, struct{}{}, err)
}
