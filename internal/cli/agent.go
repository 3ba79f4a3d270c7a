package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"muster/internal/drivers"
	"muster/internal/hostd"
	"muster/internal/noded"
)

func (a *app) agent() *cobra.Command {
	c := &cobra.Command{
		Use:    "agent",
		Hidden: true, // no user types it
		Short:  "Run as the first process of a node",
		Long: `Run as the first process of a node: join the cluster with the one-time token of this boot, apply the node's
configuration, keep its services running, and report their state. Substrates start it; do not run it yourself. The exit code is
3 when the controller has refused this boot for good.`,
		Example: `  muster agent`,
		Args:    cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			return a.agentEnded(noded.Run(ctx, noded.Options{Schedulers: drivers.Schedulers(), Console: a.err.raw()}))
		}),
	}
	c.AddCommand(a.agentHost(), a.agentHome())
	return c
}

// agentEnded tells why an agent has ended, in words and by its exit code.
func (a *app) agentEnded(err error) error {
	if err == nil {
		return nil
	}
	a.complain(err.Error())
	return exitCode(noded.ExitStatus(err))
}

func (a *app) agentHost() *cobra.Command {
	return &cobra.Command{
		Use:    "host",
		Hidden: true,
		Short:  "Run the guests of a hypervisor",
		Long: `Run on a hypervisor: start and stop guests as the controller says, and report their state. The machine's first
process starts it, and restarts it when it has ended; guests go on running meanwhile. The exit code is 3 when the controller has
refused this boot for good.`,
		Example: `  muster agent host`,
		Args:    cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			return a.agentEnded(holdGuests(ctx, a.err.raw()))
		}),
	}
}

// holdGuests runs until ctx ends, or until the site's authority has changed, or the controller refuses this boot.
func holdGuests(ctx context.Context, console io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	trusted, err := noded.Trust("", stop)
	if err != nil {
		return err
	}
	defer trusted.Close()
	machine, err := hostd.ThisMachine(console)
	if err != nil {
		return err
	}
	options := machine.Options(ctx)
	options.Controller, options.Refused, options.Boot = trusted, noded.ErrRefused, trusted.Boot
	options.Keys = hostd.Keys{Certificate: trusted.Certificate, Roots: trusted.Roots}
	return hostd.Run(ctx, options)
}

func (a *app) agentHome() *cobra.Command {
	return &cobra.Command{
		Use:    "home",
		Hidden: true,
		Short:  "Run the NFS server of /home",
		Long: `Run the NFS server that serves /home to nodes that are not on the head's host, with few privileges and a file tree
of its own. The head's first process starts it.`,
		Example: `  muster agent home`,
		Args:    cobra.NoArgs,
		RunE:    a.do(func(context.Context, []string) error { return noded.HoldHomeServer() }),
	}
}
