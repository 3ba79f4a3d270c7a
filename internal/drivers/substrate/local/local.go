// Package local makes nodes out of Linux namespaces on this host: an overlay over the image's squashfs, a network of
// the cluster's own, and runc to start the first process.
//
// What enters: substrate.Node and the files of images. What leaves: substrate.Observation and the host's facts.
//
// All state that matters is on disk and in the kernel, none in the Driver: any number of Drivers, in one process or
// several, may share one Dir, and one may be killed at any instruction. Two rules make this true. A lock is a flock, so
// it dies with its holder. And a node's directory is the first thing made and the last one removed, so whatever exists
// of a node is found from there:
//
//	locks/                    files for flock; each is there only while it is held or waited for, or its cluster lives
//	images/<digest>/          an image's squashfs, mounted once for all nodes that use it
//	clusters/<id>/netns       the cluster's network namespace, with the bridge
//	clusters/<id>/home/       what its nodes see as /home
//	clusters/<id>/state/      what its head alone sees at protocol.StateDir
//	clusters/<id>/layers/     what is written in its nodes: <boot>/upper, <boot>/work
//	clusters/<id>/*.img       the file systems of these three
//	snapshots/<id>/           copies of the two; <id>.part and <id>.gone are on their way
//	nodes/<cluster>.<node>/boot       the highest boot ever asked for
//	nodes/<cluster>.<node>/<boot>/    root, run, netns, config.json, console, pid, exit
//	runc/                     runc's own state
//
// Outside of Dir the kernel forces one name on us, that of control groups: /muster-<hash of Dir>.<cluster>.<node>.<boot>.
// All users of one Dir must be in one mount namespace and have CAP_SYS_ADMIN; CAP_SYS_RESOURCE is not needed.
package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/kit/lists"
)

// Config is what a Driver needs. Paths are absolute.
type Config struct {
	// Dir holds the driver's state, for root alone. It is made if absent. On a file system with room for what nodes
	// write; it must allow to be overlayfs's upper layer.
	Dir string
	// Images says where the squashfs of a digest ("sha256:…") lies. It may be called often and at the same time.
	Images func(digest string) (string, error)
	// Binary is the executable that nodes see, read-only, as /usr/sbin/muster; their first process is "muster agent".
	// It is started inside the image: linked statically, or against what the image has.
	Binary string
	// Sockets is the directory with the controllers' unix sockets. Nodes see it, read-only, at protocol.SocketDir.
	Sockets string
	// Grace is how long Remove waits for a node to end by itself at SIGTERM, if it handles that signal at all.
	// 0: Remove kills at once. More than 2 s is taken as 2 s.
	Grace time.Duration
	// Opened is what the site opens to its nodes beyond what is usual.
	Opened Opened
	// Home is how much a cluster's /home may hold if it names no size of its own; Layers, what all nodes of a cluster may
	// write outside of it; State, what is kept of its head. In bytes; 0: as much as the driver thinks fit.
	Home, Layers, State int64
	// Reserve is what volumes leave of the disk under Dir, in bytes; 0: a twentieth of it, from 1 to 20 GiB.
	Reserve int64
	// Log hears of what is worth an operator's look and is no error of a call. nil: it is dropped.
	Log *slog.Logger
}

// Driver implements substrate.Substrate and substrate.Shared. Its methods may be called at the same time.
//
// First processes of nodes outlive the runc that started them. If the controller is a child subreaper
// (PR_SET_CHILD_SUBREAPER, the caller's business), they become its children; every call then collects those that died,
// each by its pid, never by "any child", so the children of exec.Cmd are never taken from their owners. Without a
// subreaper, or after the controller's death, they are for the host's pid 1 to collect.
type Driver struct {
	config  Config
	runc    string
	cgroups onhost.Cgroups
	starts  chan struct{} // room for a bounded number of runc at a time
	wards   *wards

	privileged *privileged
	noMapping  string // why nodes' root is the host's; "": it has no rights there
	stageDir   string // where a node's mounts lie while it is started

	reserve sync.Mutex // held while volumes are told what they may take
	guarded bool       // they are told again and again: somebody keeps them from the reserve of the disk

	claiming sync.Mutex   // held while a copy looks for room
	claimed  atomic.Int64 // bytes that copies under way have still to write
	recent   struct {     // the last look of copies at the disk
		sync.Mutex
		disk Disk
		at   time.Time
	}
}

var (
	_ substrate.Substrate = (*Driver)(nil)
	_ substrate.Shared    = (*Driver)(nil)
	_ substrate.Snapshots = (*Driver)(nil)
)

// New makes a driver over config.Dir. It changes nothing but that directory; it looks for runc and tries out, once,
// which limits this host can set.
func New(config Config) (*Driver, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return nil, fmt.Errorf("nodes on this host need runc: %w", err)
	}
	if _, err := exec.LookPath("mkfs.xfs"); err != nil {
		return nil, fmt.Errorf("the file systems of /home need mkfs.xfs (Debian's package xfsprogs): %w", err)
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	config.Grace = min(config.Grace, 2*time.Second)
	if err := config.makeDirs(); err != nil {
		return nil, err
	}
	if err := onhost.Sweep(filepath.Join(config.Dir, "locks")); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(config.Dir))
	held, err := onhost.Exclusive(context.Background(), filepath.Join(config.Dir, "locks", "probe"))
	if err != nil {
		return nil, err
	}
	cgroups, err := onhost.DetectCgroups("muster-" + hex.EncodeToString(sum[:4]))
	held.Release()
	if err != nil {
		return nil, fmt.Errorf("runc needs control groups, read-only at least: %w", err)
	}
	config.Log.Debug("local substrate", "dir", config.Dir, "cgroups", cgroups.String())
	// Twice the cores keep them busy while one start waits for the kernel; more only makes every start slower.
	d := &Driver{config: config, runc: runc, cgroups: cgroups, starts: make(chan struct{}, 2*runtime.NumCPU()), wards: newWards(),
		privileged: &privileged{known: map[string]func() ([]string, error){}}}
	d.mapUsers()
	return d, nil
}

// Cables are the networks of clusters on a host whose nodes are another driver's. Every call may be repeated.
type Cables interface {
	// EnsureShared is called before the first node of the cluster on the host, and when what the network is to be has changed.
	EnsureShared(ctx context.Context, cluster string, n substrate.Network) error
	// RemoveShared is called once the host has no node of the cluster any more; it refuses while it has.
	RemoveShared(ctx context.Context, cluster string) error
	// ListShared names the clusters that have something here.
	ListShared(ctx context.Context) ([]string, error)
	substrate.Networks
}

// NewCables makes a driver over dir that makes networks and no nodes, so it needs neither runc nor images.
func NewCables(dir string) (Cables, error) {
	config := Config{Dir: dir, Log: slog.Default()}
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
		return nil, fmt.Errorf("state directory must be a clean absolute path, not %q", dir)
	}
	if err := config.makeDirs(); err != nil {
		return nil, err
	}
	return &Driver{config: config}, nil
}

func (c Config) makeDirs() error {
	for _, dir := range []string{"", "locks", "images", "clusters", "snapshots", "nodes", "runc"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, dir), 0o700); err != nil {
			return fmt.Errorf("state directory: %w", err)
		}
	}
	return nil
}

func (c Config) check() error {
	for _, path := range []struct{ name, value string }{{"Dir", c.Dir}, {"Binary", c.Binary}, {"Sockets", c.Sockets}} {
		if !filepath.IsAbs(path.value) || filepath.Clean(path.value) != path.value {
			return fmt.Errorf("%s must be a clean absolute path, not %q", path.name, path.value)
		}
	}
	// These have a meaning in mount options and in mountinfo, and no good one in a path.
	if strings.ContainsAny(c.Dir, ":,\\ \t\n") {
		return fmt.Errorf("state directory %q has a colon, comma, backslash or space in it", c.Dir)
	}
	if c.Images == nil {
		return errors.New("no way to find images (Config.Images)")
	}
	return nil
}

// home is a node's place on disk; key names the node in all of the host.
type home struct {
	key string // <cluster>.<node>
	dir string
}

func (d *Driver) home(r substrate.Ref) (home, error) {
	key, err := onhost.Key(r)
	return home{key, filepath.Join(d.config.Dir, "nodes", key)}, err
}

// boots lists what is present, oldest first.
func (h home) boots() ([]boot, error) {
	numbers, err := onhost.Boots(h.dir)
	found := lists.Map(numbers, h.boot)
	return found, err
}

func (h home) boot(number int64) boot {
	text := strconv.FormatInt(number, 10)
	return boot{home: h, number: number, name: h.key + "." + text, dir: filepath.Join(h.dir, text)}
}

// boot is one boot's place on disk; name is the container's.
type boot struct {
	home
	number int64
	name   string
	dir    string
}

func (b boot) path(name string) string { return filepath.Join(b.dir, name) }

// console is what the boot says.
func (b boot) console() string { return b.path("console/log") }

func (d *Driver) runcState(b boot) string { return filepath.Join(d.config.Dir, "runc", b.name) }

func (d *Driver) lockPath(kind, name string) string {
	return filepath.Join(d.config.Dir, "locks", kind+"-"+name)
}

// lockNode is held around all that changes a node.
func (d *Driver) lockNode(ctx context.Context, h home) (*onhost.Hold, error) {
	return onhost.Exclusive(ctx, d.lockPath("node", h.key))
}
