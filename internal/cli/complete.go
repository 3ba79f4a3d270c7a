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
	clusters, _, err := all[apiv1.Cluster](ctx, c, "/v1/clusters", cursor, nil)
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
	projects, _, err := all[apiv1.Project](ctx, c, "/v1/projects", cursor, nil)
	var list []string
	for _, p := range projects {
		list = append(list, p.Name+"\t"+string(p.Role))
	}
	return list, err
}

// personNames are everybody's for operators; others know those of their own projects.
func (a *app) personNames(ctx context.Context, c *client) ([]string, error) {
	var list []string
	people, _, err := all[apiv1.Person](ctx, c, "/v1/people", cursor, nil)
	if err == nil {
		for _, p := range people {
			list = append(list, p.Name+"\t"+p.FullName)
		}
		return list, nil
	}
	projects, err := a.projectNames(ctx, c)
	for _, project := range projects {
		name, _, _ := strings.Cut(project, "\t")
		members, _, err := all[apiv1.Member](ctx, c, projectPath(name, "members"), cursor, nil)
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
	machines, _, err := all[apiv1.Machine](ctx, c, "/v1/machines", cursor, nil)
	var list []string
	for _, m := range machines {
		list = append(list, m.Name+"\t"+string(m.Phase))
	}
	return list, err
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
