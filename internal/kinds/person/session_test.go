package person_test

import (
	"context"
	"testing"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/authority"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/person"
)

func TestSessionsAreKeptAndEnded(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if err := person.Add(ctx, tx, person.Person{Name: "alice"}); err != nil {
				return err
			}
			if err := person.AddProject(ctx, tx, person.Project{Name: "aero"}); err != nil {
				return err
			}
			for _, id := range []string{"s1", "s2"} {
				one := person.Session{ID: id, Person: "alice", Credential: "SHA256:x", Gateway: "g1", Kind: "cluster",
					PlaceID: "c1", Place: "cfd", Project: "aero", Remote: "r", Recorded: id == "s1"}
				if err := person.BeginSession(ctx, tx, one); err != nil {
					return err
				}
			}
			return person.WantSessionEnded(ctx, tx, "s2", "bob")
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if wanted, err := person.SessionsToEnd(ctx, tx, "g1"); err != nil || len(wanted) != 1 || wanted["s2"] != "bob" {
				t.Errorf("%v %v", wanted, err)
			}
			if err := person.SaySession(ctx, tx, person.Session{ID: "s1", What: "shell", Received: 7}); err != nil {
				return err
			}
			return person.EndSession(ctx, tx, person.Session{ID: "s2", What: "exec", Sent: 5, Outcome: "ended by bob"})
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if err := person.EndSession(ctx, tx, person.Session{ID: "s2", Outcome: "again"}); err != nil {
				return err
			}
			open, err := person.Sessions(ctx, tx, person.SessionsOf{Projects: []string{}, Person: "alice", Limit: 10})
			if err != nil || len(open) != 1 || open[0].ID != "s1" || open[0].Received != 7 || !open[0].Recorded {
				t.Errorf("%+v %v", open, err)
			}
			other, err := person.Sessions(ctx, tx, person.SessionsOf{Projects: []string{"bio"}, Person: "bob", Ended: true,
				Limit: 10})
			if err != nil || len(other) != 0 {
				t.Errorf("%+v %v", other, err)
			}
			ended, err := person.GetSession(ctx, tx, "s2")
			if err != nil || ended.Outcome != "ended by bob" || ended.EndedAt.IsZero() || ended.Sent != 5 {
				t.Errorf("%+v %v", ended, err)
			}
			older, err := person.Sessions(ctx, tx, person.SessionsOf{Ended: true, Before: ended.BeganAt.Add(time.Hour),
				BeforeID: "s9", Limit: 1})
			if err != nil || len(older) != 1 {
				t.Errorf("%+v %v", older, err)
			}
			return person.LoseSessions(ctx, tx, -time.Minute)
		})
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if lost, err := person.GetSession(ctx, tx, "s1"); err != nil || lost.EndedAt.IsZero() ||
				lost.Outcome != "its gateway was lost" {
				t.Errorf("%+v %v", lost, err)
			}
			return person.ForgetSessions(ctx, tx, -time.Minute)
		})
	})
}

func TestTheNextKeyOfGatewaysWaitsForItsTime(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			if err := authority.AddGatewayKey(ctx, tx, authority.GatewayKey{Line: "old", Private: core.NewSecret([]byte("p"))},
				-time.Hour); err != nil {
				return err
			}
			if err := authority.AddGatewayKey(ctx, tx, authority.GatewayKey{Line: "now", Private: core.NewSecret([]byte("p"))},
				0); err != nil {
				return err
			}
			if err := authority.AddGatewayKey(ctx, tx, authority.GatewayKey{Line: "next", Private: core.NewSecret([]byte("p"))},
				time.Hour); err != nil {
				return err
			}
			keys, err := authority.GatewayKeys(ctx, tx)
			if err != nil || len(keys) != 2 || keys[0].Line != "now" || keys[1].Line != "next" {
				t.Errorf("%+v %v", keys, err)
			}
			return authority.ForgetGatewayKeys(ctx, tx)
		})
	})
}
