package admission_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/drivers"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/spec"
)

const site = `
site: home
defaults: {project: default, image: debian13-hpc, class: small, head_class: small}
classes:
  - {name: small, select: ["cpus <= 8"], price: 0.10 EUR}
  - {name: big, select: ["cpus >= 64"], price: 1.50 EUR}
`

type images struct{}

// With knows one image, which carries one driver.
func (images) With(drivers []string) []string {
	if slices.Equal(drivers, []string{"nvidia"}) {
		return []string{"cuda"}
	}
	return nil
}

func (images) Image(name string) (admission.Image, error) {
	switch name {
	case "no-database":
		return admission.Image{Name: name, Digest: "sha256:02", Arch: "amd64", Boots: true, Programs: []string{"slurmdbd"}}, nil
	case "cuda":
		return admission.Image{Name: name, Digest: "sha256:01", Arch: "amd64", Boots: true, Drivers: []string{"nvidia"}}, nil
	case "bare":
		return admission.Image{Name: name, Digest: "sha256:02", Arch: "amd64", Boots: true, Drivers: []string{}}, nil
	}
	if name != "debian13-hpc" {
		return admission.Image{}, errors.New("there is no image " + name)
	}
	return admission.Image{Name: name, Digest: "sha256:00", Arch: "amd64", Boots: true}, nil
}

// fixture is admission over a database with machines in given phases.
type fixture struct {
	*testing.T
	*admission.Admission
	db *core.Store
}

type offer struct {
	name  string
	cpus  int
	arch  string
	phase core.Phase
	on    string // substrate; metal, if empty
}

func newFixture(t *testing.T, machines ...offer) fixture {
	t.Helper()
	return newFixtureAt(t, t.TempDir()+"/db", site, machines...)
}

func newFixtureAt(t *testing.T, url, site string, machines ...offer) fixture {
	t.Helper()
	path := t.TempDir() + "/site.yaml"
	write(t, path, site)
	catalogue, err := inventory.ReadCatalogue(path)
	if err != nil {
		t.Fatal(err)
	}
	d := fixture{t, &admission.Admission{Catalogue: catalogue, Images: images{}, Schedulers: drivers.Schedulers(),
		Substrates: drivers.Substrates()}, kindstest.Open(t, url)}
	for _, m := range machines {
		err := d.db.Update(t.Context(), func(tx *core.Tx) error {
			return machine.Add(t.Context(), tx, inventory.Machine{ID: m.name, Name: m.name, Substrate: cmp.Or(m.on, "metal"),
				Facts: inventory.Facts{CPUs: m.cpus, Arch: m.arch}})
		})
		if err != nil {
			t.Fatal(err)
		}
		claims, err := d.db.Claim(t.Context(), machine.Kind, "test", time.Minute, 1)
		if err != nil || len(claims) != 1 {
			t.Fatal(claims, err)
		}
		if err := d.db.Update(t.Context(), func(tx *core.Tx) error {
			return tx.Settle(t.Context(), claims[0], core.Settlement{Phase: m.phase, Never: true})
		}); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func (d fixture) plan(text string) (*admission.Plan, error) {
	d.Helper()
	doc, err := spec.Parse("", []byte(text))
	if err != nil {
		d.Fatal(err)
	}
	var plan *admission.Plan
	err = d.db.View(d.Context(), func(tx *core.Tx) (err error) {
		plan, err = d.Create(d.Context(), tx, doc.Cluster)
		return err
	})
	return plan, err
}

func (d fixture) create(text string) cluster.Cluster {
	d.Helper()
	doc, err := spec.Parse("", []byte(text))
	if err != nil {
		d.Fatal(err)
	}
	var c cluster.Cluster
	if err := d.db.Update(d.Context(), func(tx *core.Tx) error {
		plan, err := d.Create(d.Context(), tx, doc.Cluster)
		if err == nil {
			c, err = d.CarryOut(d.Context(), tx, plan, "admin", 0)
		}
		return err
	}); err != nil {
		d.Fatal(err)
	}
	return c
}

func farm(small, big int) []offer {
	var all []offer
	for i := range small {
		all = append(all, offer{fmt.Sprintf("s%d", i+1), 8, "amd64", machine.Available, ""})
	}
	for i := range big {
		all = append(all, offer{fmt.Sprintf("b%d", i+1), 64, "amd64", machine.Available, ""})
	}
	return all
}

func TestAPlanNamesTheMachinesAndThePrice(t *testing.T) {
	d := newFixture(t, farm(3, 4)...)
	plan, err := d.plan("name: a\nqueues:\n  - {name: cpu, class: big, nodes: 3}\n  - {name: pre, nodes: 1}\n")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range plan.Add {
		got = append(got, p.Name+"="+p.Machine.Name)
	}
	if text := strings.Join(got, " "); text != "head=s1 cpu1=b1 cpu2=b2 cpu3=b3 pre1=s2" {
		t.Error(text)
	}
	if plan.Price.String() != "4.70 EUR" {
		t.Error(plan.Price)
	}
}

func TestARefusalCountsWhatTheClassHas(t *testing.T) {
	machines := append(farm(1, 3), offer{"b4", 64, "amd64", machine.Quarantined, ""},
		offer{"b5", 64, "amd64", machine.Maintenance, ""},
		offer{"b6", 64, "amd64", machine.Inspecting, ""}, offer{"b7", 64, "arm64", machine.Available, ""})
	d := newFixture(t, machines...)
	_, err := d.plan("name: a\nqueues:\n  - {name: cpu, class: big, nodes: 5}\n")
	var refusal *admission.Refusal
	if !errors.As(err, &refusal) || refusal.Kind != admission.NoCapacity {
		t.Fatal(err)
	}
	got := refusal.Diagnostics[0]
	want := "class big: 5 asked, 3 free, 1 being prepared, 1 quarantined, 1 in maintenance, 1 of another architecture than " +
		"the image's amd64"
	if got.Text != want || got.Path != "queues[cpu].max" {
		t.Errorf("%q at %s", got.Text, got.Path)
	}
}

func TestOneRequestCannotTakeWhatAnotherHas(t *testing.T) {
	d := newFixture(t, farm(4, 0)...)
	d.create("name: a\nnodes: 2\n")
	if _, err := d.plan("name: b\nnodes: 1\n"); err == nil || !strings.Contains(err.Error(), "2 asked, 1 free, 3 in use") {
		t.Error(err)
	}
}

func TestAQueueThatChangesItsClassReleasesItsNodes(t *testing.T) {
	d := newFixture(t, farm(4, 4)...)
	c := d.create("name: a\nqueues:\n  - {name: cpu, class: small, nodes: 2}\n")
	doc, err := spec.Parse("", []byte("name: a\nqueues:\n  - {name: cpu, class: big, nodes: 2}\n  - {name: new, nodes: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.db.View(t.Context(), func(tx *core.Tx) error {
		plan, err := d.Change(t.Context(), tx, c, doc.Cluster)
		if err != nil {
			return err
		}
		if strings.Join(plan.Release, " ") != "cpu1 cpu2" || len(plan.Add) != 3 || plan.Add[0].Name != "cpu3" ||
			plan.Add[2].Name != "new1" {
			t.Error(plan.Release, plan.Add)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestMissingNodesGetWhatThereIs(t *testing.T) {
	d := newFixture(t, farm(5, 0)...)
	c := d.create("name: a\nnodes: 4\n")
	// Two nodes end, and one of their machines does not come back.
	lose(t, d, c, "n1", "n2")
	if err := d.db.Update(t.Context(), func(tx *core.Tx) error {
		placed, refused, err := d.Refill(t.Context(), tx, c)
		if err != nil {
			return err
		}
		if len(placed) != 1 || placed[0].Name != "n1" || refused == nil ||
			!strings.Contains(refused.Error(), "2 more asked, 1 free") {
			t.Errorf("%+v %v", placed, refused)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// lose ends nodes; the first one's machine stays quarantined.
func lose(t *testing.T, d fixture, c cluster.Cluster, names ...string) {
	t.Helper()
	claims, err := d.db.Claim(t.Context(), node.Kind, "test", time.Minute, 100)
	if err != nil {
		t.Fatal(err)
	}
	machines, err := d.db.Claim(t.Context(), machine.Kind, "test", time.Minute, 100)
	if err != nil {
		t.Fatal(err)
	}
	err = d.db.Update(t.Context(), func(tx *core.Tx) error {
		nodes, err := node.Of(t.Context(), tx, c.ID)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			for i, name := range names {
				if n.Name != name {
					continue
				}
				for _, claim := range claims {
					if claim.ID == n.ID {
						if err := node.LeaveMachine(t.Context(), tx, n); err != nil {
							return err
						}
						if err := tx.Settle(t.Context(), claim, core.Settlement{Phase: node.Gone, Never: true}); err != nil {
							return err
						}
					}
				}
				for _, claim := range machines {
					if claim.ID == n.MachineID && i == 0 {
						if err := tx.Settle(t.Context(), claim,
							core.Settlement{Phase: machine.Quarantined, Never: true}); err != nil {
							return err
						}
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
