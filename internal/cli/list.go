package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"muster/internal/agent/protocol"
	"muster/internal/api"
	"muster/internal/store"
)

func (a *app) list() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List clusters",
		Long: `List the clusters of your projects, or all as an operator, with their phase, how many of their compute nodes are ready, and why a cluster is not ready. Deleted
clusters are not listed; ` + "`muster get ID`" + ` still finds them.`,
		Example: `  muster list
  muster list -o json`,
		Args: cobra.NoArgs,
	}
	return listing(a, c, "/v1/clusters", a.printClusters)
}

func (a *app) printClusters(clusters []api.Cluster) {
	if len(clusters) == 0 {
		a.say("there are no clusters; `muster create NAME --nodes N` makes one")
		return
	}
	projects := map[string]bool{}
	for _, c := range clusters {
		projects[c.Project] = true
	}
	t := newTable("NAME", "PROJECT", "PHASE", "FOR", "READY", "AGE", "LEASE", "PRICE/H", "REASON")
	for _, c := range clusters {
		ready, of := 0, 0
		for _, n := range c.Nodes {
			if n.Role == protocol.Head {
				continue
			}
			of++
			if n.Phase == store.Ready {
				ready++
			}
		}
		project := ""
		if len(projects) > 1 {
			project = c.Project
		}
		t.row(c.Name, project, a.phase(c.Phase), age(c.Since), fmt.Sprintf("%d/%d", ready, of), age(c.CreatedAt), leaseBrief(c.Lease), c.Price, c.Reason)
	}
	t.print(a.out)
}

// phase is a phase in its colour.
func (a *app) phase(p store.Phase) string { return a.paint(a.out, phaseColour(p), string(p)) }
