package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"muster/internal/agent/protocol"
	"muster/internal/environment/identity"
	"muster/internal/store"
	"muster/internal/substrate"
)

// testsWithin bounds the health tests of an inspection.
const testsWithin = time.Minute

// place is where an agent's call comes from. A call over a network of machines comes from the address of the machine's
// lease, so a token taken from one machine is of no use to another.
func place(r *http.Request) (netip.Addr, bool) {
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

// fromNode checks that a call for a node comes from its machine: a guest's over its cluster's network, from its own
// address there.
func fromNode(ctx context.Context, tx *store.Tx, n store.Node, r *http.Request) error {
	if n.HostID == "" {
		return from(ctx, tx, n.MachineID, r)
	}
	at, remote := place(r)
	if !remote || within(r) != n.Cluster || at != substrate.Address(n.Slot).Addr() {
		return fmt.Errorf("%w: it came from the wrong place", errRefused)
	}
	return nil
}

// from checks that a call for a machine comes from that machine.
func from(ctx context.Context, tx *store.Tx, machine string, r *http.Request) error {
	m, err := tx.Machine(ctx, machine)
	if err != nil {
		return err
	}
	at, remote := place(r)
	if remote != (m.Network != "") || within(r) != "" {
		return fmt.Errorf("%w: it came from the wrong place", errRefused)
	}
	if !remote {
		return nil
	}
	lease, err := tx.LeaseAt(ctx, m.Network, at)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for _, mac := range m.MACs {
		if err == nil && lease.MAC == mac {
			return nil
		}
	}
	return fmt.Errorf("%w: it came from %s, which is not the machine's address", errRefused, at)
}

// admitInspection lets the agent of a machine's own boot in, for an inspection or as a hypervisor: once by the boot's token,
// later by its certificate.
func (m *Monitor) admitInspection(ctx context.Context, tx *store.Tx, who identity.Agent, fingerprint string, renewal bool, r *http.Request) error {
	if err := from(ctx, tx, who.Node, r); err != nil {
		return err
	}
	if renewal {
		_, err := ownBoot(ctx, tx, who)
		return err
	}
	used, err := tx.UseInspectionToken(ctx, who.Node, who.Boot, fingerprint)
	if err == nil && !used {
		err = errRefused
	}
	return err
}

// inspection tells a machine that booted for an inspection what to do.
func (m *Monitor) inspection(w http.ResponseWriter, r *http.Request, who identity.Agent) {
	var what protocol.Inspection
	err := m.db.View(r.Context(), func(tx *store.Tx) error {
		boot, err := ownBoot(r.Context(), tx, who)
		what = protocol.Inspection{Erase: boot.Erase, Within: testsWithin}
		return err
	})
	m.answer(w, r, what, err)
}

// ownBoot is the boot of a machine for its own sake, if it is the one that its agent is of and goes on.
func ownBoot(ctx context.Context, tx *store.Tx, who identity.Agent) (store.Boot, error) {
	boot, err := tx.BootOf(ctx, who.Node)
	if err == nil && (!boot.Inspection() || boot.Number != who.Boot || boot.Ending) {
		err = errRefused
	}
	return boot, err
}

// findings writes down what an inspection says.
func (m *Monitor) findings(w http.ResponseWriter, r *http.Request, who identity.Agent) {
	var findings protocol.Findings
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit)).Decode(&findings); err != nil {
		http.Error(w, "unreadable findings: "+err.Error(), http.StatusBadRequest)
		return
	}
	err := m.db.Update(r.Context(), func(tx *store.Tx) error {
		saved, err := tx.SaveFindings(r.Context(), who.Node, who.Boot, findings)
		if err == nil && !saved {
			err = errRefused
		}
		tx.Wake(store.MachineKind, who.Node)
		return err
	})
	m.answer(w, r, struct{}{}, err)
}
