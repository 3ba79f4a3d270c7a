// Package admission decides whether a request can be granted: it turns it into a plan, or into the precise reason why not, and
// reserves what the plan needs in one transaction.
//
// What enters: a cluster file and the database's rows. What leaves: a Plan and, once it is carried out, intent in the database:
// the cluster's row, and its nodes on their machines. It starts nothing; the engine does.
package admission

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/scheduler"
	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kinds/person"
	"muster/internal/kinds/snapshot"
	"muster/internal/kit/lists"
	"muster/internal/kit/words"
	"muster/internal/place"
	"muster/internal/price"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// Image is what admission must know of one.
type Image struct {
	Name   string
	Digest string
	Arch   string // as inventory.Facts has it
	// Boots says that it has a kernel: machines can boot it, not only namespaces of a host.
	Boots bool
	// Drivers are those that it carries, of GPUs and HCAs, as inventory.Drivers names them; nil: it is not known.
	Drivers []string
	// Programs are commands that it is known to have; nil: it is not known.
	Programs []string
}

// Images finds images by name.
type Images interface {
	// Image returns the newest image of that name; an error says which there are.
	Image(name string) (Image, error)
	// With names the images that carry all of these drivers.
	With(drivers []string) []string
}

// Admission holds a site's rules.
type Admission struct {
	Catalogue inventory.Catalogue
	Images    Images
	// Schedulers are what a cluster's jobs can be started by.
	Schedulers scheduler.Registry
	// Substrates are what the site's machines can be of.
	Substrates substrate.Registry
	// Short says why no cluster can be made: what all of them keep their files on is full. "": it is not; nil: that is not known.
	Short func(ctx context.Context) string
}

// caps is what the substrate of a machine can.
func (a *Admission) caps(m inventory.Machine) substrate.Capabilities {
	return a.Substrates.Of(m.Substrate)
}

// Kind is what a refusal is about; the command line's exit codes and HTTP's statuses follow from it.
type Kind int

// The kinds of refusal.
const (
	Invalid Kind = iota + 1
	NoCapacity
	Conflict
	OverQuota
	OverBudget
)

// Refusal says why a request cannot be met. Its diagnostics carry paths, not places: the document they came from has
// those.
type Refusal struct {
	Kind        Kind
	Diagnostics spec.Diagnostics
	Offers      []Offer // what would do instead, where it is known

	lacks int // machines, or nodes of a quota, that it asks for too many; 0: not known
}

func asRefusal(err error) (*Refusal, error) {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		err = nil
	}
	return refusal, err
}

func (r *Refusal) Error() string { return r.Diagnostics.Error() }

func refuse(kind Kind, code, path, text, hint string) *Refusal {
	return &Refusal{Kind: kind, Diagnostics: spec.Diagnostics{{Code: code, Path: path, Text: text, Hint: hint}}}
}

// Plan is what would happen. Planning changes nothing.
type Plan struct {
	Spec     spec.Cluster  // resolved
	Changes  []spec.Change // against the running cluster; empty for a new one
	Add      []Placed      // nodes to come, with the machines chosen for them
	Release  []string      // names of nodes to go
	Steps    []Step        // what happens to nodes that are there
	Price    price.Amount  // an hour, once it is ready
	Total    price.Amount  // for the whole lease if nothing changes; none if it has no lease
	Messages []string
	Layouts  []Layout     // how the queues that get nodes lie in the network, where that is known
	Term     cluster.Term // when its lease runs
	FitsAt   *time.Time   // when it starts; nil: now

	all     []Placed // that the cluster has then, those that stay included
	image   Image
	from    *snapshot.Snapshot // that a new cluster gets its files from; nil: none
	current *cluster.Cluster   // nil for a new one
	release []node.Node
	rolls   bool        // it says again what nodes boot
	again   string      // what is done to a rollout that there was, in words
	keep    []node.Node // that were to go, and stay
	awaits  *awaited    // machines that are not free yet; nil: it needs none
}

// Placed is a node with its machine.
type Placed struct {
	Name    string
	Role    protocol.Role
	Queue   string
	Class   string
	Machine inventory.Machine

	guest *host.Guest // to be made; nil where the machine is a whole one
	vm    *spec.VM    // that it was asked as
	wakes *node.Node  // the node that it is, where that sleeps; nil: it is a new one
	// where it is in its queue's network; "" and 0: not known
	leaf       string
	leafNumber int
}

// Resolve fills the site's defaults into a cluster file. The error is a *Refusal.
func (a *Admission) Resolve(c spec.Cluster) (spec.Cluster, error) {
	resolved, err := spec.Resolve(c, Defaults(a.Catalogue, a.Substrates))
	if err != nil {
		var ds spec.Diagnostics
		if errors.As(err, &ds) {
			return resolved, &Refusal{Kind: Invalid, Diagnostics: ds}
		}
		return resolved, err
	}
	return resolved, a.known(resolved)
}

// known checks every name that the site must know.
func (a *Admission) known(c spec.Cluster) error {
	var ds spec.Diagnostics
	if !slices.Contains(c.Site, a.Catalogue.Site) {
		ds = append(ds, spec.Diagnostic{Code: "unknown-site", Path: "site",
			Text: fmt.Sprintf("this is not site %s", strings.Join(c.Site, ", ")), Hint: "this site is " + a.Catalogue.Site})
	}
	class := func(path, name string) {
		if _, ok := a.Catalogue.Find(name); !ok {
			ds = append(ds, spec.Diagnostic{Code: "unknown-class", Path: path, Text: fmt.Sprintf("there is no class %q", name),
				Hint: "there are " + strings.Join(a.Catalogue.Names(), ", ")})
		}
	}
	class("head.class", c.Head.Class)
	for i, q := range c.Queues {
		class(fmt.Sprintf("queues[%d].class", i), q.Class)
		for j, name := range q.Or {
			class(fmt.Sprintf("queues[%d].or[%d]", i, j), name)
		}
	}
	if ds = append(append(ds, a.knownParts(c)...), a.knownMoney(c)...); len(ds) > 0 {
		return &Refusal{Kind: Invalid, Diagnostics: ds}
	}
	return nil
}

// Create plans a new cluster. The error is a *Refusal when the request is at fault.
func (a *Admission) Create(ctx context.Context, tx *core.Tx, c spec.Cluster) (*Plan, error) {
	resolved, err := a.Resolve(c)
	if err != nil {
		return nil, err
	}
	if other, err := cluster.Named(ctx, tx, resolved.Project, resolved.Name); err == nil {
		hint := "choose another name, or change it with `muster apply`"
		if other.Desired == core.ToDelete {
			hint = "it is being deleted; wait for its end with `muster delete --wait`"
		}
		return nil, refuse(Conflict, "name-taken", "name", fmt.Sprintf("a cluster %s already exists", resolved.Name), hint)
	} else if !errors.Is(err, core.ErrNotFound) {
		return nil, err
	}
	if err := a.oneMore(ctx, tx, resolved.Project); err != nil {
		return nil, err
	}
	if a.Short != nil {
		if why := a.Short(ctx); why != "" {
			return nil, refuse(NoCapacity, "disk-full", "", why,
				"delete clusters and snapshots that are not needed, or ask an operator")
		}
	}
	image, err := a.newest(resolved.Image)
	if err != nil {
		return nil, err
	}
	if err := a.admits(ctx, tx, resolved); err != nil {
		return nil, err
	}
	plan := &Plan{Spec: resolved, image: image}
	missing, _ := cluster.Cluster{Spec: resolved}.Shape(nil)
	return plan, a.place(ctx, tx, plan, membersOf(resolved, missing))
}

// Change plans a new intent for a running cluster. It keeps its image as long as the image's name stays.
func (a *Admission) Change(ctx context.Context, tx *core.Tx, current cluster.Cluster, c spec.Cluster) (*Plan, error) {
	return a.change(ctx, tx, current, c, a.keep(current))
}

func (a *Admission) change(ctx context.Context, tx *core.Tx, current cluster.Cluster, c spec.Cluster, image pick) (*Plan, error) {
	c.Lease = kept(current.Spec.Lease, c.Lease)
	c.Storage = keptSizes(current.Spec, c.Storage)
	resolved, err := a.Resolve(c)
	if err != nil {
		return nil, err
	}
	if current.Desired == core.ToDelete {
		return nil, beingDeleted(current)
	}
	plan := &Plan{Spec: resolved, Changes: spec.Diff(current.Spec, resolved), current: &current}
	if plan.image, err = image(resolved.Image); err != nil {
		return nil, err
	}
	plan.Changes = append(plan.Changes, imageChange(plan)...)
	if err := possible(plan.Changes); err != nil {
		return plan, err
	}
	if err := a.admits(ctx, tx, resolved); err != nil {
		return plan, err
	}
	nodes, err := node.Of(ctx, tx, current.ID)
	if err != nil {
		return nil, err
	}
	wanted := current
	wanted.Spec = resolved
	missing, surplus := wanted.Shape(nodes)
	plan.letGo(surplus)
	plan.Steps = departures(wanted, surplus)
	plan.Messages = a.closings(current.Spec, resolved)
	if plan.rolls = rolling(plan.Changes); plan.rolls {
		if err := a.renewals(ctx, tx, plan); err != nil {
			return plan, err
		}
	}
	plan.Messages = append(plan.Messages, a.unannounced(plan)...)
	return plan, a.place(ctx, tx, plan, membersOf(resolved, missing))
}

// admits refuses a list of users on which somebody stands who is not in the cluster's project.
func (a *Admission) admits(ctx context.Context, tx *core.Tx, c spec.Cluster) error {
	if c.Access == nil {
		return nil
	}
	members, err := person.Memberships(ctx, tx, c.Project, "")
	if err != nil {
		return err
	}
	names := lists.Map(members, func(m person.Membership) string { return m.Person })
	var ds spec.Diagnostics
	for i, user := range c.Access.Users {
		if !slices.Contains(names, user) {
			ds = append(ds, spec.Diagnostic{Code: "unknown-user", Path: fmt.Sprintf("access.users[%d]", i),
				Text: fmt.Sprintf("%s is not a member of project %s", user, c.Project),
				Hint: "its members are " + strings.Join(names, ", ")})
		}
	}
	if len(ds) > 0 {
		return &Refusal{Kind: Invalid, Diagnostics: ds}
	}
	return nil
}

// keptSizes are those of file systems whose size a changed file does not say: what they have, whatever the site's default
// is by now.
func keptSizes(current spec.Cluster, written []spec.Storage) []spec.Storage {
	has := spec.Home(current)
	if has.Size == "" {
		return written
	}
	if len(written) == 0 {
		return []spec.Storage{has}
	}
	written = slices.Clone(written)
	for i, s := range written {
		if s.Mount == has.Mount && s.Size == "" {
			written[i].Size = has.Size
		}
	}
	return written
}

// possible refuses changes that a running cluster cannot take.
func possible(changes []spec.Change) error {
	var ds spec.Diagnostics
	for _, change := range changes {
		if change.Effect == spec.NeverChanges {
			ds = append(ds, spec.Diagnostic{Code: "unchangeable", Path: change.Path,
				Text: fmt.Sprintf("cannot change from %s to %s: %s", change.Old, change.New, change.Why),
				Hint: "create a new cluster for it"})
		}
	}
	if len(ds) > 0 {
		return &Refusal{Kind: Invalid, Diagnostics: ds}
	}
	return nil
}

// place chooses machines for the members that are missing and prices the whole.
func (a *Admission) place(ctx context.Context, tx *core.Tx, plan *Plan, missing []member) error {
	if err := cluster.LockAdmission(ctx, tx); err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	machines, err := machine.List(ctx, tx)
	if err != nil {
		return err
	}
	machines = plan.awaits.ready(machines)
	if err := a.term(now, plan, machines); err != nil {
		return err
	}
	if plan.current != nil {
		if err := a.prolong(ctx, tx, plan, now, machines); err != nil {
			return err
		}
	}
	knownTopology, err := loadTopology(ctx, tx, machines)
	if err != nil {
		return err
	}
	var nodes []node.Node
	if plan.current != nil {
		if nodes, err = node.Of(ctx, tx, plan.current.ID); err != nil {
			return err
		}
	}
	nodes = staying(nodes, plan.release)
	missing = a.locate(knownTopology, missing, nodes, machines, plan.Spec.Isolation)
	fit, unfit, err := connected(ctx, tx, machines)
	if err != nil {
		return err
	}
	if plan.Add, err = a.find(ctx, tx, plan, now, missing, fit); err != nil {
		refusal, _ := asRefusal(err)
		disconnected(refusal, unfit)
		return err
	}
	plan.Layouts = layouts(knownTopology, missing, plan.Add, nodes)
	plan.Messages = append(plan.Messages, unheeded(missing, plan.Later(now))...)
	if plan.Later(now) {
		plan.FitsAt = &plan.Term.StartsAt
		if err := a.promisable(ctx, tx, plan); err != nil {
			return err
		}
	}
	if err := a.endable(ctx, tx, plan, machines); err != nil {
		return err
	}
	if err := a.pay(ctx, tx, plan, machines); err != nil {
		return err
	}
	for _, p := range plan.Add {
		if p.Role == protocol.Compute && plan.Spec.Boot == spec.BootDisk && !a.caps(p.Machine).WholeMachine {
			plan.Messages = append(plan.Messages, fmt.Sprintf("boot: disk has no effect on %s, which is not a whole machine",
				p.Name))
		}
	}
	return a.usable(plan)
}

// Refill reserves machines for the members of a cluster that have no node: after a failure, or when a name had to wait
// for its old machine. It reserves as many as there are machines for, and refused says why there is none for the others. The
// names that rest get none for now.
func (a *Admission) Refill(ctx context.Context, tx *core.Tx, c cluster.Cluster, rest ...string) (placed []node.Node, refused,
	err error) {
	nodes, err := node.Of(ctx, tx, c.ID)
	if err != nil {
		return nil, nil, err
	}
	members, _ := c.Shape(nodes)
	missing := slices.DeleteFunc(membersOf(c.Spec, members), func(m member) bool { return slices.Contains(rest, m.Name) })
	if len(missing) == 0 {
		return nil, nil, nil
	}
	if err := cluster.LockAdmission(ctx, tx); err != nil {
		return nil, nil, err
	}
	machines, err := machine.List(ctx, tx)
	if err != nil {
		return nil, nil, err
	}
	knownTopology, err := loadTopology(ctx, tx, machines)
	if err != nil {
		return nil, nil, err
	}
	missing = a.locate(knownTopology, missing, nodes, machines, c.Spec.Isolation)
	machines, unfit, err := connected(ctx, tx, machines)
	if err != nil {
		return nil, nil, err
	}
	missing, machines, promised, err := a.prefer(ctx, tx, c, missing, machines)
	if err != nil {
		return nil, nil, err
	}
	avoided, err := host.AvoidedHosts(ctx, tx, c.ID, avoidFor)
	if err != nil {
		return nil, nil, err
	}
	if len(missing) == 0 {
		return nil, firstOf(promised), nil
	}
	chosen, short, err := fitting(missing, func(some []member) ([]Placed, error) {
		return a.chooseElsewhere(some, machines, avoided, c.Spec.Isolation, place.NewLooks(lookedEach))
	})
	if err != nil {
		return nil, nil, err
	}
	disconnected(short, unfit)
	fit, over, err := a.room(ctx, tx, c.ID, c.Spec, chosen)
	if err != nil {
		return nil, nil, err
	}
	placed, err = a.seat(ctx, tx, c.ID, chosen[:fit])
	return placed, firstOf(promised, short, over), err
}

// firstOf is the first refusal that there is; nil if there is none.
func firstOf(all ...*Refusal) error {
	for _, r := range all {
		if r != nil {
			return r
		}
	}
	return nil
}

// CarryOut writes a plan as intent: a new cluster with its nodes, or a changed one. Call it in the transaction that
// made the plan.
func (a *Admission) CarryOut(ctx context.Context, tx *core.Tx, p *Plan, by string, drainFor time.Duration) (cluster.Cluster,
	error) {
	id := ""
	if p.current == nil {
		id = core.NewID("c")
		key := make([]byte, a.Schedulers.Of(p.Spec.Scheduler()).Caps.Credential.Bytes)
		_, _ = rand.Read(key)
		c := cluster.Cluster{ID: id, Project: p.Spec.Project, Name: p.Spec.Name, Spec: p.Spec, Image: p.image.Digest,
			Credential: core.NewSecret(key), CreatedBy: by, HomeTerms: a.Catalogue.HomeTerms()}
		if err := cluster.Add(ctx, tx, c); err != nil {
			return c, err
		}
		if p.from != nil {
			if err := snapshot.BornFrom(ctx, tx, id, p.from.ID); err != nil {
				return c, err
			}
		}
	} else {
		id = p.current.ID
		if _, err := cluster.ChangeSpec(ctx, tx, id, p.Spec, drainFor); err != nil {
			return cluster.Cluster{}, err
		}
		if p.rolls {
			if err := cluster.SetRoot(ctx, tx, id, p.image.Digest); err != nil {
				return cluster.Cluster{}, err
			}
		}
	}
	if !p.Term.StartsAt.IsZero() && (p.current == nil || !p.Term.Equal(p.current.Term)) {
		if err := cluster.SetTerm(ctx, tx, id, p.Term); err != nil {
			return cluster.Cluster{}, err
		}
	}
	for _, n := range p.release {
		if err := node.WantAbsent(ctx, tx, n.ID, drainFor); err != nil {
			return cluster.Cluster{}, err
		}
	}
	return a.finish(ctx, tx, id, p, p.words(), by)
}

// letGo has nodes released by the plan.
func (p *Plan) letGo(nodes []node.Node) {
	p.release, p.Release = nodes, lists.Map(nodes, func(n node.Node) string { return n.Name })
}

// words says what a plan does.
func (p *Plan) words() string {
	compute := 0
	for _, placed := range p.Add {
		if placed.Role == protocol.Compute {
			compute++
		}
	}
	if p.current == nil && p.FitsAt != nil {
		return fmt.Sprintf("reserve 1 head + %s with image %s from %s", words.Count(p.compute(), "node"), p.image.Name,
			spec.When(*p.FitsAt))
	}
	if p.current == nil {
		return fmt.Sprintf("create 1 head + %s with image %s", words.Count(compute, "node"), p.image.Name)
	}
	parts := []string{}
	if compute > 0 {
		parts = append(parts, "add "+words.Count(compute, "node"))
	}
	if len(p.Release) > 0 {
		parts = append(parts, "release "+words.Count(len(p.Release), "node"))
	}
	if words := p.rolloutWords(); words != "" {
		parts = append(parts, words)
	}
	if len(parts) == 0 {
		parts = append(parts, "change "+words.Count(len(p.Changes), "field"))
	}
	return strings.Join(parts, ", ")
}

// seat stores the nodes, each in the seat of its name, and returns them.
func (a *Admission) seat(ctx context.Context, tx *core.Tx, clusterID string, placed []Placed) (nodes []node.Node,
	err error) {
	if len(placed) == 0 {
		return nil, nil
	}
	seats, err := cluster.Seats(ctx, tx, clusterID)
	if err != nil {
		return nil, err
	}
	slots, next := map[string]int{}, substrate.FirstSlot
	for _, s := range seats {
		slots[s.Name] = s.Slot
		next = max(next, s.Slot+1)
	}
	for _, p := range placed {
		if p.wakes != nil {
			if err := host.SetAllocation(ctx, tx, *p.guest); err != nil {
				return nil, err
			}
			if err := node.WakeSleeper(ctx, tx, p.wakes.ID); err != nil {
				return nil, err
			}
			nodes = append(nodes, *p.wakes)
			continue
		}
		if _, seated := slots[p.Name]; !seated {
			if next > substrate.MaxSlot {
				return nil, refuse(Conflict, "no-address", "", "the cluster has used all its addresses", "create a new cluster")
			}
			if err := cluster.AddSeat(ctx, tx, clusterID, cluster.Seat{Name: p.Name, Slot: next}); err != nil {
				return nil, err
			}
			slots[p.Name], next = next, next+1
		}
		if p.guest != nil {
			if err := host.AddGuest(ctx, tx, *p.guest, "for node "+p.Name); err != nil {
				return nil, err
			}
			tx.Log(core.Event{Type: "machine.phase", Machine: p.Machine.Name, Phase: machine.Reserved, Text: p.partWords()})
		}
		n := node.Node{ID: core.NewID("n"), Cluster: clusterID, Name: p.Name, Role: p.Role, Queue: p.Queue, Class: p.Class,
			MachineID: p.Machine.ID, Machine: p.Machine.Name, VM: p.vm, Leaf: p.leaf, LeafNumber: p.leafNumber,
			Terms: a.Catalogue.Terms(p.Class, p.Machine)}
		if err := node.Add(ctx, tx, n); err != nil {
			return nil, err
		}
		if err := join(ctx, tx, n, p.Machine, p.guest); err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// Empty says that the plan changes nothing.
func (p *Plan) Empty() bool { return len(p.Changes) == 0 && !p.rolls }

// Current is the running cluster that the plan changes; nil for a new one.
func (p *Plan) Current() *cluster.Cluster { return p.current }
