package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"muster/internal/store"
	"muster/internal/store/storetest"
)

func TestCentresAreLookedAtByOneAndRemembered(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := storetest.Open(t, url)
		arc := store.Centre{
			Name: "arc", Login: "arc.example.org:22", HostKeys: []string{"ssh-ed25519 AAAA", "ssh-rsa BBBB"}, Probe: "muster",
			Projects: []store.CentreProject{{Project: storetest.Project, Queues: []string{"cpu"}, Rule: store.ListedAccount}, {Project: "aero", Rule: store.SharedAccount, Account: "hpc"}},
			Accounts: map[string]string{storetest.Admin: "boss"},
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			for _, name := range []string{"aero", "bio"} {
				if err := tx.AddProject(ctx, store.Project{Name: name}); err != nil {
					return err
				}
			}
			return tx.AddCentre(ctx, arc)
		})
		refused := func(want error, f func(context.Context, *store.Tx) error) {
			t.Helper()
			if err := s.Update(t.Context(), func(tx *store.Tx) error { return f(t.Context(), tx) }); !errors.Is(err, want) {
				t.Errorf("%v, not %v", err, want)
			}
		}
		refused(store.ErrExists, func(ctx context.Context, tx *store.Tx) error { return tx.AddCentre(ctx, arc) })
		both := arc
		both.Projects = append(slices.Clone(arc.Projects), store.CentreProject{Project: "bio", Rule: store.SharedAccount, Account: "hpc"})
		refused(store.ErrExists, func(ctx context.Context, tx *store.Tx) error { return tx.ChangeCentre(ctx, both) })

		read := func() (c store.Centre, revision int64) {
			t.Helper()
			view(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
				if c, err = tx.Centre(ctx, "arc"); err == nil {
					revision, err = tx.AccessRevision(ctx)
				}
				return err
			})
			return c, revision
		}
		c, before := read()
		if len(c.HostKeys) != 2 || c.Accounts[storetest.Admin] != "boss" || len(c.Projects) != 2 || !c.LookedAt.IsZero() || !c.SeenAt.IsZero() || !c.LostAt.IsZero() {
			t.Errorf("%+v", c)
		}
		if p, ok := c.Of(storetest.Project); !ok || !slices.Equal(p.Queues, []string{"cpu"}) || p.Rule != store.ListedAccount {
			t.Errorf("%+v", p)
		}

		look := func() (c store.Centre, err error) {
			err = s.Update(t.Context(), func(tx *store.Tx) error { c, err = tx.DueCentre(t.Context(), time.Hour); return err })
			return c, err
		}
		seen := func(c store.Centre) (back bool) {
			update(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
				running := 3
				back, err = tx.CentreSeen(ctx, c, "Slurm 22.05.8", []store.CentreQueue{{Name: "cpu", Up: true, State: "up", Nodes: 5, Free: 3, Used: 1, Running: &running}})
				return err
			})
			return back
		}
		lost := func(c store.Centre) (gone bool) {
			update(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
				gone, err = tx.CentreLost(ctx, c, "refused")
				return err
			})
			return gone
		}
		due, err := look()
		if err != nil || due.Name != "arc" {
			t.Fatal(due, err)
		}
		if _, err := look(); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("two look at the same centre: %v", err)
		}
		if !seen(due) || seen(due) {
			t.Error("the first answer is news, the second is none")
		}
		if c, _ = read(); c.SeenAt.IsZero() || c.System != "Slurm 22.05.8" || len(c.Queues) != 1 || *c.Queues[0].Running != 3 || c.Queues[0].Waiting != nil {
			t.Errorf("%+v", c)
		}
		if !lost(due) || lost(due) {
			t.Error("the first silence is news, the second is none")
		}
		if c, _ = read(); c.LostAt.IsZero() || c.Reason != "refused" || len(c.Queues) != 1 {
			t.Errorf("what was seen last is forgotten: %+v", c)
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.ChangeCentre(ctx, arc) })
		if seen(due) {
			t.Error("a look that a change has overtaken is news")
		}
		if c, revision := read(); !c.LookedAt.IsZero() || c.LostAt.IsZero() || revision <= before {
			t.Errorf("revision %d after %d, %+v", revision, before, c)
		}
		if due, err = look(); err != nil || !seen(due) {
			t.Errorf("a changed centre is not looked at anew: %v", err)
		}
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.RemoveCentre(ctx, "arc") })
		refused(store.ErrNotFound, func(ctx context.Context, tx *store.Tx) error { return tx.RemoveCentre(ctx, "arc") })
		refused(store.ErrNotFound, func(ctx context.Context, tx *store.Tx) error { return tx.ChangeCentre(ctx, arc) })
		view(t, s, func(ctx context.Context, tx *store.Tx) error {
			if all, err := tx.Centres(ctx); err != nil || len(all) != 0 {
				t.Errorf("%v %v", all, err)
			}
			return nil
		})
	})
}
