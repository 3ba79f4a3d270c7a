package monitor

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"muster/internal/agent/protocol"
	"muster/internal/environment/identity"
	"muster/internal/inventory"
	"muster/internal/spec"
	"muster/internal/store"
	"muster/internal/store/storetest"
)

func TestAHeadIsToldItsPartInAPause(t *testing.T) {
	for _, test := range []struct {
		name          string
		phase         store.Phase
		keeps, leaves bool
		want          protocol.PauseStep
	}{
		{"no pause", store.Ready, false, false, ""},
		{"jobs are queued again", store.Pausing, false, false, protocol.PauseCheckpoint},
		{"its nodes are gone", store.Pausing, false, true, protocol.PauseHalt},
		{"its nodes are to sleep", store.Pausing, true, false, ""},
		{"its nodes sleep when it has gone", store.Pausing, true, true, protocol.PauseSleep},
		{"a delete", store.Deleting, true, true, ""},
	} {
		head := store.Node{Role: protocol.Head, Desired: store.Present}
		if test.leaves {
			head.Desired = store.Absent
		}
		c := store.Cluster{KeepsMemory: test.keeps, Life: store.Life{Phase: test.phase}}
		if got := pauseStep(c, head); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestWhatAConfigurationCostsDoesNotGrowWithTheSite: each node reads its own each time that its cluster changes.
func TestWhatAConfigurationCostsDoesNotGrowWithTheSite(t *testing.T) {
	db := storetest.Open(t, t.TempDir()+"/db")
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	ctx, machines := t.Context(), 0
	more := func(tx *store.Tx, n int) error {
		for range n {
			machines++
			name := fmt.Sprintf("m%d", machines)
			if err := tx.AddMachine(ctx, inventory.Machine{ID: name, Name: name, Substrate: "local", Facts: inventory.Facts{CPUs: 2}}); err != nil {
				return err
			}
		}
		return nil
	}
	err = db.Update(ctx, func(tx *store.Tx) error {
		c := store.Cluster{ID: "c1", Project: storetest.Project, Name: "c1", Spec: spec.Cluster{Name: "c1"}, Image: "sha256:00",
			Credential: store.NewSecret([]byte("k")), CreatedBy: storetest.Admin}
		n := store.Node{ID: "n1", Cluster: "c1", Name: "head", Role: protocol.Head, MachineID: "m1", Machine: "m1"}
		return errors.Join(more(tx, 2), tx.AddCluster(ctx, c), tx.AddSeat(ctx, "c1", store.Seat{Name: "head", Slot: 1}), tx.AddNode(ctx, n),
			tx.StartBoot(ctx, "n1", "sha256:00", false))
	})
	if err != nil {
		t.Fatal(err)
	}
	claims, err := db.Claim(ctx, store.NodeKind, "test", time.Minute, 1)
	if err == nil {
		err = db.Update(ctx, func(tx *store.Tx) error {
			_, err := tx.UseToken(ctx, "n1", 1, "k")
			return errors.Join(err, tx.Settle(ctx, claims[0], store.Settlement{Phase: store.Booting, Never: true}))
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	m := New(db, authority, "test", slog.New(slog.DiscardHandler))
	if c, _, err := m.configOf(ctx, identity.Agent{Node: "n1", Boot: 1}); err != nil || !c.First {
		t.Errorf("its scheduler is believed to know it: %v", err)
	}
	since := storetest.Costs(t, db)
	rows := func() int {
		t.Helper()
		since()
		c, _, err := m.configOf(ctx, identity.Agent{Node: "n1", Boot: 1})
		if err != nil || c.Self.CPUs != 2 || len(c.Peers) != 1 {
			t.Fatalf("%+v, %v", c, err)
		}
		return since().Rows
	}
	few := rows()
	if err := db.Update(ctx, func(tx *store.Tx) error { return more(tx, 50) }); err != nil {
		t.Fatal(err)
	}
	if many := rows(); many != few {
		t.Errorf("%d rows are read at a site of 52 machines, %d at one of 2", many, few)
	}
}
