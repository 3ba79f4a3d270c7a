package cli

import (
	"github.com/spf13/cobra"
)

func (a *app) completion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion {bash|zsh|fish}",
		Short: "Print a script that completes commands and names in your shell",
		Long: `Print a script for your shell. With it the Tab key completes commands and options, and asks the controller for the names of
clusters and machines.`,
		Example: `  source <(muster completion bash)
  muster completion zsh > "${fpath[1]}/_muster"
  muster completion fish > ~/.config/fish/completions/muster.fish`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(c *cobra.Command, args []string) error {
			a.acting = true
			switch args[0] {
			case "zsh":
				return c.Root().GenZshCompletion(a.out.raw())
			case "fish":
				return c.Root().GenFishCompletion(a.out.raw(), true)
			}
			return c.Root().GenBashCompletionV2(a.out.raw(), true)
		},
	}
}
