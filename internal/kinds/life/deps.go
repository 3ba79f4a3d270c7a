// Package life has what the lives of all kinds share: what their handlers act on, failures of many at once, words. The life of a
// kind is one table of phase → handler, in a folder of the kind: a life knows the rows of other kinds, which their rows cannot.
//
// What enters: drivers and the database, from the controller. What leaves: the same to handlers, with every call of a driver
// counted.
package life

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/drivers/power"
	"muster/internal/drivers/scheduler"
	"muster/internal/drivers/substrate"
	"muster/internal/fabric"
	"muster/internal/identity"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/external"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kinds/task"
	"muster/internal/kit/limit"
	"muster/internal/price"
	"muster/internal/spec"
)

// Provider is what carries nodes on machines of one substrate.
type Provider struct {
	Caps             substrate.Capabilities
	Substrate        substrate.Substrate
	Inspector        substrate.Inspector
	Mover            substrate.Mover            // nil: nodes stay where they are
	Sleeper          substrate.Sleeper          // nil: none of its nodes can sleep
	HypervisorBooter substrate.HypervisorBooter // makes its machines hypervisors; nil: they are none
	Endpoints        []string                   // where agents find the controllers; empty: the address on their network
	// Limits are the deadlines, and Emulated those of guests whose host is a machine of its own and can only emulate them.
	Limits, Emulated substrate.Deadlines
}

// NewProvider is a substrate that was opened, with its deadlines as the site has them.
func NewProvider(ctx context.Context, f substrate.Factory, opened substrate.Substrate,
	site inventory.Catalogue) (Provider, error) {
	p := Provider{Caps: f.Caps, Substrate: opened,
		Limits: Deadlines(f, f.Deadlines, site), Emulated: Deadlines(f, f.Emulated, site)}
	p.Inspector, _ = opened.(substrate.Inspector)
	p.Mover, _ = opened.(substrate.Mover)
	p.Sleeper, _ = opened.(substrate.Sleeper)
	p.HypervisorBooter, _ = opened.(substrate.HypervisorBooter)
	if c, calls := opened.(substrate.Caller); calls {
		var err error
		if p.Endpoints, err = c.Endpoints(ctx); err != nil {
			return p, fmt.Errorf("substrate %s: %w", f.Name, err)
		}
	}
	if e, may := opened.(substrate.Emulator); may && e.Emulates() {
		p.Limits = p.Emulated
	}
	switch {
	case p.Inspector == nil:
		return p, fmt.Errorf("substrate %s looks after no machines", f.Name)
	case f.Caps.Moves && p.Mover == nil:
		return p, fmt.Errorf("substrate %s says that nodes move, and moves none", f.Name)
	case f.Caps.Sleeps && p.Sleeper == nil:
		return p, fmt.Errorf("substrate %s declares that it suspends nodes, and has no Sleeper", f.Name)
	}
	return p, nil
}

// Deadlines are those of a substrate as the site file sets them.
func Deadlines(of substrate.Factory, l substrate.Deadlines, site inventory.Catalogue) substrate.Deadlines {
	if boot := site.BootWithin; boot > 0 && of.Caps.WholeMachine {
		l.Boot, l.Inspection = boot, boot
	}
	if l.Idle > 0 {
		l.Idle = cmp.Or(site.HypervisorIdle, l.Idle)
	}
	l.Silence = cmp.Or(site.Silence, l.Silence)
	l.MaxLostShare = cmp.Or(site.MaxLostShare, l.MaxLostShare)
	return l
}

// Deps is what handlers act on.
type Deps struct {
	DB         *core.Store
	Providers  map[string]Provider // by the machines' substrate
	Shared     substrate.Shared
	Snapshots  substrate.Snapshots
	Admission  Admission
	Catalogue  *inventory.Catalogue
	Schedulers scheduler.Registry
	Substrates substrate.Registry // all that clusters can ask for; Providers are those of this site
	Authority  *identity.Authority
	Telemetry  *telemetry.Telemetry // nil: nothing is counted
	Power      power.Registry       // what the ways to switch machines can do
	Fabrics    Fabrics              // nil: none is looked after here
	External   External
	Pace       FabricPace   // of fabrics; zero values are the usual ones
	Turns      *limit.Share // of copies of files, by project; nil: Copying's
	Calls      *limit.Share // of calls to external clusters, by project; nil: Calling's
	Asking     *limit.Share // of questions for their queues; nil: Asking's
}

// Copying is how many copies of clusters' files may go on at the same time: each holds one of the engine's workers, for hours
// perhaps.
func Copying() *limit.Share { return &limit.Share{Kind: "copies of files", Each: 2, Total: 16} }

// Calling is how many calls to external clusters may go on at the same time: each holds one of the engine's workers for as long
// as a shell there does as it likes, up to a minute.
func Calling() *limit.Share {
	return &limit.Share{Kind: "calls to external clusters", Each: 2, Total: 16}
}

// Asking is how many external clusters may be asked for their queues at the same time, for the same reason.
func Asking() *limit.Share {
	return &limit.Share{Kind: "questions to external clusters", Each: 16, Total: 16}
}

// TurnAgain is how long a copy or a call that has no turn waits until it asks again.
const TurnAgain = time.Second

// Admission decides for clusters that run, as it does for requests. What it says is good for the transaction that it is asked
// in.
type Admission interface {
	// Refill reserves machines for the members of a cluster that have no node, but for those whose names rest. It returns the
	// names and machines of the nodes that come, and in refused why the others do not. A second call finds those that came, and
	// reserves none again.
	Refill(ctx context.Context, tx *core.Tx, c cluster.Cluster, rest ...string) (placed []node.Node, refused, err error)
	// Elsewhere finds another host for a guest whose host it must leave, and reserves nothing; why says that there is none. If it
	// is to go there while it runs, reaches says to which hosts it can.
	Elsewhere(ctx context.Context, tx *core.Tx, n node.Node, reaches func(host machine.Machine) bool) (g host.Guest, why string,
		err error)
	// Unpausable says why a cluster that is to pause cannot; nil if it can.
	Unpausable(ctx context.Context, tx *core.Tx, c cluster.Cluster) (refused, err error)
	// Foresee says what a cluster that is to start later will lack at its start, as things stand; "" for nothing.
	Foresee(ctx context.Context, tx *core.Tx, c cluster.Cluster) (string, error)
	// ClusterLimits are what the cluster's own file limits, with what is used of it.
	ClusterLimits(ctx context.Context, tx *core.Tx, id string, c spec.Cluster) ([]price.Limit, error)
	// ProjectLimits are what the site limits for a project in the running month, with what is used of it.
	ProjectLimits(ctx context.Context, tx *core.Tx, project string) ([]price.Limit, error)
}

// Fabrics opens what tells a fabric's subnet manager.
type Fabrics interface {
	// Driver is that of a fabric as it stands in its row. It may be asked for at every step.
	Driver(f fabrics.Fabric) (fabric.Driver, error)
}

// External asks clusters that Muster did not build for their queues, and has tasks run there, as jobs of the people who asked
// for them.
type External interface {
	// Ask asks a cluster's batch system what it is and for its queues. It is called again and again; an error says in an
	// operator's words why it is not known.
	Ask(ctx context.Context, c external.Cluster) (system string, queues []external.Queue, err error)
	// Follow has a task begun that has not been, ended if that is wanted, and says how far it is; once it has ended, with what it
	// has written. Its ID is RUN.NUMBER; a call that is repeated begins it no second time. An error says that nothing is known
	// now.
	Follow(ctx context.Context, c external.Cluster, project string, t task.Task) (said task.Said, output []byte, err error)
	// Forget removes what a run's tasks have left there. A second call does nothing.
	Forget(ctx context.Context, c external.Cluster, project, person, run string) error
}

// FabricPace is how often a fabric is looked after.
type FabricPace struct {
	Apply   time.Duration // its manager is told again, also when nothing has changed; 40 s
	Observe time.Duration // all ports are read; 15 s
	Again   time.Duration // what differs is looked at a second time, before anybody is blamed; 5 s
}

// What ends a copy before its time.
var (
	ErrUnwanted = errors.New("it is no longer wanted")
	ErrOvertook = errors.New("its cluster is being deleted")
)

// lookAgain is how often a copy tells how far it is, and asks whether it is still wanted.
const lookAgain = time.Second

// Copies is progress of a copy, told now and then in a transaction.
func (w Deps) Copies(ctx context.Context, tell func(ctx context.Context, tx *core.Tx, copied int64) error) func(int64) error {
	next := time.Now().Add(lookAgain)
	return func(copied int64) error {
		if time.Now().Before(next) {
			return nil
		}
		next = time.Now().Add(lookAgain)
		return w.DB.Quietly(ctx, func(tx *core.Tx) error { return tell(ctx, tx, copied) })
	}
}
