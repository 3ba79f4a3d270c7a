package api_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// TestWhoAddsAKeyIsToldWhereItIsNotYet has a head that takes up each configuration a moment later, and cannot do it for one
// person.
func TestWhoAddsAKeyIsToldWhereItIsNotYet(t *testing.T) {
	s, db := server(t, 0)
	tenants(t, db)
	kindstest.AddMachines(t, db, 1)
	change(t, db, func(ctx context.Context, tx *core.Tx) error {
		if err := cluster.AddSeat(ctx, tx, "c-aero", cluster.Seat{Name: "head", Slot: 1}); err != nil {
			return err
		}
		if err := node.Add(ctx, tx, node.Node{ID: "head", Cluster: "c-aero", Name: "head", Role: protocol.Head, Class: "local",
			MachineID: "m1", Machine: "local-1"}); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE node SET phase = 'ready' WHERE id = 'head'`)
		return err
	})
	agent := func(undone ...protocol.Undone) {
		change(t, db, func(ctx context.Context, tx *core.Tx) error {
			c, err := cluster.Get(ctx, tx, "c-aero")
			if err != nil {
				return err
			}
			return node.SaveReport(ctx, tx, "head", protocol.Report{Revision: c.Revision, Undone: undone})
		})
	}
	full := protocol.Undone{User: "member", Text: "home and keys: no space left on device"}
	agent(full)
	ask := func(who string, report func()) reply {
		t.Helper()
		key, line := freshKey(t)
		answer := make(chan reply, 1)
		go func() { answer <- as(t, s, who, "POST", "/v1/keys", registration(t, who, line, key)) }()
		for {
			select {
			case got := <-answer:
				return got
			case <-time.After(headLag):
				report()
			}
		}
	}
	// add asks again where the seconds that a request waits for a head went by on a busy host before the head said anything.
	add := func(who string, report func()) (got reply) {
		t.Helper()
		for range 5 {
			if got = ask(who, report); !strings.Contains(got.text, "has not taken it up yet") {
				break
			}
		}
		return got
	}
	wants(t, add("member", func() { agent(full) }), 201, `"unapplied":["cfd: home and keys: no space left on device"]`)
	if got := add("owner", func() { agent(full) }); got.status != 201 || strings.Contains(got.text, "unapplied") {
		t.Errorf("another person of the cluster: %v", got)
	}
	wants(t, ask("member", func() {}), 201, `its head has not taken it up yet`)
	if got := add("member", func() { agent() }); got.status != 201 || strings.Contains(got.text, "unapplied") {
		t.Errorf("once there is room: %v", got)
	}
}

// headLag is how long the head takes for a configuration.
const headLag = 300 * time.Millisecond
