package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"muster/internal/api"
)

// completionPatience is how long a user who pressed Tab is kept waiting.
const completionPatience = 2 * time.Second

// names lists what an argument may be.
type names func(ctx context.Context, c *client) ([]string, error)

func (a *app) clusterNames(ctx context.Context, c *client) ([]string, error) {
	clusters, _, err := all[api.Cluster](ctx, c, "/v1/clusters", cursor, nil)
	var list []string
	for _, cluster := range clusters {
		list = append(list, cluster.Name+"\t"+string(cluster.Phase))
	}
	return list, err
}

func (a *app) machineNames(ctx context.Context, c *client) ([]string, error) {
	machines, _, err := all[api.Machine](ctx, c, "/v1/machines", cursor, nil)
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
func (a *app) completeFirst(n names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeAll(n)(cmd, args, word)
	}
}
