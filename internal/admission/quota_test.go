package admission_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/admission"
	"muster/internal/core"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/spec"
)

const limited = site + `
prices: {storage_gib_month: 0.02 EUR}
projects:
  default:
    quota: {nodes: 10, cores: 80, gpus: 0}
`

// request creates a cluster and returns its ID, or the refusal.
func (d fixture) request(ctx context.Context, text string) (c cluster.Cluster, err error) {
	doc, err := spec.Parse("", []byte(text))
	if err != nil {
		return c, err
	}
	err = d.db.Update(ctx, func(tx *core.Tx) error {
		plan, err := d.Create(ctx, tx, doc.Cluster)
		if err == nil {
			c, err = d.CarryOut(ctx, tx, plan, "admin", 0)
		}
		return err
	})
	return c, err
}

func (d fixture) inUse() admission.Use {
	d.Helper()
	var use admission.Use
	if err := d.db.View(d.Context(), func(tx *core.Tx) (err error) {
		use, err = d.InUse(d.Context(), tx, "default")
		return err
	}); err != nil {
		d.Fatal(err)
	}
	return use
}

// clusters names the clusters there are.
func (d fixture) clusters() (names []string) {
	d.Helper()
	if err := d.db.View(d.Context(), func(tx *core.Tx) error {
		clusters, err := cluster.List(d.Context(), tx, "default")
		for _, c := range clusters {
			names = append(names, c.Name)
		}
		return err
	}); err != nil {
		d.Error(err)
	}
	return names
}

func TestAQuotaIsNeverExceededByRequestsAtTheSameTime(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		d := newFixtureAt(t, url, limited, farm(24, 0)...)
		var all sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			// a head each: 24 nodes in all
			all.Go(func() { _, errs[i] = d.request(t.Context(), fmt.Sprintf("name: c%d\nnodes: 2\n", i)) })
		}
		all.Wait()
		refused := 0
		for _, err := range errs {
			if err != nil {
				refused++
				refusal(t, err, admission.OverQuota, "project default: 9 of 10 nodes in use, 3 more asked", "`muster quota`")
			}
		}
		if use := d.inUse(); refused != 5 || use.Nodes != 9 || use.Cores != 72 {
			t.Errorf("%d refused; %+v is in use", refused, use)
		}
	})
}

// Clusters of different classes share no machine and no number, so that nothing but the quota's own lock is between them.
func TestAQuotaIsNotExceededByClustersThatGrowAtTheSameTime(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		const clusters = 6
		text := "site: home\ndefaults: {project: default, image: debian13-hpc, class: c0, head_class: c0}\nprojects: " +
			"{default: {quota: {nodes: 10}}}\nclasses:\n"
		var machines []offer
		for i := range clusters {
			text += fmt.Sprintf("  - {name: c%d, select: [\"name ~ c%d-\"]}\n", i, i)
			for j := range 3 {
				machines = append(machines, offer{fmt.Sprintf("c%d-%d", i, j), 8, "amd64", machine.Available, ""})
			}
		}
		d := newFixtureAt(t, url, text, machines...)
		file := func(i, nodes int) string {
			return fmt.Sprintf("name: a%d\nhead: {class: c%d}\nqueues: [{name: cpu, class: c%d, nodes: %d}]\n", i, i, i, nodes)
		}
		var all sync.WaitGroup
		errs := make([]error, clusters)
		for i := range clusters {
			c := d.create(file(i, 0))
			doc, err := spec.Parse("", []byte(file(i, 2)))
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				for len(d.clusters()) < clusters {
					time.Sleep(time.Millisecond) // until all are there
				}
				errs[i] = d.db.Update(t.Context(), func(tx *core.Tx) error {
					plan, err := d.Change(t.Context(), tx, c, doc.Cluster)
					if err == nil {
						_, err = d.CarryOut(t.Context(), tx, plan, "admin", 0)
					}
					return err
				})
			})
		}
		all.Wait()
		refused := 0
		for _, err := range errs {
			if err != nil {
				refused++
				refusal(t, err, admission.OverQuota, "10 of 10 nodes in use, 2 more asked")
			}
		}
		if use := d.inUse(); refused != clusters-2 || use.Nodes != 10 {
			t.Errorf("%d refused; %+v is in use", refused, use)
		}
	})
}

func TestReservationsCountInTheQuotaFromTheirRequestOn(t *testing.T) {
	d := newFixtureAt(t, t.TempDir()+"/db", limited, farm(24, 0)...)
	const later = "\nlease: {start: +1h, for: 1h, on_end: delete}\n"
	first, err := d.request(t.Context(), "name: first\nnodes: 5"+later)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.request(t.Context(), "name: second\nnodes: 4"+later)
	refusal(t, err, admission.OverQuota, "project default: 6 of 10 nodes in use, 5 more asked")
	if _, err := d.request(t.Context(), "name: second\nnodes: 3"+later); err != nil {
		t.Fatal(err)
	}
	for nodes, why := range map[int]string{6: "project default: 4 of 10 nodes in use, 7 more asked", 4: ""} {
		_, err := d.change(first, func(c *spec.Cluster) {
			c.Queues = slices.Clone(c.Queues)
			c.Queues[0].Min, c.Queues[0].Max = &nodes, &nodes
		})
		if why != "" {
			refusal(t, err, admission.OverQuota, why)
		} else if err != nil {
			t.Error(err)
		}
	}
	if use := d.inUse(); use.Nodes != 9 {
		t.Errorf("%+v", use)
	}
}

func TestCoresAndDevicesCountByTheMachinesChosen(t *testing.T) {
	d := newFixtureAt(t, t.TempDir()+"/db", limited, farm(3, 3)...)
	_, err := d.request(t.Context(), "name: a\nqueues:\n  - {name: cpu, class: big, nodes: 2}\n")
	refusal(t, err, admission.OverQuota, "0 of 80 cores in use, 136 more asked")
}

func TestAPromiseStaysWhileANodeIsReplacedAndGrowthDoesNotTakeIt(t *testing.T) {
	d := newFixtureAt(t, t.TempDir()+"/db", strings.Replace(limited, "cores: 80, ", "", 1), farm(14, 0)...)
	fixed := d.create("name: fixed\nnodes: 4\n") // 5
	lose(t, d, fixed, "n1")
	if use := d.inUse(); use.Nodes != 5 {
		t.Errorf("%d nodes in use while one is replaced, not 5", use.Nodes)
	}
	elastic := d.create("name: elastic\nqueues:\n  - {name: cpu, min: 1, max: 8}\n") // 2, the promise for n1 beside
	refill := func(c cluster.Cluster, nodes int) (placed []node.Node, refused error) {
		if err := d.db.Update(t.Context(), func(tx *core.Tx) error {
			if nodes > 0 {
				if err := cluster.SetTargets(t.Context(), tx, c.ID, map[string]int{"cpu": nodes}, nil); err != nil {
					return err
				}
			}
			fresh, err := cluster.Get(t.Context(), tx, c.ID)
			if err != nil {
				return err
			}
			placed, refused, err = d.Refill(t.Context(), tx, fresh)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return placed, refused
	}
	placed, refused := refill(elastic, 8)
	// the seventh machine is for n1
	if len(placed) != 3 || refused == nil || !strings.Contains(refused.Error(), "7 of 10 nodes in use, 6 more asked") {
		t.Errorf("grew by %d; %v", len(placed), refused)
	}
	placed, refused = refill(fixed, 0)
	if len(placed) != 1 || refused != nil {
		t.Errorf("the node that was promised: %v %v", placed, refused)
	}
	if use := d.inUse(); use.Nodes != 10 {
		t.Errorf("%d nodes in use, not 10", use.Nodes)
	}
}

func TestWhatGoesIsGoneFromTheQuotaOnlyWhenItsMachineIs(t *testing.T) {
	d := newFixtureAt(t, t.TempDir()+"/db", limited, farm(12, 0)...)
	c := d.create("name: a\nnodes: 8\n")
	if err := d.db.Update(t.Context(), func(tx *core.Tx) error {
		return cluster.WantDeleted(t.Context(), tx, c.ID)
	}); err != nil {
		t.Fatal(err)
	}
	_, err := d.request(t.Context(), "name: b\nnodes: 1\n")
	refusal(t, err, admission.OverQuota, "9 of 10 nodes in use, 2 more asked")
}

func TestABudgetThatIsUsedUpLetsNothingCome(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		site := strings.Replace(limited, "quota: {nodes: 10, cores: 80, gpus: 0}", "budget: {monthly: 1 EUR}", 1)
		site = strings.Replace(site, "price: 0.10 EUR", "price: 360000 EUR", 1) // 100 a second
		machines := farm(12, 0)
		for i := range machines {
			machines[i].on = "local"
		}
		d := newFixtureAt(t, url, site, machines...)
		c := d.create("name: a\nnodes: 1\nbudget: {limit: 5 EUR}\n")
		ready(t, d, c)
		time.Sleep(60 * time.Millisecond) // 12 EUR
		_, err := d.request(t.Context(), "name: b\nnodes: 1\n")
		refusal(t, err, admission.OverBudget, "project default has used its budget for 20", "of 1.00 EUR")
		change := func(text string) error {
			doc, err := spec.Parse("", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return d.db.View(t.Context(), func(tx *core.Tx) error {
				_, err := d.Change(t.Context(), tx, c, doc.Cluster)
				return err
			})
		}
		refusal(t, change("name: a\nnodes: 2\nbudget: {limit: 5 EUR}\n"), admission.OverBudget, "cluster a has used its budget")
		if err := change("name: a\nnodes: 1\nbudget: {limit: 900 EUR}\n"); err != nil {
			t.Error("a budget cannot be raised:", err)
		}
	})
}

// ready makes a cluster's nodes ready.
func ready(t *testing.T, d fixture, c cluster.Cluster) {
	t.Helper()
	claims, err := d.db.Claim(t.Context(), node.Kind, "ready", time.Minute, 100)
	if err != nil || len(claims) == 0 {
		t.Fatal(claims, err)
	}
	for _, claim := range claims {
		if err := d.db.Update(t.Context(), func(tx *core.Tx) error {
			return tx.Settle(t.Context(), claim, core.Settlement{Phase: core.Ready, Never: true})
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestABudgetMustBeInTheSitesMoneyAndMustBeKeepable(t *testing.T) {
	d := newFixture(t, farm(3, 0)...)
	_, err := d.request(t.Context(), "name: a\nnodes: 1\nbudget: {limit: 5 USD}\n")
	refusal(t, err, admission.Invalid, "budget.limit: the budget is in USD, but this site's prices are in EUR", "5.00 EUR")
	if err := d.db.Update(t.Context(), func(tx *core.Tx) error {
		return machine.Add(t.Context(), tx, inventory.Machine{ID: "x", Name: "x", Substrate: "metal"})
	}); err != nil {
		t.Fatal(err)
	}
	_, err = d.request(t.Context(), "name: a\nnodes: 1\nbudget: {limit: 5 EUR}\n")
	refusal(t, err, admission.Conflict, "could not be paused", "on_limit: warn")
	free := newFixtureAt(t, t.TempDir()+"/db", strings.ReplaceAll(strings.ReplaceAll(site, ", price: 0.10 EUR", ""),
		", price: 1.50 EUR", ""), farm(3, 0)...)
	_, err = free.request(t.Context(), "name: a\nnodes: 1\nbudget: {limit: 5 EUR, on_limit: warn}\n")
	refusal(t, err, admission.Invalid, "this site has no prices")
}

func TestAPlanSaysWhatItsPriceComesTo(t *testing.T) {
	d := newFixtureAt(t, t.TempDir()+"/db", limited, farm(3, 0)...)
	plan, err := d.plan("name: a\nqueues: [{name: cpu, min: 1, max: 20}]\nbudget: {limit: 5 EUR, on_limit: warn}\n")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(plan.Messages, "\n")
	for _, want := range []string{"0.02 EUR per GiB and month", "budget of 5.00 EUR lasts for 1d 1h",
		"21 nodes, which is more than the project's quota of 10"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if plan.Price.String() != "0.20 EUR" {
		t.Error(plan.Price)
	}
}

func TestAProjectHasABoundedNumberOfClusters(t *testing.T) {
	d := newFixtureAt(t, t.TempDir()+"/db", strings.Replace(limited, "quota: {", "quota: {clusters: 3, ", 1), farm(24, 0)...)
	file := func(i int) string {
		return fmt.Sprintf("name: c%d\nnodes: 1\nlease: {start: +%dh, for: 1h, on_end: delete}\n", i, 2*i+1)
	}
	for i := range 3 {
		if _, err := d.request(t.Context(), file(i)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := d.request(t.Context(), file(3))
	refusal(t, err, admission.OverQuota, "project default has 3 clusters, of 3 that it may have", "paused or reserved")
	if most := (inventory.Quota{}).MostClusters(); most != 100 {
		t.Errorf("a project without a quota may have %d", most)
	}
}
