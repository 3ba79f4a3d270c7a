package local

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"muster/internal/drivers/substrate/onhost"
	"muster/internal/kit/wrap"
)

// What a cluster keeps on this host lies on file systems of its own: /home, as every node and every client of the head's
// NFS server may write to it; the head's state, which those must not reach by any handle; and what is written in its nodes
// outside of both. Together they bound what one tenant can fill.

// Sizes where neither cluster nor site says one, in bytes.
const (
	homeSize   = 100 << 30
	layersSize = 50 << 30
	stateSize  = 4 << 30
)

func (d *Driver) homeSize() int64  { return cmp.Or(d.config.Home, homeSize) }
func (d *Driver) stateSize() int64 { return cmp.Or(d.config.State, stateSize) }

func (c shared) homeVolume() volume {
	return volume{image: filepath.Join(c.dir, "home.img"), at: c.home(), mode: 0o755}
}

// stateVolume has what the head's daemons reach, each what is its own.
func (c shared) stateVolume() volume {
	return volume{image: filepath.Join(c.dir, "state.img"), at: c.state(), mode: 0o711}
}

func (c shared) layerVolume() volume {
	return volume{image: filepath.Join(c.dir, "layers.img"), at: filepath.Join(c.dir, "layers"), mode: 0o700, fleeting: true}
}

func (c shared) volumes() []volume {
	return []volume{c.homeVolume(), c.stateVolume(), c.layerVolume()}
}

// hasVolumes says whether all are mounted, /home with room for so many bytes at least. A driver without nodes has none.
func (d *Driver) hasVolumes(c shared, home int64) (bool, error) {
	if !d.makesNodes() {
		return true, nil
	}
	for _, v := range c.volumes() {
		if there, err := v.mounted(); err != nil || !there || v.dead() {
			return false, err
		}
	}
	return c.homeVolume().holds(home), nil
}

// makesNodes says that nodes are this driver's, and not only their networks.
func (d *Driver) makesNodes() bool { return d.runc != "" }

// ensureVolumes makes and mounts what is missing. The caller holds the cluster's lock.
func (d *Driver) ensureVolumes(ctx context.Context, c shared, home int64) error {
	if !d.makesNodes() {
		return os.MkdirAll(c.dir, 0o700)
	}
	var group errgroup.Group
	for _, each := range []struct {
		name string
		volume
		size int64
	}{
		{"/home", c.homeVolume(), cmp.Or(home, d.homeSize())},
		{"state", c.stateVolume(), d.stateSize()},
		{"layers", c.layerVolume(), cmp.Or(d.config.Layers, layersSize)},
	} {
		group.Go(func() error {
			return wrap.Errorf(each.ensure(ctx, each.size), "file system of %s of cluster %s", each.name, c.cluster)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if v := c.homeVolume(); !v.holds(home) {
		if err := v.grow(home); err != nil {
			return fmt.Errorf("file system of /home of cluster %s: %w", c.cluster, err)
		}
	}
	return d.keepReserve()
}

// GrowHome enlarges a /home that is mounted; one that is not grows when it is.
func (d *Driver) GrowHome(ctx context.Context, cluster string, bytes int64) error {
	c, err := d.shared(cluster)
	if err != nil {
		return err
	}
	v := c.homeVolume()
	if there, err := v.mounted(); err != nil || !there || v.holds(bytes) {
		return err
	}
	held, err := onhost.Exclusive(ctx, d.lockPath("cluster", cluster))
	if err != nil {
		return err
	}
	defer held.Release()
	if there, err := v.mounted(); err != nil || !there || v.holds(bytes) {
		return err
	}
	if err := v.grow(bytes); err != nil {
		return fmt.Errorf("file system of /home of cluster %s: %w", cluster, err)
	}
	return d.keepReserve()
}

// HomeUsage is how many bytes a cluster's /home may hold and how many it holds, as its file system says at once; 0 where it
// is none of its own, or not mounted.
func (d *Driver) HomeUsage(_ context.Context, cluster string) (size, used int64, err error) {
	c, err := d.shared(cluster)
	if err != nil {
		return 0, 0, err
	}
	v := c.homeVolume()
	if there, err := v.mounted(); err != nil || !there || !v.made() {
		return 0, 0, err
	}
	return v.usage()
}

// foreign lists what is mounted at or below /home and is not ours.
func (c shared) foreign() ([]string, error) {
	mounts, err := mountsBelow(c.home())
	if err != nil {
		return nil, err
	}
	if len(mounts) > 0 && mounts[0] == c.home() && c.homeVolume().made() {
		mounts = mounts[1:]
	}
	return mounts, nil
}

// present mounts what an earlier start of the host left unmounted, of a cluster whose nodes have not come back, so that its
// files can be read.
func (d *Driver) present(ctx context.Context, c shared) error {
	if there, err := c.kept(); err != nil || there {
		return err
	}
	held, err := onhost.Exclusive(ctx, d.lockPath("cluster", c.cluster))
	if err != nil {
		return err
	}
	defer held.Release()
	return c.mount(ctx)
}

// kept says that no file system of the cluster's files is unmounted.
func (c shared) kept() (bool, error) {
	for _, v := range []volume{c.homeVolume(), c.stateVolume()} {
		if there, err := v.mounted(); err != nil || !there && v.made() {
			return false, err
		}
	}
	return true, nil
}

// mount mounts the file systems of the cluster's files that have been made. The caller holds the cluster's lock.
func (c shared) mount(ctx context.Context) error {
	for _, v := range []volume{c.homeVolume(), c.stateVolume()} {
		if !v.made() {
			continue
		}
		if err := v.ensure(ctx, 0); err != nil {
			return fmt.Errorf("file systems of cluster %s: %w", c.cluster, err)
		}
	}
	return nil
}
