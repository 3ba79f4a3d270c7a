package cli

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/spec"
)

func (a *app) gateway() *cobra.Command {
	return group(&cobra.Command{
		Use:   "gateway",
		Short: "Show the SSH gateway and change its host key",
		Long:  "`muster serve --ssh ADDRESS`" + ` runs the gateway. All controllers of a site share one host key.`,
		Example: `  muster gateway show
  muster gateway rotate`,
	}, a.gatewayShow(), a.gatewayRotate())
}

func (a *app) gatewayShow() *cobra.Command {
	c := &cobra.Command{
		Use:     "show",
		Short:   "Show the gateway's address and host keys",
		Long:    `Show the gateway's address and host keys: the one in use, and the next one during a rotation.`,
		Example: `  muster gateway show`,
		Args:    cobra.NoArgs,
	}
	return showing(a, c, apiv1.GetGateway, &apiv1.Nothing{}, a.printGateway)
}

func (a *app) printGateway(g apiv1.Gateway) {
	a.out.line("address: %s", cmp.Or(g.Address, "none: `muster serve --ssh ADDRESS` opens one"))
	for i, k := range g.Keys {
		word := "host key:"
		if i > 0 {
			word = "from " + spec.When(k.From) + ":"
		}
		a.out.line("%s %s", word, strings.TrimSpace(k.Line))
	}
}

func (a *app) gatewayRotate() *cobra.Command {
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Change the gateway's host key",
		Long: `Make the gateway's next host key. It is announced to every client that connects, and replaces the current key after a while.
OpenSSH clients that connected in between accept it without a warning about a changed key. Clients configured by
` + "`muster ssh-config`" + ` trust the site's CA and are not affected.`,
		Example: `  muster gateway rotate
  muster gateway rotate --after 30d`,
		Args: cobra.NoArgs,
	}
	var in apiv1.RotateGatewayKeyInput
	c.Flags().StringVar(&in.After, "after", "7d", "the `TIME` until the new key replaces the old one, as in 12h or 30d")
	return showing(a, c, apiv1.RotateGatewayKey, &in, a.printGateway)
}
