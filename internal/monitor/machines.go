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

// from checks that a call for a machine comes from that machine.
func from(ctx context.Context, tx *store.Tx, machine string, r *http.Request) error {
	m, err := tx.Machine(ctx, machine)
	if err != nil {
		return err
	}
	at, remote := place(r)
	if remote != (m.Network != "") {
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

// admitInspection lets the agent of an inspection in, once a boot.
func (m *Monitor) admitInspection(ctx context.Context, tx *store.Tx, who identity.Agent, fingerprint string, r *http.Request) error {
	if err := from(ctx, tx, who.Node, r); err != nil {
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
		boot, err := tx.BootOf(r.Context(), who.Node)
		if err == nil && (boot.Number != who.Boot || boot.Ending) {
			err = errRefused
		}
		what = protocol.Inspection{Erase: boot.Erase, Within: testsWithin}
		return err
	})
	m.answer(w, r, what, err)
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
