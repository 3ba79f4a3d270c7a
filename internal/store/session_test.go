package store_test

import (
	"context"
	"testing"
	"time"

	"muster/internal/store"
	"muster/internal/store/storetest"
)

func TestSessionsAreKeptAndEnded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := tx.AddPerson(ctx, store.Person{Name: "alice"}); err != nil {
				return err
			}
			if err := tx.AddProject(ctx, store.Project{Name: "aero"}); err != nil {
				return err
			}
			for _, id := range []string{"s1", "s2"} {
				one := store.Session{ID: id, Person: "alice", Credential: "SHA256:x", Gateway: "g1", Kind: "cluster", PlaceID: "c1", Place: "cfd", Project: "aero", Remote: "r", Recorded: id == "s1"}
				if err := tx.BeginSession(ctx, one); err != nil {
					return err
				}
			}
			return tx.WantSessionEnded(ctx, "s2", "bob")
		})
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			if wanted, err := tx.SessionsToEnd(ctx, "g1"); err != nil || len(wanted) != 1 || wanted["s2"] != "bob" {
				t.Errorf("%v %v", wanted, err)
			}
			if err := tx.SaySession(ctx, store.Session{ID: "s1", What: "shell", Received: 7}); err != nil {
				return err
			}
			return tx.EndSession(ctx, store.Session{ID: "s2", What: "exec", Sent: 5, Outcome: "ended by bob"})
		})
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := tx.EndSession(ctx, store.Session{ID: "s2", Outcome: "again"}); err != nil {
				return err
			}
			open, err := tx.Sessions(ctx, store.SessionsOf{Projects: []string{}, Person: "alice", Limit: 10})
			if err != nil || len(open) != 1 || open[0].ID != "s1" || open[0].Received != 7 || !open[0].Recorded {
				t.Errorf("%+v %v", open, err)
			}
			other, err := tx.Sessions(ctx, store.SessionsOf{Projects: []string{"bio"}, Person: "bob", Ended: true, Limit: 10})
			if err != nil || len(other) != 0 {
				t.Errorf("%+v %v", other, err)
			}
			ended, err := tx.Session(ctx, "s2")
			if err != nil || ended.Outcome != "ended by bob" || ended.EndedAt.IsZero() || ended.Sent != 5 {
				t.Errorf("%+v %v", ended, err)
			}
			older, err := tx.Sessions(ctx, store.SessionsOf{Ended: true, Before: ended.BeganAt.Add(time.Hour), BeforeID: "s9", Limit: 1})
			if err != nil || len(older) != 1 {
				t.Errorf("%+v %v", older, err)
			}
			return tx.LoseSessions(ctx, -time.Minute)
		})
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			if lost, err := tx.Session(ctx, "s1"); err != nil || lost.EndedAt.IsZero() || lost.Outcome != "its gateway was lost" {
				t.Errorf("%+v %v", lost, err)
			}
			return tx.ForgetSessions(ctx, -time.Minute)
		})
	})
}

func TestTheNextKeyOfGatewaysWaitsForItsTime(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			if err := tx.AddGatewayKey(ctx, store.GatewayKey{Line: "old", Private: store.NewSecret([]byte("p"))}, -time.Hour); err != nil {
				return err
			}
			if err := tx.AddGatewayKey(ctx, store.GatewayKey{Line: "now", Private: store.NewSecret([]byte("p"))}, 0); err != nil {
				return err
			}
			if err := tx.AddGatewayKey(ctx, store.GatewayKey{Line: "next", Private: store.NewSecret([]byte("p"))}, time.Hour); err != nil {
				return err
			}
			keys, err := tx.GatewayKeys(ctx)
			if err != nil || len(keys) != 2 || keys[0].Line != "now" || keys[1].Line != "next" {
				t.Errorf("%+v %v", keys, err)
			}
			return tx.ForgetGatewayKeys(ctx)
		})
	})
}
