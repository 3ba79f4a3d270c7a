package admission

import (
	"context"
	"fmt"
	"strings"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/meter"
	"muster/internal/kit/words"
	"muster/internal/price"
	"muster/internal/spec"
)

// Use is what a project holds at a moment, or asks for.
type Use struct {
	Nodes int // with those promised and not there: the min of a queue is a promise, growth beyond it is not
	Cores int // of nodes that have a machine
	GPUs  int
}

// InUse is what the project's clusters hold and were promised.
func (a *Admission) InUse(ctx context.Context, tx *core.Tx, project string) (Use, error) {
	use, promise, err := a.inUse(ctx, tx, project, "", spec.Cluster{})
	use.Nodes += promise
	return use, err
}

// After is what a project holds and was promised once a plan is carried out, and its limits at the rate that it then has. ok is
// false where the cluster has no nodes then.
func (a *Admission) After(ctx context.Context, tx *core.Tx, plan *Plan) (use Use, limits []price.Limit, ok bool, err error) {
	if len(plan.all) == 0 {
		return use, nil, false, nil
	}
	id := ""
	if plan.current != nil {
		id = plan.current.ID
	}
	if use, _, err = a.inUse(ctx, tx, plan.Spec.Project, id, plan.Spec); err != nil {
		return use, nil, false, err
	}
	held, err := meter.HeldBy(ctx, tx, plan.Spec.Project)
	if err != nil {
		return use, nil, false, err
	}
	for _, h := range held {
		if h.Cluster == id {
			use = Use{use.Nodes - h.Nodes, use.Cores - h.Cores, use.GPUs - h.GPUs}
		}
	}
	use.Nodes += max(len(plan.all), promised(cluster.Cluster{Spec: plan.Spec, Desired: core.Present}, nil))
	for _, p := range plan.all {
		use.Cores, use.GPUs = use.Cores+p.Machine.Facts.UsableCores(), use.GPUs+p.Machine.Facts.Count("gpu")
	}
	limits, err = a.limitsAfter(ctx, tx, plan.Spec.Project, plan)
	return use, limits, true, err
}

// inUse counts what one cluster was promised beside the rest, and by another spec.
func (a *Admission) inUse(ctx context.Context, tx *core.Tx, project, id string, wanted spec.Cluster) (use Use, promise int,
	err error) {
	clusters, err := cluster.List(ctx, tx, project)
	if err != nil {
		return use, 0, err
	}
	held, err := meter.HeldBy(ctx, tx, project)
	if err != nil {
		return use, 0, err
	}
	staying := map[string]map[string]int{}
	for _, h := range held {
		if staying[h.Cluster] == nil {
			staying[h.Cluster] = map[string]int{}
		}
		staying[h.Cluster][h.Queue] += h.Staying
		use.Nodes, use.Cores, use.GPUs = use.Nodes+h.Nodes, use.Cores+h.Cores, use.GPUs+h.GPUs
	}
	for _, c := range clusters {
		if c.ID == id {
			c.Spec = wanted
			promise = promised(c, staying[c.ID])
		} else {
			use.Nodes += promised(c, staying[c.ID])
		}
	}
	return use, promise, nil
}

// promised counts the nodes that a cluster may have at any time and that are not there: after a failure, no other cluster gets
// its place.
func promised(c cluster.Cluster, staying map[string]int) int {
	c.Targets = nil
	if c.Desired != core.Present {
		return 0
	}
	missing := max(0, 1-staying[""])
	for _, q := range c.Spec.Queues {
		missing += max(0, c.Wants(q)-staying[q.Name])
	}
	return missing
}

// room is how many of the nodes that are to come, the first ones, leave a project within its quota, and have money left; the
// refusal is for the rest. It is asked in the transaction that adds them: the project's lock lets one such transaction
// pass at a time.
func (a *Admission) room(ctx context.Context, tx *core.Tx, id string, c spec.Cluster, add []Placed) (int, *Refusal, error) {
	if len(add) == 0 {
		return 0, nil, nil
	}
	if over, err := a.spendable(ctx, tx, id, c); over != nil || err != nil {
		return 0, over, err
	}
	quota := a.Catalogue.Projects[c.Project].Quota
	if quota.Nodes == nil && quota.Cores == nil && quota.GPUs == nil {
		return len(add), nil, nil
	}
	if err := meter.LockProject(ctx, tx, c.Project); err != nil {
		return 0, nil, err
	}
	use, promise, err := a.inUse(ctx, tx, c.Project, id, c)
	if err != nil {
		return 0, nil, err
	}
	fit := -1
	asked := Use{}
	for i, p := range add {
		asked = Use{asked.Nodes + 1, asked.Cores + p.Machine.Facts.UsableCores(), asked.GPUs + p.Machine.Facts.Count("gpu")}
		total := Use{use.Nodes + max(promise, asked.Nodes), use.Cores + asked.Cores, use.GPUs + asked.GPUs}
		if fit < 0 && (above(quota.Nodes, total.Nodes, 1) || above(quota.Cores, total.Cores, asked.Cores) ||
			above(quota.GPUs, total.GPUs, asked.GPUs)) {
			fit = i
		}
	}
	if fit < 0 {
		return len(add), nil, nil
	}
	use.Nodes += max(promise, asked.Nodes) - asked.Nodes
	var parts []string
	for _, q := range []struct {
		noun       string
		limit      *int
		use, asked int
	}{{"node", quota.Nodes, use.Nodes, asked.Nodes}, {"core", quota.Cores, use.Cores, asked.Cores},
		{"GPU", quota.GPUs, use.GPUs, asked.GPUs}} {
		if above(q.limit, q.use+q.asked, q.asked) {
			parts = append(parts, fmt.Sprintf("%d of %s in use, %d more asked", q.use, words.Count(*q.limit, q.noun), q.asked))
		}
	}
	over := refuse(OverQuota, "over-quota", pathOf(add), fmt.Sprintf("project %s: %s", c.Project, strings.Join(parts, "; ")),
		"`muster quota` shows what is left; scale down, pause or delete a cluster of the project, or ask for less")
	over.lacks = len(add) - fit
	return fit, over, nil
}

// promisable refuses a reservation of more nodes than the project's quota has left. Its cores are counted when its machines
// are known.
func (a *Admission) promisable(ctx context.Context, tx *core.Tx, plan *Plan) error {
	quota := a.Catalogue.Projects[plan.Spec.Project].Quota.Nodes
	if quota == nil {
		return nil
	}
	if err := meter.LockProject(ctx, tx, plan.Spec.Project); err != nil {
		return err
	}
	id, before, asked := "", 0, promised(cluster.Cluster{Spec: plan.Spec, Desired: core.Present}, nil)
	if plan.current != nil {
		id, before = plan.current.ID, promised(*plan.current, nil)
	}
	use, _, err := a.inUse(ctx, tx, plan.Spec.Project, id, plan.Spec)
	if err != nil || !above(quota, use.Nodes+asked, asked-before) {
		return err
	}
	return refuse(OverQuota, "over-quota", "", fmt.Sprintf("project %s: %d of %s in use, %d more asked", plan.Spec.Project,
		use.Nodes, words.Count(*quota, "node"), asked),
		"reserved nodes count from now on; `muster quota` shows what is left")
}

// oneMore refuses a cluster of a project that has all that it may have.
func (a *Admission) oneMore(ctx context.Context, tx *core.Tx, project string) error {
	has, err := cluster.Count(ctx, tx, project)
	most := a.Catalogue.Projects[project].Quota.MostClusters()
	if err != nil || has < most {
		return err
	}
	return refuse(OverQuota, "over-quota", "", fmt.Sprintf("project %s has %s, of %d that it may have", project,
		words.Count(has, "cluster"), most), "delete one, also of those that are paused or reserved; an operator can raise the quota")
}

// above says that a total, to which something was added, is above a limit. A limit that was lowered under what is in use
// takes nothing away.
func above(limit *int, total, added int) bool { return limit != nil && added > 0 && total > *limit }

// pathOf is the field that asks for the last of the nodes.
func pathOf(add []Placed) string {
	if last := add[len(add)-1]; last.Queue != "" {
		return sizePath(last.Queue)
	}
	return "head.class"
}

// knownMoney checks that a budget is in the site's currency.
func (a *Admission) knownMoney(c spec.Cluster) spec.Diagnostics {
	limit, site := budgetOf(c), a.Catalogue.Currency()
	if limit.Currency == "" || limit.Currency == site {
		return nil
	}
	d := spec.Diagnostic{Code: "unknown-currency", Path: "budget.limit",
		Text: fmt.Sprintf("the budget is in %s, but this site's prices are in %s", limit.Currency, site),
		Hint: fmt.Sprintf("write budget: {limit: %s}", price.Amount{Micros: limit.Micros, Currency: site})}
	if site == "" {
		d.Text, d.Hint = "this site has no prices, so a budget has no meaning", "leave the budget out"
	}
	return spec.Diagnostics{d}
}
