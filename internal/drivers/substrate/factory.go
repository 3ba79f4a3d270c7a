package substrate

import (
	"cmp"
	"context"
	"path/filepath"
	"time"

	"muster/internal/kit/lists"
)

// Factory is one kind of substrate as a site registers it. The drivers' list, package drivers, is the only place that knows
// all of them; everybody else asks for what it can.
type Factory struct {
	Name string // in rows of machines, selectors of classes and metrics: it never changes
	Doc  string // what its nodes are, in one sentence for people
	Caps Capabilities
	// Folder is the name of its own folder on a host; "": its name.
	Folder string
	// ByAgent says that the agent of a host opens it, and controllers call it there, by package hostd/calls. Others are opened by
	// controllers.
	ByAgent bool
	// Open makes the driver. It is called once, when a controller or the agent of a host starts, and may change what is in the
	// folder. What it returns is described at Caller.
	Open func(ctx context.Context, e Env) (Substrate, error)
	// Deadlines are the usual ones, and Emulated those of guests whose host can only emulate them. A site may set some of them.
	Deadlines, Emulated Deadlines
}

// In is the path of its own folder, below that of its host.
func (f Factory) In(dir string) string { return filepath.Join(dir, cmp.Or(f.Folder, f.Name)) }

// Capabilities are the questions that the house asks of a substrate, whatever its name is. Its driver keeps what it says here:
// the contract test holds it to that. The zero value promises nothing.
type Capabilities struct {
	// Kernel says that nodes boot a kernel of their own: their image must have one, and the drivers of their devices.
	Kernel bool
	// OwnCPUs says that no other node runs on a node's CPUs, so that its tasks can be bound to them. Guests of a class that is
	// over-committed share cores with one another, and each has numbers of its own to bind to.
	OwnCPUs bool
	// WholeMachine says that a node has a whole machine, its disk and all its speed included.
	WholeMachine bool
	// Guest says that nodes are parts of hypervisors: their machines are made with them, and go with them.
	Guest bool
	// OnHost says that nodes run under the kernel of a controller's host: they see its files, and call by its sockets.
	OnHost bool
	// KeepsHead says that /home and the scheduler's state outlive the node of a head. Only then can its cluster pause, or be
	// saved.
	KeepsHead bool
	// Power says that a node which stopped by itself has lost its power, and may start again on the same machine.
	Power bool
	// Sleeps says that a node's memory can be written to disk and read back, where its host can do it.
	Sleeps bool
	// Moves says that a node can go to another host while it runs, where both hosts can do it.
	Moves bool
	// Enrols is how its machines come into the inventory.
	Enrols Enrolment
	// Lead is how long a machine takes about to become a node, and Turnaround until one that is left can be given again. They
	// are for plans; nothing is given up by them.
	Lead, Turnaround time.Duration
}

// Enrolment is how machines come into the inventory.
type Enrolment int

// The ways of enrolment.
const (
	NotEnrolled Enrolment = iota // they are never asked for
	ByNumber                     // so many parts of the controller's host
	ByList                       // each with its name, its NICs, its network and its power control
)

// Registry is the substrates of a site, each under its own name. It is a plain value; nothing registers itself.
type Registry []Factory

// Find is the substrate of that name.
func (r Registry) Find(name string) (Factory, bool) {
	return lists.Find(r, func(f Factory) bool { return f.Name == name })
}

// Of is what the substrate of that name can; nothing, if there is none.
func (r Registry) Of(name string) Capabilities {
	f, _ := r.Find(name)
	return f.Caps
}

// Enrolled names those whose machines come into the inventory that way.
func (r Registry) Enrolled(by Enrolment) []string {
	enrolled := lists.Filter(r, func(f Factory) bool { return f.Caps.Enrols == by })
	return lists.Map(enrolled, func(f Factory) string { return f.Name })
}

// Guests is the name of the substrate that guests are of; "" if there is none.
func (r Registry) Guests() string {
	f, _ := lists.Find(r, func(f Factory) bool { return f.Caps.Guest })
	return f.Name
}
