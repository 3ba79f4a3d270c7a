package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/clock"
	"muster/internal/kit/lists"
	"muster/internal/kit/words"
	"muster/internal/spec"
)

func (a *app) snapshot() *cobra.Command {
	c := &cobra.Command{
		Use:   "snapshot NAME",
		Short: "Save a cluster's files and job queue, to make copies of it",
		Long: `Save a cluster's /home, its job queue and its cluster file. The cluster may run meanwhile: each file is as it was when it was
copied. For a consistent state, pause the cluster first. ` + "`muster create NEW --from-snapshot S`" + ` makes a cluster of it.`,
		Example: `  muster snapshot hello --wait
  muster snapshot cfd --name before-upgrade --wait`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	name := c.Flags().String("name", "", "`NAME` of the snapshot (default: the cluster's, with the time)")
	wait, output := waitFlags(c, "it is saved"), formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		in := apiv1.CreateSnapshotInput{ClusterRef: apiv1.ClusterRef{Cluster: args[0]},
			Body: apiv1.CreateSnapshotBody{Name: *name}}
		s, raw, err := apiv1.CreateSnapshot.Call(ctx, a, in)
		if err != nil {
			return err
		}
		if !wait.wait {
			a.say("snapshot %s is being made; `muster snapshots list` shows the progress", s.Name)
			return output.print(a.out, raw, func() {})
		}
		start := time.Now()
		if raw, err = a.awaitSnapshot(ctx, wait, &s); err != nil {
			return err
		}
		a.say("snapshot %s is %s: %s in %s", s.Name, a.paint(a.err, green, "saved"), words.Size(s.Bytes),
			seconds(time.Since(start)))
		a.say("`muster create NEW --from-snapshot %s` makes a cluster of it", s.Name)
		return output.print(a.out, raw, func() {})
	})
}

// awaitSnapshot returns when a snapshot is saved; it tells now and then how far it is.
func (a *app) awaitSnapshot(ctx context.Context, w *waiting, s *apiv1.Snapshot) ([]byte, error) {
	ctx, cancel := w.limit(ctx)
	defer cancel()
	told := time.Now()
	for {
		now, raw, err := apiv1.GetSnapshot.Call(ctx, a, apiv1.SnapshotRef{Snapshot: s.ID})
		switch {
		case errors.Is(context.Cause(ctx), errTimeout):
			return nil, fmt.Errorf("not saved after %s: %s are copied (it goes on; `muster snapshots list` shows it)", w.timeout,
				words.Size(s.Copied))
		case err != nil:
			return nil, err
		case now.Phase == apiv1.Saved:
			*s = now
			return raw, nil
		case now.Phase != apiv1.Saving:
			return nil, fmt.Errorf("it is %s: %s", now.Phase, now.Reason)
		case time.Since(told) > 2*time.Second:
			told = time.Now()
			a.say("%s are copied", words.Size(now.Copied))
		}
		*s = now
		_ = clock.Sleep(ctx, a.timing.draw)
	}
}

func (a *app) snapshots() *cobra.Command {
	return group(&cobra.Command{
		Use:   "snapshots",
		Short: "List and delete snapshots of clusters",
		Long: "The copies that `muster snapshot` saved. Snapshots outlive their clusters and use space on the controller's " +
			"disk until deleted.",
		Example: `  muster snapshots list
  muster snapshots delete before-upgrade`,
	}, a.snapshotsList(), a.snapshotsDelete())
}

func (a *app) snapshotsList() *cobra.Command {
	c := listVerb("List snapshots", `List snapshots with their cluster, size and, while one is being made, its progress.`,
		`  muster snapshots list`)
	return listing(a, c, apiv1.ListSnapshots, &apiv1.Page{}, func(all []apiv1.Snapshot) {
		if len(all) == 0 {
			a.say("there are no snapshots; `muster snapshot NAME` makes one of a cluster")
			return
		}
		projects := lists.SetBy(all, func(s apiv1.Snapshot) string { return s.Project })
		t := newTable("NAME", "PROJECT", "CLUSTER", "PHASE", "SIZE", "AGE", "REASON")
		for _, s := range all {
			size := words.Size(s.Bytes)
			if s.Phase == apiv1.Saving {
				size = words.Size(s.Copied) + " so far"
			}
			t.row(s.Name, textIf(len(projects) > 1, s.Project), s.Cluster, a.phase(s.Phase), size, age(s.CreatedAt), s.Reason)
		}
		t.print(a.out)
	})
}

func (a *app) snapshotsDelete() *cobra.Command {
	c := &cobra.Command{
		Use:     "delete SNAPSHOT",
		Short:   "Delete a snapshot",
		Long:    `Delete a snapshot. Clusters made from it keep their files.`,
		Example: `  muster snapshots delete before-upgrade`,
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(func(ctx context.Context) ([]string, error) {
			return namesOf(ctx, a, apiv1.ListSnapshots, func(s apiv1.Snapshot) string { return s.Name })
		}),
	}
	var ref apiv1.SnapshotRef
	return doing(a, c, apiv1.DeleteSnapshot, &ref, "snapshot %s is being deleted", &ref.Snapshot)
}

// fromSnapshot is the file of a snapshot's cluster under a new name, with a lease of its own.
func (a *app) fromSnapshot(ctx context.Context, ref, name string, lease *spec.Lease) (clusterFile, error) {
	s, _, err := apiv1.GetSnapshot.Call(ctx, a, apiv1.SnapshotRef{Snapshot: ref})
	if err != nil {
		return clusterFile{}, err
	}
	s.Spec.Name = name
	s.Spec.Lease = lease
	return unwritten(s.Spec)
}
