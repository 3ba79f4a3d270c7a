package person_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/person"
	"muster/internal/spec"
)

// What concerns one project or person makes the nodes of others read nothing again.
func TestNodesAreToldOfWhatConcernsThem(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) error {
			err := errors.Join(person.Add(ctx, tx, person.Person{Name: "ada"}), person.Add(ctx, tx, person.Person{Name: "bob"}))
			for _, name := range []string{"aero", "bio"} {
				c := cluster.Cluster{ID: "c-" + name, Project: name, Name: "cfd", Spec: spec.Cluster{Name: "cfd"},
					Image: "sha256:00", CreatedBy: "ada", Credential: core.NewSecret([]byte("k"))}
				err = errors.Join(err, person.AddProject(ctx, tx, person.Project{Name: name}), cluster.Add(ctx, tx, c))
			}
			ada := person.Membership{Project: "aero", Person: "ada", Role: access.Member}
			return errors.Join(err, person.SetMember(ctx, tx, ada))
		})
		for _, c := range []struct {
			what string
			do   func(context.Context, *core.Tx) error
			told string // aero's and bio's clusters: how often
		}{
			{"a key", func(ctx context.Context, tx *core.Tx) error {
				return person.AddKey(ctx, tx, person.Key{Person: "ada", Fingerprint: "SHA256:a", Line: "ssh-ed25519 AAAA"})
			}, "1 0"},
			{"a key that is removed", func(ctx context.Context, tx *core.Tx) error {
				return person.RemoveKey(ctx, tx, "ada", "SHA256:a")
			}, "1 0"},
			{"an invitation", func(ctx context.Context, tx *core.Tx) error {
				bob := person.Membership{Project: "bio", Person: "bob", Role: access.Member, InvitedBy: "ada"}
				return person.SetMember(ctx, tx, bob)
			}, "0 0"},
			{"one that is taken", func(ctx context.Context, tx *core.Tx) error {
				return person.AcceptInvitation(ctx, tx, "bio", "bob")
			}, "0 1"},
			{"who leaves", func(ctx context.Context, tx *core.Tx) error {
				return person.RemoveMember(ctx, tx, "bio", "bob")
			}, "0 1"},
		} {
			var before, after [2]int64
			var doors [2]int64
			look := func(into *[2]int64) func(ctx context.Context, tx *core.Tx) error {
				return func(ctx context.Context, tx *core.Tx) error {
					for i, id := range []string{"c-aero", "c-bio"} {
						one, err := cluster.Get(ctx, tx, id)
						if err != nil {
							return err
						}
						into[i] = one.Revision
					}
					return nil
				}
			}
			kindstest.Update(t, s, look(&before))
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				doors[0], err = person.AccessRevision(ctx, tx)
				return err
			})
			kindstest.Update(t, s, c.do)
			kindstest.Update(t, s, look(&after))
			kindstest.Update(t, s, func(ctx context.Context, tx *core.Tx) (err error) {
				doors[1], err = person.AccessRevision(ctx, tx)
				return err
			})
			if got := fmt.Sprint(after[0]-before[0], after[1]-before[1]); got != c.told {
				t.Errorf("%s: clusters are told %s times, want %s", c.what, got, c.told)
			}
			if changed := doors[1] != doors[0]; changed != (c.told != "0 0") {
				t.Errorf("%s: doors are told: %t", c.what, changed)
			}
		}
	})
}
