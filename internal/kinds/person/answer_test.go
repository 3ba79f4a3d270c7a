package person_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"muster/internal/core"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/person"
)

func TestOneIdentityHasABoundedNumberOfRecordedAnswers(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		saveLong := func(identity, key string, bytes int) {
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
				return person.SaveAnswer(ctx, tx, identity, key, person.Answer{Request: "r", Status: 200,
					Body: strings.Repeat("b", bytes)})
			})
		}
		save := func(identity, key string) { saveLong(identity, key, 1) }
		save("bob", "first")
		save("alice", "first")
		for i := range person.MostAnswers + 50 {
			save("alice", fmt.Sprint(i))
		}
		for i := range 20 { // as a cluster of ten thousand nodes is shown
			saveLong("carol", fmt.Sprint(i), 1<<20)
		}
		saveLong("dan", "longest", 20<<20)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			for _, c := range []struct {
				identity, key string
				kept          bool
			}{{"alice", "first", false}, {"alice", "0", false}, {"alice", fmt.Sprint(person.MostAnswers + 49), true},
				{"bob", "first", true}, {"carol", "0", false}, {"carol", "3", false}, {"carol", "5", true}, {"carol", "19", true},
				{"dan", "longest", true}} {
				_, err := person.FindAnswer(ctx, tx, c.identity, c.key)
				if kept := err == nil; kept != c.kept || !kept && !errors.Is(err, core.ErrNotFound) {
					t.Errorf("the answer for key %s of %s: %v, and kept: %t is wanted", c.key, c.identity, err, c.kept)
				}
			}
			return nil
		})
	})
}
