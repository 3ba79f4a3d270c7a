package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/duration"
)

func (a *app) scale() *cobra.Command {
	c := &cobra.Command{
		Use:   "scale NAME [QUEUE=]N|MIN-MAX",
		Short: "Change the number of nodes of a queue",
		Long: `Change a queue's number of nodes; QUEUE= may be left out if the cluster has only one. New nodes join the running
cluster. Nodes to be removed are drained first, idle ones before busy ones: their jobs may finish, for at most --drain-timeout.

MIN-MAX makes the queue grow and shrink with its jobs between the two. A single N sets a fixed size again.`,
		Example: `  muster scale hello 5 --wait
  muster scale cfd gpu=2
  muster scale cfd cpu=0-16
  muster scale cfd cpu=1 --drain-timeout 10m`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	drain := drainFlag(c)
	flags := changeFlags(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		queue, number, named := strings.Cut(args[1], "=")
		if !named {
			queue, number = "", args[1]
		}
		body := apiv1.ScaleClusterBody{Queue: queue}
		if err := readSize(&body, number); err != nil || named && queue == "" {
			return usage("%q is not a number of nodes: write N, QUEUE=N or QUEUE=MIN-MAX, as in 5, gpu=2 or cpu=0-16", args[1])
		}
		in := apiv1.ScaleClusterInput{ClusterRef: apiv1.ClusterRef{Cluster: args[0]}, Request: flags.request(*drain), Body: body}
		return carryOut(ctx, a, flags, apiv1.ScaleCluster, in)
	})
}

// readSize reads "5" or "0-16".
func readSize(b *apiv1.ScaleClusterBody, text string) error {
	least, most, bounds := strings.Cut(text, "-")
	n, err := strconv.ParseUint(least, 10, 16)
	if err != nil || !bounds {
		b.Nodes = int(n)
		return err
	}
	m, err := strconv.ParseUint(most, 10, 16)
	low, high := int(n), int(m)
	b.Min, b.Max = &low, &high
	return err
}

// drainTimeout is how long nodes that go may wait for their jobs.
type drainTimeout time.Duration

func drainFlag(c *cobra.Command) *drainTimeout {
	d := new(drainTimeout)
	d.flag(c, "the most `TIME` that nodes to be removed wait for their jobs, such as 10m; then the jobs are ended (default: "+
		"no limit)")
	return d
}

func (d *drainTimeout) flag(c *cobra.Command, usage string) {
	c.Flags().Var((*duration.Value)(d), "drain-timeout", usage)
}
