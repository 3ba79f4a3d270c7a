package monitor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

func TestWhatAHeadCouldNotDoIsToldOnceAndItsEndToo(t *testing.T) {
	db := kindstest.Open(t, t.TempDir()+"/db")
	full := protocol.Undone{User: "alice", Text: "home and keys: no space left on device"}
	link := protocol.Undone{User: "bob", Text: "home and keys: .ssh is a link"}
	other := protocol.Undone{User: "bob", Text: "home and keys: no space left on device"}
	var before []protocol.Undone
	tells := 0
	may := func() bool {
		tells++
		return tells <= 10
	}
	says := func(now ...protocol.Undone) {
		t.Helper()
		kindstest.Update(t, db, func(_ context.Context, tx *core.Tx) error {
			tellUndone(tx, cluster.Cluster{ID: "c1", Name: "cfd", Project: "lab"},
				node.Node{Name: "head", Seen: node.Observed{Undone: before}}, now, may)
			return nil
		})
		before = now
	}
	for _, now := range [][]protocol.Undone{{full, link}, {full, link}, {full, other}, {other}, nil} {
		says(now...)
	}
	told := toldOf(t, db)
	want := []string{"for alice not done, and tried again: " + full.Text, "for bob not done, and tried again: " + link.Text,
		"for bob not done, and tried again: " + other.Text, "for alice done after all", "for bob done after all"}
	if !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}

	for i := range 20 { // a head in wrong hands: news of many, again and again
		var many []protocol.Undone
		for n := range 64 {
			many = append(many, protocol.Undone{User: fmt.Sprint("user", n), Text: fmt.Sprint(i)})
		}
		says(many...)
	}
	told = toldOf(t, db)
	if last := told[len(told)-1]; len(told) != len(want)+6*mostUndone || last != "57 more were not done, and are tried again" {
		t.Errorf("%d events are written, the last one: %s", len(told), last)
	}
}

func toldOf(t *testing.T, db *core.Store) (told []string) {
	t.Helper()
	kindstest.View(t, db, func(ctx context.Context, tx *core.Tx) error {
		events, err := tx.Events(ctx, core.EventsOf{Limit: 1 << 20})
		for _, e := range events {
			if e.Type == "node.undone" && e.Cluster == "cfd" && e.Project == "lab" {
				told = append(told, e.Text)
			}
		}
		return err
	})
	return told
}

// A head in wrong hands has news again and again: its reports have a pace for that, and are answered all the same.
func TestNewsOfWhatWasNotDoneHasAPace(t *testing.T) {
	db := smallCluster(t)
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		t.Fatal(err)
	}
	m := New(db, authority, "test", slog.New(slog.DiscardHandler))
	for i := range 100 {
		news := []protocol.Undone{{User: "alice", Text: fmt.Sprint(i)}}
		if _, err := m.record(t.Context(), identity.Agent{Node: "head"}, protocol.Report{Undone: news}, 0); err != nil {
			t.Fatal(err)
		}
	}
	told := 0
	kindstest.View(t, db, func(ctx context.Context, tx *core.Tx) error {
		events, err := tx.Events(ctx, core.EventsOf{Limit: 1000})
		for _, e := range events {
			if e.Type == "node.undone" {
				told++
			}
		}
		return err
	})
	if told == 0 || told > 25 {
		t.Errorf("%d events", told)
	}
}
