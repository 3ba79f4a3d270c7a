// Package substrate says what it means to make a node exist. Drivers pass one contract test, substratetest, and
// say by a Factory what they can.
//
// What enters: the description of one node's boot. What leaves: what the driver sees of it. No driver knows phases,
// rows or users. All methods are idempotent and may be called again after any crash, by any replica that shares the
// host; they block until done or until ctx ends.
package substrate

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"muster/internal/place"
	"muster/internal/protocol"
)

// ErrStale is returned by Ensure for a boot older than one already seen for that node: the caller has been fenced out.
var ErrStale = errors.New("an older boot of this node")

// ErrRefused is returned by Ensure where the host cannot give the node what it is to hold, and will not be able to soon: the
// node had better come elsewhere. The error's text says why.
var ErrRefused = errors.New("refused by its host")

// ErrUnderway is returned, by Ensure and Remove for example, where what was asked for goes on without the caller, who may
// look again later. The error's text says how far it is.
var ErrUnderway = errors.New("under way")

// Ref names one boot of one node. Boot numbers of a node only grow; a Ref is never reused.
type Ref struct {
	Cluster string // cluster ID
	Node    string // node ID
	Boot    int64
}

// Node is everything a driver needs to make one boot of a node.
type Node struct {
	Ref
	Name      string       // host name
	Machine   string       // name of the machine it lives on
	Address   netip.Prefix // its address on the cluster's network
	MAC       net.HardwareAddr
	Seats     int               // of its cluster's network that its file takes, from HeadSlot on
	Image     string            // digest of the image, "sha256:…"
	CPUs      int               // 0: all of the machine's
	MemoryMiB int               // 0: all of the machine's
	File      protocol.BootFile // what its agent is told at its start
	// ServesHome says that the node serves /home over the network, to nodes that are not on the head's host.
	ServesHome bool
	// KeepsState says that the node sees, at protocol.StateDir, what its cluster keeps of its head.
	KeepsState bool
	Disk       bool // its root is on the machine's own disk, where the machine is a whole one
	// Allocation is what it is to have of its host, where its machine is a guest, and Asked what that was chosen for: the host
	// may give it another part, and has the last word. nil elsewhere.
	Allocation *place.Allocation
	Asked      place.Guest
	// Keys are the partitions of its cluster, by its host's InfiniBand ports: through which port a guest's virtual functions may
	// speak, and by which key. The port 0 stands for all that are not named. It names all of the host's ports on the cluster's
	// fabrics, whichever of them the host gives it. nil: its cluster is on no fabric.
	Keys PortKeys
}

// Observation is what the driver sees now. The zero value means: nothing of this node is there.
type Observation struct {
	Present bool  // something of the node exists: a process, a mount, a directory, a network port
	Running bool  // its first process runs
	Boot    int64 // of what is present
	Limits  Limits
	Detail  string // in words, why it does not run: exit status, last console line
	// Allocation is what a guest has of its host; nil of other nodes, and of a guest that has been given nothing yet.
	Allocation *place.Allocation
}

// Limits are those in force, as a user reads them: "4096 MiB", "2 cpus", or "unlimited" where the host has no way.
type Limits struct {
	CPU    string
	Memory string
}

// Substrate makes nodes exist.
type Substrate interface {
	// Ensure makes the node run this boot; whatever was left of an earlier boot or a half-made one is removed first.
	// ErrStale if a later boot is present. The cluster's shared parts must have been ensured.
	Ensure(ctx context.Context, n Node) error
	// Observe looks; it changes nothing. Ref.Boot is ignored.
	Observe(ctx context.Context, r Ref) (Observation, error)
	// Remove ends the node and takes away all that it had: processes, mounts, directories, ports, control groups.
	// With Boot > 0 only that boot or older ones; with 0 any. Removing what is not there is a success.
	Remove(ctx context.Context, r Ref) error
	// List names everything present, whichever process made it, so that orphans can be found.
	List(ctx context.Context) ([]Ref, error)
}

// Network is how a cluster's network reaches beyond this host, and how large its /home is.
type Network struct {
	// Segment is the cluster's number, 1 to MaxSegment, which no other cluster of the site has at the same time. All MACs
	// of the cluster hold it.
	Segment int
	// Uplinks are where the cluster's nodes on other machines are. Without any, nothing leaves the host.
	Uplinks []Uplink
	// Away says that the cluster's gateway, where its controllers are, is on another host: here no interface has its address, and
	// what is for it goes out by an uplink.
	Away bool
	// Home is how many bytes /home may hold; 0: as much as the site grants. It grows while it is used and never shrinks.
	Home int64
	// Owner is whose the cluster is: where a disk gets full, all clusters of an owner are held to one share. "": to none.
	Owner string
	// Tunnel is how the network crosses to other hosts that are joined to the site; nil: it does not.
	Tunnel *Tunnel
	// MTU is the largest packet of the network, in bytes, from when it is first made on; 0: 1500.
	MTU int
}

// Tunnel carries a cluster's frames to other hosts and back, whose networks are parts of one. Each part has the gateway, which
// speaks to the nodes of its own host alone. Nodes elsewhere are named: nothing is learnt from what comes, nothing is flooded.
type Tunnel struct {
	From     netip.Addr // this host's address, as the others reach it
	Stations []Station  // the cluster's nodes on other hosts, in any order
}

// Station is a node on another host.
type Station struct {
	Address netip.Addr // in the cluster's network; its MAC follows from that and the segment
	At      netip.Addr // its host's, of the same family as From. Frames of the station come from there or are dropped.
}

// Uplink names a bridge that a cluster's network is joined to. Clusters may share it; none sees another.
type Uplink struct {
	Namespace string // path of the network namespace that it is in; "": the host's own
	Interface string
	// Joined says that frames pass between this uplink and others that are so: segments of one network where a cluster has
	// nodes of two kinds. The bridges must not be connected otherwise.
	Joined bool
}

// Shared is what the nodes of one cluster share, and what outlives them: a network of their own, the shared /home, and
// the state of their head.
type Shared interface {
	// EnsureShared makes the network, /home and the place of the head's state; it keeps what is there. An uplink that is
	// missing is added, and one that is not named any more is removed, while nodes run.
	EnsureShared(ctx context.Context, cluster string, n Network) error
	// GrowHome sees to it that /home may hold so many bytes at least, at once, while it is used. It never shrinks; where there
	// is none yet, or one that is not the driver's, nothing is done.
	GrowHome(ctx context.Context, cluster string, bytes int64) error
	// RemoveShared takes them away, /home with its content included. The cluster's nodes must be gone.
	RemoveShared(ctx context.Context, cluster string) error
	// ListShared names the clusters that have any of it.
	ListShared(ctx context.Context) ([]string, error)
	Dialer
}

// Dialer reaches into the networks of clusters.
type Dialer interface {
	// Dial opens a TCP connection inside the cluster's network, as its gateway address.
	Dial(ctx context.Context, cluster string, to netip.AddrPort) (net.Conn, error)
}

// Saved is what there is of a snapshot.
type Saved struct {
	Bytes   int64  // its size
	LeftOut string // what its owners kept from being copied, for them to read; "": nothing
}

// ErrNoRoom is returned where a copy would not fit on the disk; the error's text has the numbers.
var ErrNoRoom = errors.New("no room")

// Snapshots is what of a cluster outlives its nodes: /home and the state of its head. Snapshots are copies of it, named by IDs
// as clusters are.
//
// Copies take long. They call progress every now and then, with the bytes copied so far; an error of progress ends the
// copy and is returned. A copy that has not come to its end does not count, and is made again by the next call.
type Snapshots interface {
	// Size is how much disk it takes, in bytes; 0 where there is nothing.
	Size(ctx context.Context, cluster string) (int64, error)
	// Save makes the snapshot, whole, and keeps one that is there. What belongs to the cluster alone (protocol.StateOwn) is
	// not in it. Nodes may run: each file is as it was when it was copied, and files that go meanwhile are not in it.
	Save(ctx context.Context, cluster, snapshot string, progress func(copied int64) error) (Saved, error)
	// Restore makes a snapshot's content that of a cluster without shared parts; it keeps what a cluster has already. Its /home
	// may hold so many bytes, or what the files need if that is more; 0: as much as the site grants.
	Restore(ctx context.Context, snapshot, cluster string, home int64, progress func(copied int64) error) error
	// Drop removes a snapshot, or what there is of it. Removing what is not there is a success.
	Drop(ctx context.Context, snapshot string) error
	// Snapshots names those that have anything on disk.
	Snapshots(ctx context.Context) ([]string, error)
}
