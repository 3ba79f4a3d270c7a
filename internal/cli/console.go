package cli

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"net/url"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) console() *cobra.Command {
	c := &cobra.Command{
		Use:   "console",
		Short: "Open the console in your browser",
		Long: `Print an address that signs a browser in to the console, and open it if there is a browser. The address works once, within
ten minutes; the browser then stays signed in for 12 hours, or until your token or login ends. It may do what your token
may.

Browsers stay signed in over HTTPS, and without it at localhost only.`,
		Example: `  muster console
  muster console --no-browser
  muster console --sign-out    # all browsers of yours`,
		Args: cobra.NoArgs,
	}
	silent := c.Flags().Bool("no-browser", false, "only print the address")
	ends := c.Flags().Bool("sign-out", false, "sign out all browsers in which you are signed in")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, _ []string) error {
		controller, err := a.connect()
		if err != nil {
			return err
		}
		if *ends {
			_, _, err := apiv1.SignOut.Call(ctx, a, apiv1.SignOutInput{All: true})
			return err
		}
		opened, raw, err := apiv1.OpenConsole.Call(ctx, a, apiv1.Nothing{})
		if err != nil {
			return err
		}
		address := visible(controller.base).String() + opened.Path
		if err := output.print(a.out, raw, func() { a.out.line("%s", address) }); err != nil {
			return err
		}
		if inClear(controller.base) != nil {
			a.say("a browser stays signed in over HTTPS only, or at localhost")
		}
		if live(a.out) && !*silent && *output == asTable {
			a.browse(ctx, address)
		}
		return nil
	})
}

// visible is where a browser finds a controller of this host: at a name that no other program of the host is found by, as that
// would get the console's cookie, too.
func visible(base *url.URL) *url.URL {
	ip, err := netip.ParseAddr(base.Hostname())
	here := base.Hostname() == "localhost" || err == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified())
	if base.Scheme != "http" || !here {
		return base
	}
	seen := *base
	seen.Host = net.JoinHostPort("muster.localhost", cmp.Or(base.Port(), "80"))
	return &seen
}
