package controller

import (
	"context"
	"fmt"
	"slices"

	"muster/internal/apiv1"
	"muster/internal/store"
)

// closeHomes ends what an earlier version let serve /home from the host's own file system, before anything else is done.
// The engine sees that those heads ended and starts them anew.
func (k *controller) closeHomes(ctx context.Context) error {
	ended, err := k.local.EndServing(ctx)
	var clusters []string
	for _, r := range ended {
		clusters = append(clusters, r.Cluster)
	}
	k.sayOf(ctx, clusters, "its head was ended: it served /home from a folder of the controller's own disk, of which any node could have had any other "+
		"file; it starts again, and serves /home once that has moved to a file system of its own")
	return err
}

// moveHomes gives each /home that an earlier version kept in a folder a file system of its own, where no node holds the folder.
func (k *controller) moveHomes(ctx context.Context) error {
	left, err := k.local.MoveHomes(ctx)
	k.sayOf(ctx, left, "/home is still a folder of the controller's disk, since its nodes run: nothing limits what it holds, and it is served to no machine "+
		"and no guest; it moves to a file system of its own when the cluster is paused and resumed")
	if err != nil && ctx.Err() == nil {
		k.Log.Error("cannot move a /home to a file system of its own; tried again when its nodes start", "error", err)
	}
	return nil
}

// short says why no more files fit on the data directory's disk; "": they do.
func (k *controller) short() string {
	if k.local == nil {
		return ""
	}
	disk, err := k.local.Disk()
	if err != nil || !disk.Short() {
		return ""
	}
	return fmt.Sprintf("the controller's disk is full: %d MiB are free, of which %d are promised to what is being written, and %d stay free", disk.Free>>20, disk.Promised>>20, disk.Reserve>>20)
}

func (k *controller) diskAlarms() []apiv1.Alarm {
	if text := k.short(); text != "" {
		return []apiv1.Alarm{{Name: "disk-full", Text: text + "; no cluster is made, and nothing more can be written to any /home"}}
	}
	return nil
}

func (k *controller) sayOf(ctx context.Context, clusters []string, text string) {
	if len(clusters) == 0 {
		return
	}
	err := k.db.Update(ctx, func(tx *store.Tx) error {
		all, err := tx.Clusters(ctx, "")
		for _, c := range all {
			if slices.Contains(clusters, c.ID) {
				tx.Log(store.Event{Type: "cluster.home", Project: c.Project, ClusterID: c.ID, Cluster: c.Name, Text: text})
				k.Log.Warn("a cluster's /home", "cluster", c.Name, "project", c.Project, "text", text)
			}
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		k.Log.Error("cannot say what became of a /home", "clusters", clusters, "error", err)
	}
}
