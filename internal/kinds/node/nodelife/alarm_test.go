package nodelife_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/life"
	"muster/internal/kinds/node"
	"muster/internal/kinds/node/nodelife"
	"muster/internal/kinds/person"
	"muster/internal/protocol"
)

// listen has a controller hear the agents of the controllers' host from now on, however long a test takes.
func listen(ctx context.Context, tx *core.Tx) error {
	err := host.Listen(ctx, tx, "", "test")
	_, on := tx.Exec(ctx, `UPDATE listener SET heard_at = heard_at + $1`, time.Hour.Milliseconds())
	return errors.Join(err, on)
}

// A controller that stalls reads a node, and only then what was heard meanwhile of all nodes: none of them is silent any more.
func TestANodeThatWasHeardSinceItWasReadIsNotLost(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		db := kindstest.Open(t, url)
		kindstest.AddMachines(t, db, 1)
		kindstest.AddCluster(t, db, "c1", "hello")
		kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) error {
			if err := kindstest.AddNode(ctx, tx, "n1", "c1", "n1", 1, "m1"); err != nil {
				return err
			}
			if err := listen(ctx, tx); err != nil {
				return err
			}
			return node.SaveReport(ctx, tx, "n1", protocol.Report{Boot: 1, Checks: []protocol.Check{{Name: "slurmd", OK: true}}})
		})
		var n node.Node
		var listened time.Time
		kindstest.View(t, db, func(ctx context.Context, tx *core.Tx) (err error) {
			if n, err = node.Get(ctx, tx, "n1"); err == nil {
				listened, err = host.ListenedSince(ctx, tx, "")
			}
			return err
		})
		d := life.Deps{DB: db, Providers: map[string]life.Provider{"local": {Limits: substrate.Deadlines{Silence: time.Second}}}}
		n.Boot, n.Phase, n.PhaseAt = 1, core.Ready, listened.Add(-time.Hour)
		for heard, want := range map[time.Duration]core.Phase{0: core.Failed, time.Minute: ""} {
			kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE observed SET seen_at = $1, well_at = $1`, listened.Add(heard).UnixMilli())
				return err
			})
			o := nodelife.Alive(t.Context(), d, n, "", "local", listened, listened.Add(time.Minute),
				func() { t.Error("it is taken for well") })
			if o.Phase != want || o.Err != nil {
				t.Errorf("heard after %s: %s: %s, %v", heard, o.Phase, o.Text, o.Err)
			}
		}
	})
}

// An alarm may end between the moments at which a node was read and at which it is judged.
func TestANodeThatWasReadBeforeAnAlarmEndedHasItsTimeAgain(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		db := kindstest.Open(t, url)
		var now time.Time
		err := db.Update(t.Context(), func(tx *core.Tx) (err error) {
			if err = host.RaiseAlarm(t.Context(), tx, "", "all are silent"); err == nil {
				err = listen(t.Context(), tx)
			}
			now, _ = tx.Now(t.Context())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		d := life.Deps{DB: db, Providers: map[string]life.Provider{"local": {Limits: substrate.Deadlines{Silence: time.Second}}}}
		n := node.Node{Life: core.Life{Phase: core.Ready, PhaseAt: now.Add(-time.Hour)}}
		judge := func(listened, now time.Time) core.Outcome {
			return nodelife.Alive(t.Context(), d, n, "", "local", listened, now, func() { t.Error("it is taken for well") })
		}
		if err := db.Update(t.Context(), func(tx *core.Tx) error {
			return host.ClearAlarm(t.Context(), tx, "", "over")
		}); err != nil {
			t.Fatal(err)
		}
		if o := judge(now.Add(-time.Hour), now); o.Phase != "" || o.Err != nil {
			t.Errorf("%s: %s, %v", o.Phase, o.Text, o.Err)
		}
		var listened time.Time // as it would be, had nothing ended meanwhile
		err = db.View(t.Context(), func(tx *core.Tx) (err error) {
			listened, err = host.ListenedSince(t.Context(), tx, "")
			return err
		})
		if o := judge(listened, listened.Add(time.Minute)); o.Phase != core.Failed || err != nil {
			t.Errorf("%s: %s, %v, %v", o.Phase, o.Text, o.Err, err)
		}
	})
}

// One project lets all its nodes fall silent, which are most of the site's: what others have lost is replaced after ten times the
// limit, and their clusters are as well as they were. Where it is no single project's doing, no node is replaced.
func TestNodesOfOneProjectKeepNoOthersFromBeingReplaced(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		db := kindstest.Open(t, url)
		kindstest.AddMachines(t, db, 12)
		of := map[string]string{"c1": "aero", "c2": "bio", "c3": "chem"} // projects by cluster
		for id := range of {
			kindstest.AddCluster(t, db, id, id)
		}
		kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) error {
			for i, cluster := range strings.Fields("c1 c1 c1 c1 c1 c1 c2 c2 c2 c3 c3 c3") {
				id := fmt.Sprintf("n%d", i+1)
				if err := kindstest.AddNode(ctx, tx, id, cluster, id, i+1, fmt.Sprintf("m%d", i+1)); err != nil {
					return err
				}
				check := []protocol.Check{{Name: "slurmd", OK: true}}
				if err := node.SaveReport(ctx, tx, id, protocol.Report{Boot: 1, Checks: check}); err != nil {
					return err
				}
			}
			for id, project := range of {
				if err := person.AddProject(ctx, tx, person.Project{Name: project}); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, `UPDATE cluster SET project = $2 WHERE id = $1`, id, project); err != nil {
					return err
				}
			}
			_, err := tx.Exec(ctx, `UPDATE node SET phase = 'joining', boot = 1, machine = 'local-' || SUBSTR(machine, 2)`)
			return errors.Join(err, host.RaiseAlarm(ctx, tx, "", "many are lost"), listen(ctx, tx))
		})
		limits := substrate.Deadlines{Silence: time.Hour, MaxLostShare: 0.25, FailureWindow: time.Hour}
		d := life.Deps{DB: db, Providers: map[string]life.Provider{
			"local": {Limits: limits, Caps: substrate.Capabilities{OnHost: true}}}}
		pass := func(nodes string, hours int64) (now time.Time) { // in which these are silent
			kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) error {
				ms := hours * time.Hour.Milliseconds()
				_, err := tx.Exec(ctx, `UPDATE observed SET well_since = well_since - $1`, ms)
				_, also := tx.Exec(ctx, `UPDATE listener SET since = since - $1`, ms)
				err = errors.Join(err, also)
				for _, id := range strings.Fields(nodes) {
					_, seen := tx.Exec(ctx, `UPDATE observed SET seen_at = seen_at - $2, well_at = well_at - $2 WHERE node_id = $1`, id, ms)
					_, failed := tx.Exec(ctx, `UPDATE node SET phase_at = phase_at - $2, failed_at = now_ms() WHERE id = $1`, id, ms)
					err = errors.Join(err, seen, failed)
				}
				now, _ = tx.Now(ctx)
				return err
			})
			return now
		}
		judged := func(now time.Time, want core.Phase) {
			t.Helper()
			var n node.Node
			kindstest.View(t, db, func(ctx context.Context, tx *core.Tx) (err error) {
				n, err = node.Get(ctx, tx, "n7")
				return err
			})
			o := nodelife.Alive(t.Context(), d, n, "bio", "local", now.Add(-20*time.Hour), now,
				func() { t.Error("it is taken for well") })
			if o.Phase != want || o.Err != nil || want == "" && !strings.Contains(o.Text, "is not given up: ") {
				t.Errorf("n7: %s: %s, %v", o.Phase, o.Text, o.Err)
			}
		}
		known := func(concerned, many string) {
			t.Helper()
			kindstest.View(t, db, func(ctx context.Context, tx *core.Tx) error {
				for id, project := range of {
					c, err := cluster.Get(ctx, tx, id)
					all, err2 := d.FailureDomain(ctx, tx, "", project, limits)
					alarms, err3 := d.AlarmsOf(ctx, tx, id)
					waits, err4 := d.ManyFailed(ctx, tx, c)
					if err = errors.Join(err, err2, err3, err4); err != nil {
						return err
					}
					if !all.Many() || all.ManyWithoutAny() != strings.Contains(many, id) ||
						(len(alarms) > 0) != strings.Contains(concerned, id) ||
						(waits != "") != (strings.Contains(many, id) && strings.Contains(concerned, id)) {
						t.Errorf("%s: %s: %t, %v, %q", id, all, all.ManyWithoutAny(), alarms, waits)
					}
				}
				return nil
			})
		}
		pass("", 24)
		judged(pass("n1 n2 n3 n4 n5 n6 n7", 2), "")
		known("c1 c2", "c1")
		now := pass("n1 n2 n3 n4 n5 n6 n7", 10)
		judged(now, core.Failed)
		wellSince := func(expression string) {
			kindstest.Update(t, db, func(ctx context.Context, tx *core.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE observed SET well_since = `+expression+` WHERE node_id = 'n8'`)
				return err
			})
		}
		wellSince("now_ms()") // one of its project is heard again: others may follow
		judged(now, "")
		wellSince("1")
		judged(pass("n8 n9 n10", 12), "")
		known("c1 c2 c3", "c1 c2 c3")
	})
}
