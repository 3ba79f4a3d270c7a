// Package calls carries the calls of package substrate from a controller to the agent of a host.
//
// What enters: on the side of the host, its drivers; on that of the controller, a way to reach the host. What leaves: the same
// interfaces, as if the drivers were here. Each call is a request of HTTP/1.1 with JSON both ways, over whatever connection the
// two have, to the path /<substrate>/<call>; what is a connection of its own (Dial, Listen) or tells how far it is (copies) takes
// that connection over.
//
// All calls may be repeated, and a host refuses older boots than it has seen, so that a controller may ask again whenever an
// answer is lost. Errors keep their meaning: errors.Is answers as it does where the driver is.
package calls

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path"
	"syscall"

	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
)

// Nodes is what every substrate of a host does for controllers.
type Nodes interface {
	substrate.Substrate
	substrate.Inspector
}

// Host is what the substrate does that makes what the nodes of a cluster share.
type Host interface {
	Nodes
	substrate.Shared
	substrate.Snapshots
	substrate.Caller
	// Introduce tells the gateway of a cluster's network of an address beyond an uplink, whose agent wants an answer.
	Introduce(ctx context.Context, cluster string, address netip.Addr) error
	// HomeUsage is how large a cluster's /home may become, and is, in bytes; 0 of one that is none of its own, or not mounted.
	HomeUsage(ctx context.Context, cluster string) (size, used int64, err error)
	// Room is how many bytes clusters may still write, below 0 if they have taken from the reserve, and why they may write no
	// more; "": they may.
	Room(ctx context.Context) (left int64, full string, err error)
	// Listen opens a port at the gateway of a cluster's network; os.ErrNotExist where there is none.
	Listen(ctx context.Context, cluster string, port int) (net.Listener, error)
	// OwnUsers says whether root of a node has no rights on the host; why not, if it is not so.
	OwnUsers(ctx context.Context) (own bool, why string, err error)
}

// Guests is what the substrate does whose nodes are guests.
type Guests interface {
	Nodes
	substrate.Sleeper
	substrate.Emulator
}

// call is the path of one call, whose argument and answer are of these types. What is sent is their JSON: a field that is renamed
// is one that older hosts do not know.
type call[In, Out any] string

// path is where a host is asked for it of a substrate, or of itself.
func (name call[In, Out]) path(substrate string) string {
	return path.Join("/", substrate, string(name))
}

// none is no argument, or no answer.
type none struct{}

// The arguments and answers that package substrate has no type for.
type (
	sharedIn struct {
		Cluster string
		Network substrate.Network
	}
	bytesIn struct {
		Cluster string
		Bytes   int64
	}
	addrIn struct {
		Cluster string
		Address netip.Addr
	}
	dialIn struct {
		Cluster string
		To      netip.AddrPort
	}
	listenIn struct {
		Cluster string
		Port    int
	}
	copyIn struct{ Cluster, Snapshot string }

	restoreIn struct {
		copyIn
		Home int64
	}
	usedOut struct{ Size, Used int64 }
	roomOut struct {
		Left int64
		Full string
	}
	ownOut struct {
		Own bool
		Why string
	}
	traitsOut struct{ CanSuspend, Emulates bool }
	sleepIn   struct {
		Of   substrate.Ref
		Host string
	}
	wakeIn struct {
		Node substrate.Node
		Host string
	}
)

// The calls.
const (
	ensure       call[substrate.Node, none]                      = "ensure"
	observe      call[substrate.Ref, substrate.Observation]      = "observe"
	remove       call[substrate.Ref, none]                       = "remove"
	list         call[none, []substrate.Ref]                     = "list"
	ensureShared call[sharedIn, none]                            = "shared/ensure"
	growHome     call[bytesIn, none]                             = "shared/grow"
	removeShared call[string, none]                              = "shared/remove"
	listShared   call[none, []string]                            = "shared/list"
	size         call[string, int64]                             = "size"
	drop         call[string, none]                              = "drop"
	snapshots    call[none, []string]                            = "snapshots"
	inspect      call[substrate.Inspection, substrate.Inspected] = "inspect"
	rest         call[inventory.Machine, string]                 = "rest"
	introduce    call[addrIn, none]                              = "introduce"
	endpoints    call[none, []string]                            = "endpoints"
	homeUsage    call[string, usedOut]                           = "home"
	room         call[none, roomOut]                             = "room"
	ownUsers     call[none, ownOut]                              = "users"
	traits       call[none, traitsOut]                           = "traits"
	sleep        call[sleepIn, int64]                            = "sleep"
	wake         call[wakeIn, none]                              = "wake"
)

// The calls that take their connection over. What all drivers of a host say is no substrate's.
const (
	dial    call[dialIn, none]            = "dial"    // then it is the one that was asked for
	listen  call[listenIn, none]          = "listen"  // then the host says each caller
	accept  call[string, none]            = "accept"  // one of these callers; then it is that one's
	save    call[copyIn, substrate.Saved] = "save"    // then the host says how far it is
	restore call[restoreIn, none]         = "restore" // as well
	notices call[none, none]              = "notices" // then the host says what a controller is to write down
)

// reply is the answer to a call; both may be there, as with the methods themselves.
type reply[Out any] struct {
	Out   Out
	Error string `json:",omitempty"`
	Is    string `json:",omitempty"` // the name of the error that it is, see meanings
}

// meanings are errors that callers ask for, by their names on the wire.
func meanings() map[string]error {
	return map[string]error{
		"stale":       substrate.ErrStale,
		"refused":     substrate.ErrRefused,
		"underway":    substrate.ErrUnderway,
		"no room":     substrate.ErrNoRoom,
		"stays":       substrate.ErrStays,
		"ended":       substrate.ErrEnded,
		"not there":   os.ErrNotExist,
		"unsupported": errors.ErrUnsupported,
		"called off":  context.Canceled,
		"too late":    context.DeadlineExceeded,
		"no listener": syscall.ECONNREFUSED,
		"no way":      syscall.EHOSTUNREACH,
		"no answer":   syscall.ETIMEDOUT,
		"closed":      syscall.ECONNRESET,
	}
}

// failed is an error of the host, as it is told here.
type failed struct {
	text string
	is   error // nil: no caller asks for it
}

func (f failed) Error() string { return f.text }
func (f failed) Unwrap() error { return f.is }

func answer[Out any](out Out, err error) reply[Out] {
	r := reply[Out]{Out: out}
	if err == nil {
		return r
	}
	r.Error = err.Error()
	for name, meaning := range meanings() {
		if errors.Is(err, meaning) {
			r.Is = name
		}
	}
	return r
}

func (r reply[Out]) result() (Out, error) {
	if r.Error == "" {
		return r.Out, nil
	}
	return r.Out, failed{r.Error, meanings()[r.Is]}
}
