package monitor

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
	"muster/internal/spec"
)

func TestAHeadIsToldItsPartInAPause(t *testing.T) {
	for _, test := range []struct {
		name          string
		phase         core.Phase
		keeps, leaves bool
		want          protocol.PauseStep
	}{
		{"no pause", core.Ready, false, false, ""},
		{"jobs are queued again", cluster.Pausing, false, false, protocol.PauseBegins},
		{"its nodes are gone", cluster.Pausing, false, true, protocol.PauseHalt},
		{"its nodes are to sleep", cluster.Pausing, true, false, ""},
		{"its nodes sleep when it has gone", cluster.Pausing, true, true, protocol.PauseSleep},
		{"a delete", core.Deleting, true, true, ""},
	} {
		head := node.Node{Role: protocol.Head, Desired: core.Present}
		if test.leaves {
			head.Desired = node.Absent
		}
		c := cluster.Cluster{KeepsMemory: test.keeps, Life: core.Life{Phase: test.phase}}
		if got := pauseStep(c, head); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestWhatAConfigurationCostsDoesNotGrowWithTheSite: each node reads its own each time that its cluster changes.
func TestWhatAConfigurationCostsDoesNotGrowWithTheSite(t *testing.T) {
	db := kindstest.Open(t, t.TempDir()+"/db")
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	ctx, machines := t.Context(), 0
	more := func(tx *core.Tx, n int) error {
		for range n {
			machines++
			name := fmt.Sprintf("m%d", machines)
			if err := machine.Add(ctx, tx, inventory.Machine{ID: name, Name: name, Substrate: "local",
				Facts: inventory.Facts{CPUs: 2}}); err != nil {
				return err
			}
		}
		return nil
	}
	err = db.Update(ctx, func(tx *core.Tx) error {
		c := cluster.Cluster{ID: "c1", Project: kindstest.Project, Name: "c1", Spec: spec.Cluster{Name: "c1"}, Image: "sha256:00",
			Credential: core.NewSecret([]byte("k")), CreatedBy: kindstest.Admin}
		n := node.Node{ID: "n1", Cluster: "c1", Name: "head", Role: protocol.Head, MachineID: "m1", Machine: "m1"}
		return errors.Join(more(tx, 2), cluster.Add(ctx, tx, c),
			cluster.AddSeat(ctx, tx, "c1", cluster.Seat{Name: "head", Slot: 1}), node.Add(ctx, tx, n),
			node.StartBoot(ctx, tx, "n1", "sha256:00", false))
	})
	if err != nil {
		t.Fatal(err)
	}
	claims, err := db.Claim(ctx, node.Kind, "test", time.Minute, 1)
	if err == nil {
		err = db.Update(ctx, func(tx *core.Tx) error {
			_, err := node.UseToken(ctx, tx, "n1", 1, "k")
			return errors.Join(err, tx.Settle(ctx, claims[0], core.Settlement{Phase: node.Booting, Never: true}))
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	m := New(db, authority, "test", slog.New(slog.DiscardHandler))
	if c, _, err := m.configOf(ctx, identity.Agent{Node: "n1", Boot: 1}, 0); err != nil || !c.First {
		t.Errorf("its scheduler is believed to know it: %v", err)
	}
	since := kindstest.Costs(t, db)
	rows := func() int {
		t.Helper()
		since()
		c, _, err := m.configOf(ctx, identity.Agent{Node: "n1", Boot: 1}, 0)
		if err != nil || c.Self.CPUs != 2 || len(c.Peers) != 1 {
			t.Fatalf("%+v, %v", c, err)
		}
		return since().Rows
	}
	few := rows()
	if err := db.Update(ctx, func(tx *core.Tx) error { return more(tx, 50) }); err != nil {
		t.Fatal(err)
	}
	if many := rows(); many != few {
		t.Errorf("%d rows are read at a site of 52 machines, %d at one of 2", many, few)
	}
	known, _, err := m.configOf(ctx, identity.Agent{Node: "n1", Boot: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	since()
	c, self, err := m.configOf(ctx, identity.Agent{Node: "n1", Boot: 1}, known.Revision)
	if c != nil || err != nil || self.ID != "n1" {
		t.Errorf("who knows it is told again: %+v, %v", c, err)
	}
	if least := since().Rows; least >= few {
		t.Errorf("%d rows are read for who knows it, %d for who does not", least, few)
	}

	statuses := map[int]int{}
	for range 200 { // it has been told, and asks again as if it had not
		answer := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/agent/v1/config?after=0", nil)
		m.config(answer, r, identity.Agent{Node: "n1", Boot: 1})
		statuses[answer.Code]++
	}
	if told := statuses[http.StatusOK]; told < 60 || told > 80 || told+statuses[http.StatusTooManyRequests] != 200 {
		t.Errorf("two hundred times the same is answered %v", statuses)
	}
}
