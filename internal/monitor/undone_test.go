package monitor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
)

func TestWhatAHeadCouldNotDoIsToldOnceAndItsEndToo(t *testing.T) {
	db := kindstest.Open(t, t.TempDir()+"/db")
	m := New(db, nil, "test", slog.New(slog.DiscardHandler))
	full := protocol.Undone{User: "alice", Text: "home and keys: no space left on device"}
	link := protocol.Undone{User: "bob", Text: "home and keys: .ssh is a link"}
	other := protocol.Undone{User: "bob", Text: "home and keys: no space left on device"}
	var before []protocol.Undone
	says := func(now ...protocol.Undone) {
		t.Helper()
		kindstest.Update(t, db, func(_ context.Context, tx *core.Tx) error {
			m.tellUndone(tx, cluster.Cluster{ID: "c1", Name: "cfd", Project: "lab"},
				node.Node{Name: "head", Seen: node.Observed{Undone: before}}, now)
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

	for i := range 200 { // a head in wrong hands: news of many, again and again
		var many []protocol.Undone
		for n := range 64 {
			many = append(many, protocol.Undone{User: fmt.Sprint("user", n), Text: fmt.Sprint(i)})
		}
		says(many...)
	}
	if n := len(toldOf(t, db)); n > len(want)+20*mostUndone {
		t.Errorf("%d events are written", n)
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
