package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/words"
)

// lastEvents is how many events describe shows.
const lastEvents = 10

func (a *app) describe() *cobra.Command {
	c := &cobra.Command{
		Use:   "describe NAME",
		Short: "Show everything about a cluster: nodes, reasons, last events",
		Long: `Show a cluster with everything that explains its state: its phase and why, what it lacks, each node with its machine, address,
Slurm's state, and what it waits for or which limits it has, the waiting jobs with their reasons, and the last events.`,
		Example: `  muster describe hello
  watch muster describe hello`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	return a.verb(c, func(ctx context.Context, args []string) error {
		cluster, _, err := apiv1.GetCluster.Call(ctx, a, apiv1.ClusterRef{Cluster: args[0]})
		if err != nil {
			return err
		}
		events, err := apiv1.All(ctx, a, apiv1.ListClusterEvents, clusterEvents(cluster.ID, 0))
		if err != nil {
			return err
		}
		a.printCluster(cluster)
		t := newTable("AGO", "WHO", "EVENT").whole()
		for _, e := range events[max(len(events)-lastEvents, 0):] {
			t.row(age(e.At), who(e), what(e))
		}
		t.printBelow(a.out)
		return nil
	})
}

func (a *app) printCluster(c apiv1.Cluster) {
	t := newTable()
	t.fact("name", c.Name)
	t.fact("id", c.ID)
	t.fact("project", c.Project)
	t.fact("phase", line("%s for %s", a.phase(c.Phase), age(c.Since)))
	t.fact("reason", c.Reason)
	t.fact("lacks", c.Lacks)
	if !c.Lease.EndsAt.IsZero() || time.Until(c.Lease.StartsAt) > 0 {
		t.fact("lease", leaseWords(c.Lease))
	}
	if c.Home != nil {
		t.fact("/home", words.Size(c.Home.Used)+" of "+words.Size(c.Home.Size))
	}
	t.fact("image", c.Spec.Image+"@"+c.Image)
	if c.Spec.Software != nil {
		t.fact("scheduler", c.Spec.Software.Scheduler)
	}
	t.fact("price", textIf(c.Price != "", c.Price+" per hour"))
	t.fact("cost", textIf(c.Cost != "", costWords(c)))
	for _, l := range c.Limits {
		t.fact(l.What, limitWords(l))
	}
	for _, k := range c.Keys {
		t.fact("fabric "+k.Fabric, fmt.Sprintf("key %s at %d ports", k.Key, k.Ports))
	}
	t.fact("age", age(c.CreatedAt)+", created by "+c.CreatedBy)
	if c.Reached < c.Generation {
		t.fact("change", fmt.Sprintf("generation %d is being applied, %d was reached", c.Generation, c.Reached))
	}
	t.print(a.out)
	a.printNodes(c)
	a.printSiteChecks(c.Nodes)
	a.printAccelerators(c.Nodes)
	a.printGuests(c.Nodes)
	a.printApps(c)
	if c.Waiting != nil {
		a.out.gap()
		a.printWaiting(c.Name, *c.Waiting)
	}
	if c.Receipt != nil {
		a.out.gap()
		a.printReceipt(c)
	}
}

func (a *app) printNodes(c apiv1.Cluster) {
	located := slices.ContainsFunc(c.Nodes, func(n apiv1.Node) bool { return n.Leaf != "" })
	columns := []string{"NODE", "QUEUE", "PHASE", "FOR", "MACHINE", "ADDRESS", strings.ToUpper(schedulerOf(c)), "JOBS", "SEEN",
		"REASON"}
	if located {
		columns = slices.Insert(columns, 5, "LEAF")
	}
	t := newTable(columns...).whole()
	for _, n := range c.Nodes {
		state, jobs := schedulerWords(n.Scheduler)
		row := []any{n.Name, nodeQueue(c, n), a.phase(n.Phase), age(n.Since), n.Machine, n.Address, state, jobs, seen(n.Seen),
			nodeReason(n)}
		if located {
			row = slices.Insert(row, 5, any(n.Leaf))
		}
		t.row(row...)
	}
	t.printBelow(a.out)
}

// schedulerOf names the cluster's scheduler as its file does.
func schedulerOf(c apiv1.Cluster) string {
	if c.Spec.Software == nil {
		return "scheduler"
	}
	return c.Spec.Software.Scheduler
}

// nodeQueue is a node's queue, with the node's class where it is not the first that the queue asks for.
func nodeQueue(c apiv1.Cluster, n apiv1.Node) string {
	if n.Role == apiv1.RoleHead {
		return "(head)"
	}
	for _, q := range c.Spec.Queues {
		if q.Name == n.Queue && q.Class != n.Class {
			return n.Queue + " (" + n.Class + ")"
		}
	}
	return n.Queue
}

// mostJobs is how many waiting jobs describe shows.
const mostJobs = 10

func (a *app) printWaiting(cluster string, w apiv1.Waiting) {
	t := newTable("JOB", "USER", "QUEUE", "NODES", "FOR", "WAITS FOR").whole()
	shown := 0
	for _, job := range w.Jobs[:min(len(w.Jobs), mostJobs)] {
		id := strconv.Itoa(job.ID) + textIf(job.Tasks > 1, fmt.Sprintf(" (%d tasks)", job.Tasks))
		t.row(id, job.User, strings.Join(job.Queues, ","), strconv.Itoa(job.Nodes), age(job.Since), job.WaitsFor)
		shown += job.Tasks
	}
	t.print(a.out)
	if more := w.Total - shown; more > 0 {
		a.out.line("and %s more: `muster ssh %s -- squeue` lists them", words.Count(more, "job"), cluster)
	}
}

// seen is how long ago a node last reported.
func seen(at time.Time) string { return cmp.Or(age(at), "never") }

// nodeReason is why the node is in its phase, with the checks that it fails.
func nodeReason(n apiv1.Node) string {
	var parts []string
	if n.Reason != "" {
		parts = append(parts, n.Reason)
	}
	for _, u := range n.Unapplied {
		parts = append(parts, "for "+cmp.Or(u.User, "everybody")+" not done, and tried again: "+u.Text)
	}
	for _, check := range n.Checks {
		if !check.OK {
			parts = append(parts, strings.TrimSuffix(check.Name+" fails: "+check.Text, ": "))
		}
	}
	return strings.Join(parts, "; ")
}

// schedulerWords is what the cluster's scheduler says of a node, in its own word.
func schedulerWords(s *apiv1.NodeState) (state, jobs string) {
	if s == nil {
		return "", ""
	}
	drains := s.State == apiv1.NodeDraining || s.State == apiv1.NodeDrained
	return s.Raw + textIf(drains, "+drain") + textIf(s.Reboots, "+reboot") + textIf(!s.Responding, "*"), strconv.Itoa(s.Jobs)
}
