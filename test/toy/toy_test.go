// Package toy adds drivers to a copy of the house's list, a line each, and shows that the house works with them.
package toy

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/drivers"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/substratetest"
	"muster/internal/inventory"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/spec"
	"muster/test/toy/pool"
)

// all is the list with the toy's line.
func all() substrate.Registry {
	return append(drivers.Substrates(),
		pool.Factory(),
	)
}

func TestAToySubstrateKeepsTheContract(t *testing.T) {
	substratetest.Test(t, func(t *testing.T) substratetest.Harness {
		d := pool.New()
		opened, err := pool.Factory().Open(t.Context(), substrate.Env{Sockets: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return substratetest.Harness{
			Caps: pool.Factory().Caps, Substrate: d, Image: "sha256:00", Sleeper: awake{d}, Mover: rooted{},
			Inspector: d, Caller: opened.(substrate.Caller), Worker: opened.(substrate.Worker),
			Crash:    func(_ *testing.T, r substrate.Ref) { d.Die(r, "crashed") },
			HalfMake: func(_ *testing.T, n substrate.Node) { d.HalfMake(n) },
			Kernel:   func(_ *testing.T, r substrate.Ref) string { return d.Told(r).Image },
			CPUs:     func(_ *testing.T, r substrate.Ref) []string { return []string{d.Told(r).Machine} },
		}
	})
}

// awake refuses to put nodes to sleep, and rooted to move them.
type awake struct{ pool.Driver }

func (awake) CanSuspend(string) bool { return false }
func (awake) Sleep(context.Context, substrate.Ref, string) (int64, error) {
	return 0, substrate.ErrRefused
}

type rooted struct{}

func (rooted) Reaches(string) bool { return false }
func (rooted) Move(context.Context, substrate.Node, string, string) error {
	return substrate.ErrStays
}
func (rooted) Forget(context.Context, substrate.Ref, string) error { return nil }

const site = `
site: toy
defaults: {project: main, image: linux, class: pool, head_class: pool}
classes:
  - {name: pool, select: [substrate = pool]}
`

// images has one, with a kernel or without.
type images struct{ boots bool }

func (i images) Image(string) (admission.Image, error) {
	return admission.Image{Name: "linux", Digest: "sha256:00", Boots: i.boots}, nil
}
func (images) With([]string) []string { return nil }

// What the toy can decides what a cluster on it may ask for, and why not.
func TestAClusterOnTheToyIsAdmittedByWhatTheToyCan(t *testing.T) {
	path := t.TempDir() + "/site.yaml"
	if err := os.WriteFile(path, []byte(site), 0o600); err != nil {
		t.Fatal(err)
	}
	catalogue, err := inventory.ReadCatalogue(path)
	if err != nil {
		t.Fatal(err)
	}
	db := kindstest.Open(t, t.TempDir()+"/db")
	for _, name := range []string{"p1", "p2", "p3"} {
		free(t, db, inventory.Machine{ID: name, Name: name, Substrate: "pool"})
	}
	for _, c := range []struct {
		what   string
		boots  bool
		ask    spec.Cluster
		reason string // "": it is admitted
	}{
		{"two nodes and a head", true, spec.Cluster{Name: "c", Nodes: 2}, ""},
		{"an image without a kernel", false, spec.Cluster{Name: "c", Nodes: 2}, "image-cannot-boot"},
		{"more nodes than there are", true, spec.Cluster{Name: "c", Nodes: 3}, "no-capacity"},
		{"a pause that would lose the head", true,
			spec.Cluster{Name: "c", Nodes: 2, Lease: &spec.Lease{For: "1h", OnEnd: spec.OnEndPause}}, "head-on-metal"},
	} {
		t.Run(c.what, func(t *testing.T) {
			a := admission.Admission{Catalogue: catalogue, Images: images{c.boots}, Substrates: all()}
			err := db.View(t.Context(), func(tx *core.Tx) error {
				_, err := a.Create(t.Context(), tx, c.ask)
				return err
			})
			var refusal *admission.Refusal
			switch {
			case c.reason == "" && err != nil:
				t.Error(err)
			case c.reason != "" && (!errors.As(err, &refusal) || refusal.Diagnostics[0].Code != c.reason):
				t.Errorf("refused with %v, not with %s", err, c.reason)
			}
		})
	}
}

// free enrols a machine that has passed its inspection.
func free(t *testing.T, db *core.Store, m inventory.Machine) {
	t.Helper()
	if err := db.Update(t.Context(), func(tx *core.Tx) error { return machine.Add(t.Context(), tx, m) }); err != nil {
		t.Fatal(err)
	}
	claims, err := db.Claim(t.Context(), machine.Kind, "test", time.Minute, 1)
	if err != nil || len(claims) != 1 {
		t.Fatal(claims, err)
	}
	if err := db.Update(t.Context(), func(tx *core.Tx) error {
		return tx.Settle(t.Context(), claims[0], core.Settlement{Phase: machine.Available, Never: true})
	}); err != nil {
		t.Fatal(err)
	}
}

func TestEverySubstrateOfTheListHasItsOwnNameAndSaysWhatItIs(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range all() {
		if f.Name == "" || seen[f.Name] || f.Doc == "" || strings.HasSuffix(f.Doc, ".") || f.Deadlines.Boot == 0 {
			t.Errorf("%+v", f)
		}
		seen[f.Name] = true
	}
}
