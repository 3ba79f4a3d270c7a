package external_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"muster/internal/core"
	externals "muster/internal/kinds/external"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/person"
)

func TestExternalClustersAreLookedAtAndRemembered(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		arc := externals.Cluster{
			Name: "arc", Login: "arc.example.org:22", HostKeys: []string{"ssh-ed25519 AAAA", "ssh-rsa BBBB"}, Probe: "muster",
			Projects: []externals.Project{{Project: kindstest.Project, Queues: []string{"cpu"}, Rule: externals.ListedAccount},
				{Project: "aero", Rule: externals.SharedAccount, Account: "hpc"}},
			Accounts: map[string]string{kindstest.Admin: "boss"},
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			for _, name := range []string{"aero", "bio"} {
				if err := person.AddProject(ctx, tx, person.Project{Name: name}); err != nil {
					return err
				}
			}
			return externals.Add(ctx, tx, arc)
		})
		refused := func(want error, f func(context.Context, *core.Tx) error) {
			t.Helper()
			if err := s.Update(t.Context(), func(tx *core.Tx) error { return f(t.Context(), tx) }); !errors.Is(err, want) {
				t.Errorf("%v, not %v", err, want)
			}
		}
		refused(core.ErrExists, func(ctx context.Context, tx *core.Tx) error { return externals.Add(ctx, tx, arc) })
		both := arc
		both.Projects = append(slices.Clone(arc.Projects), externals.Project{Project: "bio", Rule: externals.SharedAccount,
			Account: "hpc"})
		refused(core.ErrExists, func(ctx context.Context, tx *core.Tx) error { return externals.Change(ctx, tx, both) })

		read := func() (c externals.Cluster, revision int64) {
			t.Helper()
			kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				if c, err = externals.Get(ctx, tx, "arc"); err == nil {
					revision, err = person.AccessRevision(ctx, tx)
				}
				return err
			})
			return c, revision
		}
		c, revision := read()
		if len(c.HostKeys) != 2 || c.Accounts[kindstest.Admin] != "boss" || len(c.Projects) != 2 || c.Asked() || c.Silent() ||
			!c.SeenAt.IsZero() || c.Phase != core.Pending {
			t.Errorf("%+v", c)
		}
		if p, ok := c.Of(kindstest.Project); !ok || !slices.Equal(p.Queues, []string{"cpu"}) ||
			p.Rule != externals.ListedAccount {
			t.Errorf("%+v", p)
		}

		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			return externals.SaveSeen(ctx, tx, c, "Slurm 22.05.8",
				[]externals.Queue{{Name: "cpu", Up: true, State: "up", Nodes: 5, Free: 3, Used: 1, Running: new(3)}})
		})
		if c, _ = read(); !c.Asked() || c.SeenAt.IsZero() || c.System != "Slurm 22.05.8" || len(c.Queues) != 1 ||
			*c.Queues[0].Running != 3 || c.Queues[0].Waiting != nil {
			t.Errorf("%+v", c)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return externals.Change(ctx, tx, arc) })
		if c, changed := read(); c.Asked() || len(c.Queues) != 1 || changed <= revision {
			t.Errorf("once it is changed: revision %d after %d, %+v", changed, revision, c)
		}
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error { return externals.Remove(ctx, tx, "arc") })
		refused(core.ErrNotFound, func(ctx context.Context, tx *core.Tx) error { return externals.Remove(ctx, tx, "arc") })
		refused(core.ErrNotFound, func(ctx context.Context, tx *core.Tx) error { return externals.Change(ctx, tx, arc) })
		kindstest.View(t, s, func(ctx context.Context, tx *core.Tx) error {
			if all, err := externals.List(ctx, tx); err != nil || len(all) != 0 {
				t.Errorf("%v %v", all, err)
			}
			return nil
		})
	})
}
