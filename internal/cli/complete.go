package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muster/internal/apiv1"
)

// completionPatience is how long a user who pressed Tab is kept waiting.
const completionPatience = 2 * time.Second

// names lists what an argument may be.
type names func(ctx context.Context, c *client) ([]string, error)

// clusterNames are names alone where one is enough, and PROJECT/NAME where there are several projects.
func (a *app) clusterNames(ctx context.Context, c *client) ([]string, error) {
	clusters, _, err := apiv1.All(ctx, c, apiv1.ListClusters, apiv1.Page{})
	projects, called := map[string]bool{}, map[string]int{}
	for _, cluster := range clusters {
		projects[cluster.Project] = true
		called[cluster.Name]++
	}
	var list []string
	for _, cluster := range clusters {
		if called[cluster.Name] == 1 {
			list = append(list, cluster.Name+"\t"+string(cluster.Phase))
		}
		if len(projects) > 1 {
			list = append(list, cluster.Project+"/"+cluster.Name+"\t"+string(cluster.Phase))
		}
	}
	return list, err
}

func (a *app) projectNames(ctx context.Context, c *client) ([]string, error) {
	projects, _, err := apiv1.All(ctx, c, apiv1.ListProjects, apiv1.Page{})
	var list []string
	for _, p := range projects {
		list = append(list, p.Name+"\t"+string(p.Role))
	}
	return list, err
}

// personNames are everybody's for operators; others know those of their own projects.
func (a *app) personNames(ctx context.Context, c *client) ([]string, error) {
	var list []string
	people, _, err := apiv1.All(ctx, c, apiv1.ListPeople, apiv1.Page{})
	if err == nil {
		for _, p := range people {
			list = append(list, p.Name+"\t"+p.FullName)
		}
		return list, nil
	}
	projects, err := a.projectNames(ctx, c)
	for _, project := range projects {
		name, _, _ := strings.Cut(project, "\t")
		members, _, err := apiv1.All(ctx, c, apiv1.ListMembers, apiv1.ListMembersInput{ProjectRef: apiv1.ProjectRef{Project: name}})
		if err != nil {
			return nil, err
		}
		for _, m := range members {
			list = append(list, m.Person)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), err
}

func (a *app) machineNames(ctx context.Context, c *client) ([]string, error) {
	machines, _, err := apiv1.All(ctx, c, apiv1.ListMachines, apiv1.Page{})
	var list []string
	for _, m := range machines {
		list = append(list, m.Name+"\t"+string(m.Phase))
	}
	return list, err
}

// listers are what may stand for a parameter of an operation's path.
func (a *app) listers() map[string]names {
	return map[string]names{
		"cluster": a.clusterNames, "machine": a.machineNames, "project": a.projectNames, "person": a.personNames,
		"snapshot":    namesOf(apiv1.ListSnapshots, func(s apiv1.Snapshot) string { return s.Name }),
		"network":     namesOf(apiv1.ListNetworks, func(n apiv1.Network) string { return n.Name }),
		"fabric":      namesOf(apiv1.ListFabrics, func(f apiv1.Fabric) string { return f.Name }),
		"centre":      namesOf(apiv1.ListCentres, func(c apiv1.Centre) string { return c.Name + "\t" + string(c.State) }),
		"token":       namesOf(apiv1.ListTokens, func(t apiv1.Token) string { return t.ID + "\t" + strings.ReplaceAll(t.Name, "\t", " ") }),
		"session":     namesOf(apiv1.ListSessions, func(s apiv1.Session) string { return s.ID }),
		"fingerprint": namesOf(apiv1.ListKeys, func(k apiv1.Key) string { return k.Fingerprint }),
	}
}

// namesOf lists what an operation lists.
func namesOf[In, T any](op apiv1.Op[In, apiv1.List[T]], name func(T) string) names {
	return func(ctx context.Context, c *client) ([]string, error) {
		var in In
		items, _, err := apiv1.All(ctx, c, op, in)
		var list []string
		for _, item := range items {
			list = append(list, name(item))
		}
		return list, err
	}
}

// makers are the verbs whose names are new.
var makers = []string{"add", "create", "register"}

// completeArguments has commands that complete nothing by themselves complete their arguments as the table of operations says: the
// parameters of the path that a command asks for are its first arguments. What has more than one path takes the longest.
func (a *app) completeArguments(root *cobra.Command) {
	listers, longest := a.listers(), map[*cobra.Command]int{}
	for _, op := range apiv1.Operations() {
		var of []names
		for step := range strings.SplitSeq(op.Path, "/") {
			if name, is := strings.CutPrefix(step, "{"); is {
				of = append(of, listers[strings.TrimSuffix(name, "}")])
			}
		}
		for _, words := range op.Commands {
			c, rest, err := root.Find(strings.Fields(words))
			_, own := longest[c]
			if err != nil || len(rest) > 0 || c.ValidArgsFunction != nil && !own || slices.Contains(makers, c.Name()) || len(of) <= longest[c] {
				continue
			}
			longest[c] = len(of)
			_, arguments, _ := strings.Cut(c.Use, " ")
			switch {
			case strings.HasPrefix(arguments, "-") || strings.HasPrefix(arguments, "{"): // a file, or one of several forms
			case strings.HasSuffix(arguments, "…"):
				c.ValidArgsFunction = a.completeAll(of[0])
			default:
				c.ValidArgsFunction = a.completeInTurn(of...)
			}
		}
	}
}

// completeAll completes every argument.
func (a *app) completeAll(n names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		c, err := a.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		c.pauses = nil
		ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
		defer cancel()
		list, err := n(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeInTurn completes as many arguments as there are kinds of names; of a kind that nobody lists, none.
func (a *app) completeInTurn(n ...names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(n) {
			return nil, cobra.ShellCompDirectiveDefault // a file, as far as anybody knows
		}
		if n[len(args)] == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeAll(n[len(args)])(cmd, args, word)
	}
}
