package cli

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
)

func (a *app) pause() *cobra.Command {
	c := &cobra.Command{
		Use:   "pause NAME",
		Short: "Give a cluster's machines back and keep its state",
		Long: `Pause a cluster: its machines go back to the pool, and only its storage is charged. Its /home, its job queue, its nodes' names and
addresses, and its head's SSH host key stay until it is resumed or deleted.

Running batch jobs are requeued and start from the beginning when the cluster is back; interactive ones end. If the image has a
program /etc/muster/checkpoint, it runs first and can save their work. With --on-jobs wait, no new job starts and the cluster
pauses when the running ones have ended, or when --drain-timeout is over.

With --on-jobs keep, a cluster of virtual machines is suspended: its nodes' memory is saved to their hosts' disks, and running jobs
continue where they were when it is back. If a node cannot be suspended, an event says why, and the jobs are requeued. A suspended
cluster can be resumed on the same hosts only; --on-jobs requeue discards its memory.`,
		Example: `  muster pause hello --wait
  muster pause cfd --on-jobs wait
  muster pause cfd --drain-timeout 30m
  muster pause cfd --on-jobs keep`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	onJobs := c.Flags().String("on-jobs", "",
		"`WHAT` happens to running jobs: requeue them at once, wait for them, or keep them in memory (default: wait if there "+
			"is a --drain-timeout, else requeue)")
	drain := new(drainTimeout)
	drain.flag(c, "the `TIME` that running jobs may take to end, such as 30m; then they are requeued (default: no limit with "+
		"--on-jobs wait)")
	flags := &changing{waiting: waitFlags(c, "its machines are back in the pool"), output: formatFlag(c)}
	return a.verb(c, func(ctx context.Context, args []string) error {
		switch *onJobs {
		case "", "requeue", "wait", "keep":
		default:
			return usage("--on-jobs must be requeue, wait or keep, not %q", *onJobs)
		}
		in := apiv1.PauseClusterInput{ClusterRef: apiv1.ClusterRef{Cluster: args[0]}, Request: flags.request(*drain),
			OnJobs: *onJobs}
		return carryOut(ctx, a, flags, apiv1.PauseCluster, in)
	})
}

func (a *app) resume() *cobra.Command {
	c := &cobra.Command{
		Use:   "resume NAME",
		Short: "Bring a paused cluster back",
		Long: `Resume a paused cluster on machines that are free now, with the same names, addresses, keys, /home and queued
jobs. It waits for machines that are being prepared, up to an hour. If there are too few machines, it is refused with what is
missing (exit code 3), and the cluster stays paused. For a cluster that is still pausing, it calls the pause off.`,
		Example: `  muster resume hello --wait
  muster resume cfd --dry-run`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	flags := changeFlags(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		in := apiv1.ResumeClusterInput{ClusterRef: apiv1.ClusterRef{Cluster: args[0]}, DryRun: flags.dryRun}
		return carryOut(ctx, a, flags, apiv1.ResumeCluster, in)
	})
}
