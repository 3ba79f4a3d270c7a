// Package switches keeps clusters apart on Ethernet: it puts ports of a switch into segments, and reads back where they are.
//
// What enters: a port, the MACs behind it, and the segment where it belongs. What leaves: a switch that is set so, as it was
// seen there afterwards. Each driver is a folder below this one, and declares itself by a Factory; switchtest is the contract
// that those pass which keep segments apart. No driver knows clusters, rows or users.
//
// Each segment also ends on the controller's host, at a bridge of its own that is cabled to the one where the controller
// answers machines that boot. Those cables are isolated from one another: a machine in a segment reaches the controller and the
// segment, and nothing else (RFC 5517 calls it communities with a promiscuous port).
package switches

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Segment is a part of a network that no frame leaves, but for the controller. Clusters' are their numbers, from 1.
type Segment int

const (
	// Common is where the ports of machines are that are not in use. No frame goes from one of them to another; they reach the
	// controller alone.
	Common Segment = 0
	// Hosts is where hypervisors are. They keep their guests apart themselves.
	Hosts Segment = 1 << 16
	// Nowhere is where a port is that is in no segment, or in one in a way that does not hold.
	Nowhere Segment = -1
)

// Check refuses what is no segment: no port can be put there, and it has no end.
func (s Segment) Check() error {
	if s < Common || s > Hosts {
		return fmt.Errorf("%d is no segment; clusters' are 1 to %d", int(s), int(Hosts)-1)
	}
	return nil
}

func (s Segment) String() string {
	switch s {
	case Common:
		return "the common segment"
	case Hosts:
		return "the hypervisors' segment"
	case Nowhere:
		return "no segment"
	}
	return fmt.Sprintf("segment %d", int(s))
}

// Port is a switch's port and the machine behind it.
type Port struct {
	Name string
	MACs []net.HardwareAddr // of the machine's NIC there. The controller's answers to them go to this port and to no other
}

// Switch is told where ports belong. All methods may be called again after any crash; they block until done, or until ctx
// ends. One controller at a time tells a switch about a port.
type Switch interface {
	// Put takes a port into a segment, whatever it was in, and returns when it was seen there. At no moment do frames pass
	// between two segments. After an error the port is where it was, in the segment, or in none. ErrNoPort: there is none of
	// that name.
	Put(ctx context.Context, p Port, s Segment) error
	// Ports is where each port is, as read from the switch. The controller's own ends are not in it.
	Ports(ctx context.Context) (map[string]Segment, error)
	// Isolate has ports that are not named and not isolated reach the controller alone, as those of the common segment do. It
	// returns their names, in order, also beside an error. It leaves alone the controller's own ends, the named, which are
	// machines', the Trusted, and what somebody has put into another segment. No other call may put a port elsewhere meanwhile.
	Isolate(ctx context.Context, named []string) (isolated []string, err error)
	// Open makes the controller's end of a segment, and names the bridge that it is. It keeps what is there.
	Open(ctx context.Context, s Segment) (bridge string, err error)
	// Close takes the end of a segment away. ErrInUse: ports are in it.
	Close(ctx context.Context, s Segment) error
	// Opened lists the segments, but for Common, that have an end here.
	Opened(ctx context.Context) ([]Segment, error)
}

// Trusted is the alias (ip-link(8)) of an interface whose port the host's operator lets speak with machines: that of the site's
// own DHCP server, or of a router.
const Trusted = "muster-trusted"

// Placed is a port that is in a segment.
type Placed struct {
	Port
	In Segment
}

// Forgetful is a Switch that forgets, where it is restarted, to which ports the controller's answers go. Segments it keeps.
type Forgetful interface {
	// Forgotten are those of the ports that it does not know that of.
	Forgotten(ctx context.Context, placed []Placed) ([]Placed, error)
	// Remind tells it of a port again. No other call may put the port elsewhere meanwhile. It may be called again.
	Remind(ctx context.Context, p Placed) error
}

var (
	// ErrNoPort is returned for a port that the switch does not have.
	ErrNoPort = errors.New("the switch has no such port")
	// ErrInUse is returned for a segment that still has ports.
	ErrInUse = errors.New("ports are in the segment")
)
