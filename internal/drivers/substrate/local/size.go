package local

import (
	"context"
	"fmt"

	"muster/internal/drivers/substrate/local/tree"
)

// Size counts the blocks of /home and of the head's state. Files that go meanwhile are not counted.
func (d *Driver) Size(ctx context.Context, cluster string) (int64, error) {
	c, err := d.shared(cluster)
	if err != nil {
		return 0, err
	}
	if err := d.present(ctx, c); err != nil {
		return 0, fmt.Errorf("size of cluster %s: %w", cluster, err)
	}
	var sum int64
	for _, v := range []volume{c.homeVolume(), c.stateVolume()} {
		n, err := d.sizeOf(ctx, v)
		if err != nil {
			return 0, fmt.Errorf("size of cluster %s: %w", cluster, err)
		}
		sum += n
	}
	return sum, nil
}

// sizeOf is what is on a volume: as its file system knows at once, or by a look at each file of a folder that is not one yet.
func (d *Driver) sizeOf(ctx context.Context, v volume) (int64, error) {
	if there, err := v.mounted(); err != nil {
		return 0, err
	} else if there && v.made() {
		_, used, err := v.usage()
		return used, err
	}
	return d.treeSize(ctx, v.at)
}

// treeSize is what a tree takes on disk. What its users keep from being measured does not count.
func (d *Driver) treeSize(ctx context.Context, dir string) (int64, error) {
	n, report, err := tree.Size(ctx, dir)
	if err == nil && report.Count > 0 {
		d.config.Log.Warn("not all of a tree could be measured", "folder", dir, "left", report)
	}
	return n, err
}
