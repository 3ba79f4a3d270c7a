package inventory

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"muster/internal/kit/lists"
	"muster/internal/kit/pattern"
	"muster/internal/price"
)

var projectName = pattern.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Tariff is what a site charges beside the prices of its classes.
type Tariff struct {
	Devices map[string]price.Amount // kind of device → per device and hour, on top of the class's price
	Storage price.Amount            // per GiB and month of a cluster's /home
	Charged []string                // the states in which a node is charged, of those in ChargeableStates
}

// Project is what a site grants a project.
type Project struct {
	Quota  Quota
	Budget Budget
}

// Quota limits what a project may hold at a time, and how many hours its nodes may run in a calendar month. nil: without
// limit, but for clusters.
type Quota struct {
	Clusters  *int `yaml:"clusters"` // also paused and reserved ones; nil: UsualClusters
	Nodes     *int `yaml:"nodes"`    // heads are nodes too
	Cores     *int `yaml:"cores"`
	GPUs      *int `yaml:"gpus"`
	NodeHours *int `yaml:"node_hours"` // charged ones, a calendar month
}

// UsualClusters is how many clusters a project has whose quota does not say: each takes a network, mounts and places in queues of
// the controller, whether it runs or not.
const UsualClusters = 100

// MostClusters is how many clusters the project may have.
func (q Quota) MostClusters() int {
	if q.Clusters == nil {
		return UsualClusters
	}
	return *q.Clusters
}

// Budget limits what a project may spend in a calendar month.
type Budget struct {
	Monthly price.Amount // none: without limit
	Warn    bool         // at the limit nothing is paused
}

// ChargeableStates are the states of a node that a site may charge. No project pays for a node that is being made, has failed, or
// is being taken apart: that is the site's own work.
func ChargeableStates() []string { return []string{"ready", "draining"} }

// pricesFile and projectFile are parts of site.yaml as they are written.
type (
	pricesFile  map[string]string
	projectFile struct {
		Quota  Quota `yaml:"quota"`
		Budget struct {
			Monthly string `yaml:"monthly"`
			OnLimit string `yaml:"on_limit"`
		} `yaml:"budget"`
	}
)

// storagePrice is the one price that is not a device's.
const storagePrice = "storage_gib_month"

// deviceKinds are those that facts know.
var deviceKinds = [...]string{"gpu", "hca", "nvme", "other"}

func (f pricesFile) read() (t Tariff, err error) {
	t.Devices = map[string]price.Amount{}
	for _, key := range slices.Sorted(maps.Keys(f)) {
		amount, err := price.Parse(f[key])
		if err != nil {
			return t, fmt.Errorf("prices.%s: %w", key, err)
		}
		switch {
		case key == storagePrice:
			t.Storage = amount
		case slices.Contains(deviceKinds[:], key):
			t.Devices[key] = amount
		default:
			return t, fmt.Errorf("prices.%s: there is no such price; there are %s (per device and hour) and %s", key,
				strings.Join(deviceKinds[:], ", "), storagePrice)
		}
	}
	return t, nil
}

// charged reads the states that are charged; nil stands for all that may be.
func charged(states []string) ([]string, error) {
	if states == nil {
		return ChargeableStates(), nil
	}
	for _, s := range states {
		if !slices.Contains(ChargeableStates(), s) {
			return nil, fmt.Errorf("charge: %q cannot be charged; there are %s", s, strings.Join(ChargeableStates(), ", "))
		}
	}
	return states, nil
}

func (f projectFile) read(name string) (Project, error) {
	p := Project{Quota: f.Quota}
	for _, q := range []struct {
		field string
		limit *int
	}{{"clusters", p.Quota.Clusters}, {"nodes", p.Quota.Nodes}, {"cores", p.Quota.Cores}, {"gpus", p.Quota.GPUs},
		{"node_hours", p.Quota.NodeHours}} {
		if q.limit != nil && *q.limit < 0 {
			return p, fmt.Errorf("projects.%s.quota.%s: %d is less than nothing; leave the line out for no limit", name, q.field,
				*q.limit)
		}
	}
	switch f.Budget.OnLimit {
	case "", "pause":
	case "warn":
		p.Budget.Warn = true
	default:
		return p, fmt.Errorf("projects.%s.budget.on_limit: %q; write pause or warn", name, f.Budget.OnLimit)
	}
	if f.Budget.Monthly == "" {
		if f.Budget.OnLimit != "" {
			return p, fmt.Errorf("projects.%s.budget: monthly is missing; write for example monthly: 5000 EUR", name)
		}
		return p, nil
	}
	var err error
	if p.Budget.Monthly, err = price.Parse(f.Budget.Monthly); err != nil {
		return p, fmt.Errorf("projects.%s.budget.monthly: %w", name, err)
	}
	return p, nil
}

// money reads all of a site file that is about it, and holds it to one currency.
func (f siteFile) money(c *Catalogue) (err error) {
	if c.Tariff, err = f.Prices.read(); err != nil {
		return err
	}
	if c.Tariff.Charged, err = charged(f.Charge); err != nil {
		return err
	}
	c.Projects = map[string]Project{}
	for name, written := range f.Projects {
		if !projectName.MatchString(name) {
			return fmt.Errorf("projects.%s: this is no name for a project: write small letters, digits and - in between, "+
				"63 in all", name)
		}
		if c.Projects[name], err = written.read(name); err != nil {
			return err
		}
	}
	return c.oneCurrency()
}

// Currency is the one that the site counts in; "" if it has no prices.
func (c Catalogue) Currency() string {
	first, _ := lists.Find(c.prices(), func(p pricedField) bool { return p.price.Currency != "" })
	return first.price.Currency
}

type pricedField struct {
	field string
	price price.Amount
}

// prices are all that a site file may hold, in a fixed order.
func (c Catalogue) prices() []pricedField {
	var all []pricedField
	for i, class := range c.Classes {
		all = append(all, pricedField{fmt.Sprintf("classes[%d].price", i), class.Price})
	}
	for _, kind := range deviceKinds {
		all = append(all, pricedField{"prices." + kind, c.Tariff.Devices[kind]})
	}
	all = append(all, pricedField{"prices." + storagePrice, c.Tariff.Storage})
	for _, name := range slices.Sorted(maps.Keys(c.Projects)) {
		all = append(all, pricedField{"projects." + name + ".budget.monthly", c.Projects[name].Budget.Monthly})
	}
	return all
}

func (c Catalogue) oneCurrency() error {
	site := c.Currency()
	for _, p := range c.prices() {
		if p.price.Currency != "" && p.price.Currency != site {
			return fmt.Errorf("%s: %s, but the site counts in %s; a site has one currency", p.field, p.price, site)
		}
	}
	return nil
}

// Rate is what a node of a class on a machine costs an hour: the class's price, and that of each of the machine's devices.
func (c Catalogue) Rate(class string, m Machine) price.Amount {
	found, _ := c.Find(class)
	rate := found.Price
	for _, kind := range deviceKinds {
		if device, n := c.Tariff.Devices[kind], m.Facts.Count(kind); n > 0 && device.Currency != "" {
			rate = rate.Plus(device.Times(n))
		}
	}
	return rate
}

// UsableCores is how many physical cores a node on the machine has: a part of a host may have fewer CPUs than the host
// has cores.
func (f Facts) UsableCores() int {
	if f.Cores == 0 {
		return f.CPUs
	}
	return min(f.Cores, f.CPUs)
}

// Terms are what a node of a class on a machine costs from now on.
func (c Catalogue) Terms(class string, m Machine) price.Terms {
	terms := price.Terms{Rate: c.Rate(class, m), Cores: m.Facts.UsableCores(), CPUs: m.Facts.CPUs,
		GPUs: m.Facts.Count("gpu")}
	for _, state := range c.Tariff.Charged {
		terms.Charged = append(terms.Charged, price.State(state))
	}
	return terms
}

// HomeTerms are what a cluster's /home costs from now on. It is charged for as long as it is there: while the cluster is
// paused, no other cluster can have its space.
func (c Catalogue) HomeTerms() price.Terms {
	return price.Terms{Rate: c.Tariff.Storage, Charged: []price.State{price.Stored}}
}
