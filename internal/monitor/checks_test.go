package monitor

import (
	"context"
	"log/slog"
	"testing"

	"muster/internal/core"
	"muster/internal/drivers"
	"muster/internal/identity"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

// What fails one of the site's own checks works on, and takes no new jobs until it passes.
func TestANodeThatFailsACheckOfTheSitesTakesNoNewJobs(t *testing.T) {
	db := smallCluster(t)
	kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE node SET phase = 'ready'`)
		return err
	})
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	m := New(db, authority, "test", slog.New(slog.DiscardHandler))
	m.Substrates = drivers.Substrates()
	for _, c := range []struct {
		what   string
		checks []protocol.Check
		tells  int64
		fails  string
	}{
		{"it passes", []protocol.Check{{Name: "sshd", OK: true}, {Name: "disk", OK: true, Limit: "at most 90 %"}}, 0, ""},
		{"it fails", []protocol.Check{{Name: "sshd", OK: true}, {Name: "disk", Limit: "at most 90 %"}}, 1, "disk"},
		{"by another value", []protocol.Check{{Name: "sshd", OK: true}, {Name: "disk", Limit: "at most 90 %", Value: 95}}, 1,
			"disk"},
		{"it passes again", []protocol.Check{{Name: "sshd", OK: true}, {Name: "disk", OK: true, Limit: "at most 90 %"}}, 2, ""},
		{"a check of every node", []protocol.Check{{Name: "sshd"}, {Name: "disk", OK: true, Limit: "at most 90 %"}}, 2, ""},
	} {
		report := protocol.Report{Checks: c.checks}
		if _, err := m.record(t.Context(), identity.Agent{Node: "n1"}, report, 1); err != nil {
			t.Fatal(err)
		}
		kindstest.View(t, db, func(ctx context.Context, tx *core.Tx) error {
			nodes, err := node.Of(ctx, tx, "c1")
			if err != nil {
				return err
			}
			owner, err := cluster.Get(ctx, tx, "c1")
			if err != nil {
				return err
			}
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			n := nodes[1]
			peer := m.peer(owner, n, machine.Machine{Machine: inventory.Machine{Substrate: "local"}}, machine.Machine{}, now)
			if nodes[0].News != c.tells || peer.Fails != c.fails || peer.Drain != (c.fails != "") || peer.Ready == peer.Drain {
				t.Errorf("%s: the head was told %d times, and %+v", c.what, nodes[0].News, peer)
			}
			if healthy := n.Seen.Healthy(0); healthy != c.checks[0].OK {
				t.Errorf("%s: healthy %v", c.what, healthy)
			}
			return nil
		})
	}
}
