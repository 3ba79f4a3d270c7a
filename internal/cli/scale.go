package cli

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) scale() *cobra.Command {
	c := &cobra.Command{
		Use:   "scale NAME [QUEUE=]N",
		Short: "Change the number of nodes of a queue",
		Long: `Give a queue another number of nodes; QUEUE= may be left out where the cluster has one. New nodes join the running
cluster. Nodes that go are drained first, idle ones before busy ones: their jobs may end, for as long as --drain-timeout says.`,
		Example: `  muster scale hello 5 --wait
  muster scale cfd gpu=2
  muster scale cfd cpu=1 --drain-timeout 10m`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	drain := drainFlag(c)
	flags := changeFlags(c)
	c.RunE = a.do(func(ctx context.Context, args []string) error {
		queue, number, named := strings.Cut(args[1], "=")
		if !named {
			queue, number = "", args[1]
		}
		nodes, err := strconv.Atoi(number)
		if err != nil || nodes < 0 || named && queue == "" {
			return usage("%q is no number of nodes: write N or QUEUE=N, as in 5 or gpu=2", args[1])
		}
		controller, err := a.connect()
		if err != nil {
			return err
		}
		r := change(http.MethodPost, clusterPath(args[0], "scale"), struct {
			Queue string `json:"queue,omitempty"`
			Nodes int    `json:"nodes"`
		}{queue, nodes})
		r.query = drain.query()
		return a.carryOut(ctx, controller, flags, r)
	})
	return c
}

// drainTimeout is how long nodes that go may wait for their jobs.
type drainTimeout time.Duration

func drainFlag(c *cobra.Command) *drainTimeout {
	d := new(drainTimeout)
	d.flag(c, "the `TIME` that nodes that go may wait for their jobs, such as 10m; then the jobs are ended (default: no limit)")
	return d
}

func (d *drainTimeout) flag(c *cobra.Command, usage string) {
	c.Flags().DurationVar((*time.Duration)(d), "drain-timeout", 0, usage)
}

func (d *drainTimeout) query() url.Values {
	if *d == 0 {
		return nil
	}
	return url.Values{"drain_timeout": {time.Duration(*d).String()}}
}
