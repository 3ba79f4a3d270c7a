package core_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/kindstest"
)

func TestTheFirstOfSeveralAreInOrderAndOnce(t *testing.T) {
	of := map[string][]int{"a": {1, 4, 6}, "b": {2, 4, 5}, "c": nil}
	got, err := core.First([]string{"a", "b", "c"}, 4, func(v string) ([]int, error) { return of[v], nil }, cmp.Compare[int])
	if want := []int{1, 2, 4, 5}; err != nil || !slices.Equal(got, want) {
		t.Error(got, err)
	}
}

// Who is in several projects is told what happens in them in one order, from one place on.
func TestEventsOfSeveralProjectsAreInOneOrder(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		for i, project := range []string{"a", "b", "c", "b", "a", "b"} {
			kindstest.Update(t, s, func(_ context.Context, tx *core.Tx) error {
				tx.Log(core.Event{Type: "test", Project: project, Text: fmt.Sprint(i)})
				return nil
			})
		}
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			var told []string
			for after := int64(0); ; {
				events, err := tx.Events(ctx, core.EventsOf{Projects: []string{"a", "b"}, After: after, Limit: 2})
				if err != nil || len(events) == 0 {
					if want := []string{"0", "1", "3", "4", "5"}; !slices.Equal(told, want) {
						t.Error(told)
					}
					return err
				}
				for _, e := range events {
					told, after = append(told, e.Text), e.Seq
				}
			}
		})
	})
}
