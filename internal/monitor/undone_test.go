package monitor

import (
	"context"
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
	full := protocol.Undone{User: "alice", Text: "home and keys: no space left on device"}
	link := protocol.Undone{User: "bob", Text: "home and keys: .ssh is a link"}
	other := protocol.Undone{User: "bob", Text: "home and keys: no space left on device"}
	var before []protocol.Undone
	for _, now := range [][]protocol.Undone{{full, link}, {full, link}, {full, other}, {other}, nil} {
		kindstest.Update(t, db, func(_ context.Context, tx *core.Tx) error {
			tellUndone(tx, cluster.Cluster{ID: "c1", Name: "cfd", Project: "lab"},
				node.Node{Name: "head", Seen: node.Observed{Undone: before}}, now)
			return nil
		})
		before = now
	}
	var told []string
	kindstest.View(t, db, func(ctx context.Context, tx *core.Tx) error {
		events, err := tx.Events(ctx, core.EventsOf{Limit: 100})
		for _, e := range events {
			if e.Type == "node.undone" && e.Cluster == "cfd" && e.Project == "lab" {
				told = append(told, e.Text)
			}
		}
		return err
	})
	want := []string{"for alice not done, and tried again: " + full.Text, "for bob not done, and tried again: " + link.Text,
		"for bob not done, and tried again: " + other.Text, "for alice done after all", "for bob done after all"}
	if !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
}
