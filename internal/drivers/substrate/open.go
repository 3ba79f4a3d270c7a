package substrate

import (
	"context"
	"log/slog"

	"muster/internal/drivers/power"
	switches "muster/internal/drivers/switch"
	"muster/internal/inventory"
)

// Env is what a substrate may use of its opener: the agent of a host, or a controller. Keys, Boots, Power and Place are a
// controller's alone, Networks an agent's.
type Env struct {
	Dir     string // the substrate's own folder on this host, an absolute path; it makes it if it needs one
	Binary  string // this program, which becomes nodes' agent
	Sockets string // the folder of sockets where agents on this host find the controllers
	Log     *slog.Logger
	Site    inventory.Catalogue // what the site file says
	Host    Host                // what the operator says of this host
	Images  Images
	Keys    Keys
	// Networks are the clusters' on this host. nil for the substrate that makes them, which is before all others in the list.
	Networks Networks
	Boots    Boots // what machines boot
	Power    func(Machine) (power.Driver, error)
	// Place puts the machine's ports of its network's switch into a segment, and returns when they were seen there. It is
	// called while the machine is off, and may be called again.
	Place   func(context.Context, Machine, switches.Segment) error
	Notices Notices
}

// Host is what the operator says of the host that a substrate is opened on.
type Host struct {
	Machine string         // its name as a machine that holds guests
	Guests  bool           // it holds guests
	Divide  map[string]int // how many virtual functions its devices are to have, by their PCI addresses
}

// Images are the images of this host. Both methods may be called often and at the same time.
type Images interface {
	// Named is the digest of the image of a name.
	Named(name string) (digest string, err error)
	// Files are those of the image of a digest.
	Files(digest string) (ImageFiles, error)
}

// ImageFiles are the paths of an image's files. Kernel and Drivers are "" in an image that does not boot.
type ImageFiles struct{ Name, Root, Kernel, Drivers string }

// Keys are the site's.
type Keys interface {
	// AgentsPEM is the authority that agents know controllers by; it may change.
	AgentsPEM() string
}

// Networks are where nodes are cabled to their clusters on this host.
type Networks interface {
	// PlugPort moves the interface called PortName from a network namespace to the node's cluster, fenced.
	PlugPort(ctx context.Context, n Node, from string) error
	// DropPort takes it away, if it is there.
	DropPort(ctx context.Context, cluster, node string) error
}

// Notices are how a substrate says what somebody should know, beside the answers to calls.
type Notices interface {
	// Machine logs an alarm about a machine.
	Machine(ctx context.Context, name, text string)
	// Inspect has a machine inspected, since it is no longer what its facts say. One that is not known is left alone.
	Inspect(ctx context.Context, name string) error
}

// What a Factory opens is a Substrate and an Inspector. It is a Mover, a Sleeper or a HypervisorBooter where its
// Capabilities say so, and where it has to do with one of these, too:

// Caller is a substrate whose nodes' agents find the controllers neither at their machine's network nor at their cluster's
// gateway.
type Caller interface {
	// Endpoints are where they find them, as in protocol.BootFile.
	Endpoints(ctx context.Context) ([]string, error)
}

// Emulator is a substrate of guests whose host may be able to do no more than emulate them.
type Emulator interface {
	// Emulates says that this host can do no more, or is emulated itself: then the deadlines for emulated guests hold on it. The
	// first call may take a while.
	Emulates() bool
}

// Worker is a substrate with work of its own, beside calls.
type Worker interface {
	// Work goes on until ctx ends. What it cannot do it logs.
	Work(ctx context.Context)
}
