package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/local/tree"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/kit/files"
	"muster/internal/kit/lists"
	"muster/internal/kit/netns"
	"muster/internal/kit/wrap"
)

// shared is a cluster's place on disk.
type shared struct {
	cluster, dir string
	log          *slog.Logger
}

func (c shared) netns() string { return filepath.Join(c.dir, "netns") }
func (c shared) home() string  { return filepath.Join(c.dir, "home") }
func (c shared) state() string { return filepath.Join(c.dir, "state") }

func (c shared) ownerFile() string { return filepath.Join(c.dir, "owner") }

// layer is where the overlay of a boot keeps what is written in the node.
func (c shared) layer(b boot) string { return filepath.Join(c.layerVolume().at, b.name) }

func (d *Driver) shared(cluster string) (shared, error) {
	if err := onhost.CheckID(cluster); err != nil {
		return shared{}, err
	}
	return shared{cluster, filepath.Join(d.config.Dir, "clusters", cluster), d.config.Log}, nil
}

// EnsureShared makes the cluster's network and /home.
func (d *Driver) EnsureShared(ctx context.Context, cluster string, n substrate.Network) error {
	c, err := d.shared(cluster)
	if err != nil {
		return err
	}
	if n.Segment < 1 || n.Segment > substrate.MaxSegment {
		return fmt.Errorf("network of cluster %s: segment %d is not between 1 and %d", cluster, n.Segment, substrate.MaxSegment)
	}
	if ready, err := d.hasShared(ctx, c, n); err != nil || ready {
		return err
	}
	held, err := onhost.Exclusive(ctx, d.lockPath("cluster", cluster))
	if err != nil {
		return err
	}
	defer held.Release()
	if err := c.belong(n.Owner); err != nil {
		return fmt.Errorf("owner of cluster %s: %w", cluster, err)
	}
	if err := d.ensureVolumes(ctx, c, n.Home); err != nil {
		return err
	}
	if err := c.ensureNetwork(n); err != nil {
		return fmt.Errorf("network of cluster %s: %w", cluster, err)
	}
	return wrap.Errorf(c.ensureUplinks(n.Uplinks), "network of cluster %s", cluster)
}

// hasShared asks under the lock that starting nodes share, so that an idle EnsureShared does not wait for them.
func (d *Driver) hasShared(ctx context.Context, c shared, n substrate.Network) (bool, error) {
	unlock, err := onhost.Shared(ctx, d.lockPath("cluster", c.cluster))
	if err != nil {
		return false, err
	}
	defer unlock()
	if !c.ready() || !c.hasUplinks(n.Uplinks) || n.Owner != "" && c.owner() != n.Owner {
		return false, nil
	}
	return d.hasVolumes(c, n.Home)
}

// owner is whose the cluster is; "": it has not been said yet.
func (c shared) owner() string {
	name, err := os.ReadFile(c.ownerFile())
	if err != nil {
		return ""
	}
	return string(name)
}

// belong notes whose the cluster is.
func (c shared) belong(owner string) error {
	if owner == "" || c.owner() == owner {
		return nil
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	return files.Write(c.ownerFile(), []byte(owner), 0o600)
}

// ready says whether everything was made: the bridge goes up last.
func (c shared) ready() bool {
	err := netns.Links(c.netns(), func(links *netlink.Handle) error {
		bridge, err := links.LinkByName(bridgeName)
		if err == nil && bridge.Attrs().Flags&net.FlagUp == 0 {
			err = errors.New("the bridge is not up yet")
		}
		return err
	})
	return err == nil
}

func (c shared) ensureNetwork(n substrate.Network) error {
	complete := func(links *netlink.Handle) error { return ensureBridge(links, n) }
	there, err := mounted(c.netns())
	if err != nil {
		return err
	}
	if there {
		return netns.Links(c.netns(), complete)
	}
	return netns.New(c.netns(), func() error { return netns.Links("", complete) })
}

// RemoveShared takes the network and /home away. It refuses while a node of the cluster is present, and while
// something that is not ours is mounted below /home, whose content it would delete.
func (d *Driver) RemoveShared(ctx context.Context, cluster string) error {
	c, err := d.shared(cluster)
	if err != nil {
		return err
	}
	held, err := onhost.Exclusive(ctx, d.lockPath("cluster", cluster))
	if err != nil {
		return err
	}
	defer held.Release()
	if err := d.forgetNodes(ctx, cluster); err != nil {
		return fmt.Errorf("remove cluster %s: %w", cluster, err)
	}
	if ports, err := c.ports(); err != nil || len(ports) > 0 { // those of guests, of whom nothing else is here
		return errors.Join(err, fmt.Errorf("remove cluster %s: its network has nodes: ports %v", cluster, ports))
	}
	foreign, err := c.foreign()
	if err != nil {
		return err
	}
	if len(foreign) > 0 {
		return fmt.Errorf("remove cluster %s: not while %v is mounted", cluster, foreign)
	}
	if err := c.dropUplinks(nil); err != nil {
		return fmt.Errorf("remove uplinks of cluster %s: %w", cluster, err)
	}
	for _, v := range c.volumes() {
		if err := v.abandon(ctx); err != nil {
			return fmt.Errorf("remove files of cluster %s: %w", cluster, err)
		}
	}
	if err := unmountBelow(ctx, c.dir); err != nil {
		return fmt.Errorf("remove network of cluster %s: %w", cluster, err)
	}
	return wrap.Errorf(tree.Remove(ctx, c.dir), "remove home of cluster %s", cluster)
}

// forgetNodes removes the memory of boots that removed nodes left behind; a node that is present is an error.
func (d *Driver) forgetNodes(ctx context.Context, cluster string) error {
	homes, err := filepath.Glob(filepath.Join(d.config.Dir, "nodes", cluster+".*"))
	if err != nil {
		return err
	}
	var present []error
	for _, dir := range homes {
		boots, err := home{filepath.Base(dir), dir}.boots()
		switch {
		case err != nil:
			return err
		case len(boots) > 0:
			present = append(present, fmt.Errorf("node %s is still there", strings.TrimPrefix(filepath.Base(dir), cluster+".")))
		default:
			if err := tree.Remove(ctx, dir); err != nil {
				return err
			}
		}
	}
	return errors.Join(present...)
}

// ListShared names the clusters that have any of it.
func (d *Driver) ListShared(context.Context) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.config.Dir, "clusters"))
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	return lists.Map(entries, os.DirEntry.Name), nil
}

// Dial opens a TCP connection inside the cluster's network; it outlives the cluster's removal only as a dead one.
func (d *Driver) Dial(ctx context.Context, cluster string, to netip.AddrPort) (net.Conn, error) {
	if err := d.Introduce(ctx, cluster, to.Addr()); err != nil {
		return nil, err
	}
	c, err := d.shared(cluster)
	if err != nil {
		return nil, err
	}
	connection, err := netns.Dial(ctx, c.netns(), "tcp", to.String())
	return connection, wrap.Errorf(err, "dial in the network of cluster %s", cluster)
}

// Introduce tells the gateway of a cluster where the node of an address is: without, it hears a node of another host and
// cannot answer.
func (d *Driver) Introduce(_ context.Context, cluster string, address netip.Addr) error {
	c, err := d.shared(cluster)
	if err != nil {
		return err
	}
	err = netns.Links(c.netns(), func(links *netlink.Handle) error { return introduce(links, address) })
	return wrap.Errorf(err, "introduce %s in the network of cluster %s", address, cluster)
}

// Listen listens for TCP connections inside the cluster's network, at the gateway's address. An error that is os.ErrNotExist
// says that there is no network yet. Close it before the network is removed: until then that lives on, without a name.
func (d *Driver) Listen(_ context.Context, cluster string, port int) (net.Listener, error) {
	c, err := d.shared(cluster)
	if err != nil {
		return nil, err
	}
	if !c.ready() {
		return nil, fmt.Errorf("listen in the network of cluster %s: %w", cluster, os.ErrNotExist)
	}
	listener, err := netns.Listen(c.netns(), "tcp", netip.AddrPortFrom(substrate.Gateway().Addr(), uint16(port)).String())
	return listener, wrap.Errorf(err, "listen in the network of cluster %s", cluster)
}
