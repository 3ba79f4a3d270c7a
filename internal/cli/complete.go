package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/lists"
)

// completionPatience is how long a user who pressed Tab is kept waiting.
const completionPatience = 2 * time.Second

// names lists what an argument may be.
type names func(ctx context.Context) ([]string, error)

// clusterNames are names alone where one is enough, and PROJECT/NAME where there are several projects.
func (a *app) clusterNames(ctx context.Context) ([]string, error) {
	clusters, err := apiv1.All(ctx, a, apiv1.ListClusters, apiv1.ListClustersInput{})
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

// namesOf are those of all that a list has; what follows a tab explains one.
func namesOf[In, T any](ctx context.Context, a *app, op apiv1.Op[In, apiv1.List[T]], name func(T) string) ([]string, error) {
	var in In
	items, err := apiv1.All(ctx, a, op, in)
	return lists.Map(items, name), err
}

func (a *app) projectNames(ctx context.Context) ([]string, error) {
	return namesOf(ctx, a, apiv1.ListProjects, func(p apiv1.Project) string { return p.Name + "\t" + string(p.Role) })
}

// personNames are everybody's for operators; others know those of their own projects.
func (a *app) personNames(ctx context.Context) ([]string, error) {
	list, err := namesOf(ctx, a, apiv1.ListPeople, func(p apiv1.Person) string { return p.Name + "\t" + p.FullName })
	if err == nil {
		return list, nil
	}
	projects, err := a.projectNames(ctx)
	for _, project := range projects {
		name, _, _ := strings.Cut(project, "\t")
		members, err := apiv1.All(ctx, a, apiv1.ListMembers,
			apiv1.ListMembersInput{ProjectRef: apiv1.ProjectRef{Project: name}})
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

func (a *app) machineNames(ctx context.Context) ([]string, error) {
	return namesOf(ctx, a, apiv1.ListMachines, func(m apiv1.Machine) string { return m.Name + "\t" + string(m.Phase) })
}

func (a *app) classNames(ctx context.Context) ([]string, error) {
	return namesOf(ctx, a, apiv1.ListClasses, func(c apiv1.Class) string { return c.Name })
}

func (a *app) networkNames(ctx context.Context) ([]string, error) {
	return namesOf(ctx, a, apiv1.ListNetworks, func(n apiv1.Network) string { return n.Name })
}

// completeAll completes every argument.
func (a *app) completeAll(n names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		a.hurry()
		ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
		defer cancel()
		list, err := n(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFirst completes the first argument only.
func (a *app) completeFirst(n names) cobra.CompletionFunc { return a.completeInTurn(n) }

// completeInTurn completes as many arguments as there are kinds of names.
func (a *app) completeInTurn(n ...names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(n) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeAll(n[len(args)])(cmd, args, word)
	}
}
