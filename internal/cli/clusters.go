package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) clusters() *cobra.Command {
	return group(&cobra.Command{
		Use:   "clusters",
		Short: "Register clusters that Muster did not build",
		Long: `Register a centre's own batch system here, and members of projects reach it through the same gateway as clusters that Muster
makes. Its queues then show in ` + "`muster list`" + `.`,
		Example: `  muster clusters ca
  muster clusters register arc --login arc.example.org --host-key arc.keys --as same --project aero=cpu,gpu --wait
  muster clusters list`,
	}, a.clustersCA(), a.clustersRegister(), a.clustersSet(), a.clustersList(), a.clustersShow(), a.clustersUnregister())
}

func (a *app) externalNames(ctx context.Context) ([]string, error) {
	return namesOf(ctx, a, apiv1.ListExternalClusters, func(c apiv1.ExternalCluster) string {
		return c.Name + "\t" + string(c.State)
	})
}

func (a *app) clustersList() *cobra.Command {
	c := listVerb("List registered clusters and their queues",
		`List the registered clusters that your projects may use, with the queues open to them and how many nodes these have, free and with
jobs. A cluster that does not answer is shown with the reason and its last known queues.`,
		`  muster clusters list`)
	return listing(a, c, apiv1.ListExternalClusters, &apiv1.Page{}, func(externals []apiv1.ExternalCluster) {
		if len(externals) == 0 {
			a.say("no clusters are registered; an operator can register one with `muster clusters register`")
			return
		}
		a.printExternals(externals)
	})
}

func (a *app) printExternals(externals []apiv1.ExternalCluster) {
	t := newTable("EXTERNAL", "STATE", "FOR", "SYSTEM", "QUEUE", "OPEN", "NODES", "FREE", "USED", "RUNNING", "WAITING", "REASON")
	for _, c := range externals {
		row := []any{c.Name, a.paint(a.out, externalColour(c.State), string(c.State)), age(c.Since), c.System}
		if len(c.Queues) == 0 {
			t.row(append(row, "", "", "", "", "", "", "", c.Reason)...)
		}
		for i, q := range c.Queues {
			reason := c.Reason
			if i > 0 {
				row, reason = []any{"", "", "", ""}, ""
			}
			t.row(append(row, q.Name, q.State, fmt.Sprint(q.Nodes), fmt.Sprint(q.Free), fmt.Sprint(q.Used),
				textOf(q.Running, strconv.Itoa), textOf(q.Waiting, strconv.Itoa), reason)...)
		}
	}
	t.print(a.out)
}

func externalColour(s apiv1.ExternalClusterState) colour {
	switch s {
	case apiv1.ExternalClusterOpen:
		return green
	case apiv1.ExternalClusterSilent:
		return red
	}
	return yellow
}

func (a *app) clustersShow() *cobra.Command {
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a registered cluster",
		Long: `Show a registered cluster's address, host keys, projects with their account rules, and queues. The accounts of people are shown to
operators only.`,
		Example:           `  muster clusters show arc`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.externalNames),
	}
	var ref apiv1.ExternalClusterRef
	return showing(a, c, apiv1.GetExternalCluster, &ref, a.printExternal, &ref.ExternalCluster)
}

func (a *app) printExternal(c apiv1.ExternalCluster) {
	facts := newTable()
	facts.row("login", c.Login)
	facts.fact("host authority", c.HostCA)
	for _, key := range c.HostKeys {
		facts.row("host key", key)
	}
	facts.row("looked at as", c.Probe)
	facts.row("last answered", age(c.SeenAt))
	facts.print(a.out)
	projects := newTable("PROJECT", "AS", "QUEUES")
	for _, p := range c.Projects {
		projects.row(p.Project, cmp.Or(p.Account, p.Rule), cmp.Or(strings.Join(p.Queues, ", "), "all"))
	}
	projects.printBelow(a.out)
	accounts := newTable("PERSON", "ACCOUNT")
	for _, person := range slices.Sorted(maps.Keys(c.Accounts)) {
		accounts.row(person, c.Accounts[person])
	}
	accounts.printBelow(a.out)
	a.out.gap()
	a.printExternals([]apiv1.ExternalCluster{c})
}

func (a *app) clustersUnregister() *cobra.Command {
	c := &cobra.Command{
		Use:   "unregister NAME",
		Short: "Forget a registered cluster",
		Long: `Forget a registered cluster: the gateway no longer leads there. Nothing changes at the centre; remove Muster's CA from its sshd
afterwards.`,
		Example:           `  muster clusters unregister arc`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.externalNames),
	}
	var ref apiv1.ExternalClusterRef
	return doing(a, c, apiv1.RemoveExternalCluster, &ref, "external cluster %s is forgotten", &ref.ExternalCluster)
}

func (a *app) clustersCA() *cobra.Command {
	c := &cobra.Command{
		Use:   "ca",
		Short: "Print the key that the sshd of external clusters must trust",
		Long: `Print the public key that the sshd of a centre's login host must trust, and where to write it. With it the centre accepts
certificates that Muster signs for one account and a few minutes; no other key of Muster or its users is stored there. With -o
json, print the key alone.`,
		Example: `  muster clusters ca
  muster clusters ca -o json`,
		Args: cobra.NoArgs,
	}
	return showing(a, c, apiv1.GetExternalClusterAuthority, &apiv1.Nothing{}, func(ca apiv1.ExternalClusterAuthority) {
		a.out.line(`# On the centre's login host, as root:
cat > /etc/ssh/muster.pub <<'END'
%s muster
END
# and in /etc/ssh/sshd_config, before the first Match:
TrustedUserCAKeys /etc/ssh/muster.pub
# Then have sshd read it: systemctl reload ssh`, ca.PublicKey)
	})
}
