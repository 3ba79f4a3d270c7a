package centre_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"muster/internal/core"
	centres "muster/internal/kinds/centre"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/person"
)

func TestCentresAreLookedAtByOneAndRemembered(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		arc := centres.Centre{
			Name: "arc", Login: "arc.example.org:22", HostKeys: []string{"ssh-ed25519 AAAA", "ssh-rsa BBBB"}, Probe: "muster",
			Projects: []centres.Project{{Project: kindstest.Project, Queues: []string{"cpu"}, Rule: centres.ListedAccount},
				{Project: "aero", Rule: centres.SharedAccount, Account: "hpc"}},
			Accounts: map[string]string{kindstest.Admin: "boss"},
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			for _, name := range []string{"aero", "bio"} {
				if err := person.AddProject(ctx, tx, person.Project{Name: name}); err != nil {
					return err
				}
			}
			return centres.Add(ctx, tx, arc)
		})
		refused := func(want error, f func(context.Context, *core.Tx) error) {
			t.Helper()
			if err := s.Update(t.Context(), func(tx *core.Tx) error { return f(t.Context(), tx) }); !errors.Is(err, want) {
				t.Errorf("%v, not %v", err, want)
			}
		}
		refused(core.ErrExists, func(ctx context.Context, tx *core.Tx) error { return centres.Add(ctx, tx, arc) })
		both := arc
		both.Projects = append(slices.Clone(arc.Projects), centres.Project{Project: "bio", Rule: centres.SharedAccount,
			Account: "hpc"})
		refused(core.ErrExists, func(ctx context.Context, tx *core.Tx) error { return centres.Change(ctx, tx, both) })

		read := func() (c centres.Centre, revision int64) {
			t.Helper()
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				if c, err = centres.Get(ctx, tx, "arc"); err == nil {
					revision, err = person.AccessRevision(ctx, tx)
				}
				return err
			})
			return c, revision
		}
		c, before := read()
		if len(c.HostKeys) != 2 || c.Accounts[kindstest.Admin] != "boss" || len(c.Projects) != 2 || !c.LookedAt.IsZero() ||
			!c.SeenAt.IsZero() || !c.LostAt.IsZero() {
			t.Errorf("%+v", c)
		}
		if p, ok := c.Of(kindstest.Project); !ok || !slices.Equal(p.Queues, []string{"cpu"}) || p.Rule != centres.ListedAccount {
			t.Errorf("%+v", p)
		}

		look := func() (c centres.Centre, err error) {
			err = s.Update(t.Context(), func(tx *core.Tx) error { c, err = centres.Due(t.Context(), tx, time.Hour); return err })
			return c, err
		}
		seen := func(c centres.Centre) (back bool) {
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				running := 3
				back, err = centres.Seen(ctx, tx, c, "Slurm 22.05.8",
					[]centres.Queue{{Name: "cpu", Up: true, State: "up", Nodes: 5, Free: 3, Used: 1, Running: &running}})
				return err
			})
			return back
		}
		lost := func(c centres.Centre) (gone bool) {
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				gone, err = centres.Lost(ctx, tx, c, "refused")
				return err
			})
			return gone
		}
		due, err := look()
		if err != nil || due.Name != "arc" {
			t.Fatal(due, err)
		}
		if _, err := look(); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("two look at the same centre: %v", err)
		}
		if !seen(due) || seen(due) {
			t.Error("the first answer is news, the second is none")
		}
		if c, _ = read(); c.SeenAt.IsZero() || c.System != "Slurm 22.05.8" || len(c.Queues) != 1 || *c.Queues[0].Running != 3 ||
			c.Queues[0].Waiting != nil {
			t.Errorf("%+v", c)
		}
		if !lost(due) || lost(due) {
			t.Error("the first silence is news, the second is none")
		}
		if c, _ = read(); c.LostAt.IsZero() || c.Reason != "refused" || len(c.Queues) != 1 {
			t.Errorf("what was seen last is forgotten: %+v", c)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return centres.Change(ctx, tx, arc) })
		if seen(due) {
			t.Error("a look that a change has overtaken is news")
		}
		if c, revision := read(); !c.LookedAt.IsZero() || c.LostAt.IsZero() || revision <= before {
			t.Errorf("revision %d after %d, %+v", revision, before, c)
		}
		if due, err = look(); err != nil || !seen(due) {
			t.Errorf("a changed centre is not looked at again: %v", err)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return centres.Remove(ctx, tx, "arc") })
		refused(core.ErrNotFound, func(ctx context.Context, tx *core.Tx) error { return centres.Remove(ctx, tx, "arc") })
		refused(core.ErrNotFound, func(ctx context.Context, tx *core.Tx) error { return centres.Change(ctx, tx, arc) })
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			if all, err := centres.List(ctx, tx); err != nil || len(all) != 0 {
				t.Errorf("%v %v", all, err)
			}
			return nil
		})
	})
}
