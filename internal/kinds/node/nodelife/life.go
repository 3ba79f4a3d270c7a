// Package nodelife is the life of nodes: attached, booted, joined, tested, ready, drained, released.
//
// What enters: rows of nodes and what their agents said. What leaves: calls of substrates, new phases, and an event for every
// change.
package nodelife

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/scheduler"
	"muster/internal/drivers/substrate"
	"muster/internal/fabric"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/host"
	"muster/internal/kinds/life"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/kinds/node"
	"muster/internal/kit/printable"
	"muster/internal/kit/words"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// How often a node looks again by itself; observations wake it at once.
const (
	nodeLooks  = 2 * time.Second // while it changes
	readyLooks = 5 * time.Second // while it is ready
	bootTries  = 2               // boots in a row that come to nothing, before another machine is tried
)

// nodeView is a node as its handlers see it.
type nodeView struct {
	node.Node
	cluster   cluster.Cluster
	scheduler scheduler.Factory // the cluster's
	machine   machine.Machine
	host      machine.Machine            // of a guest
	emulated  bool                       // its host, which is a machine of its own, can only emulate guests
	networks  []inventory.Network        // of the cluster's machines
	beyond    bool                       // nodes of the cluster may be, or come to be, elsewhere than on this host's namespaces
	onItsWay  *machine.Boot              // how far the machine is with this boot; nil if nothing tells
	ports     []fabrics.NodePort         // by which it is on fabrics, or was until they are seen without its keys
	keys      map[fabric.GUID]fabric.Key // of a guest: what its host lets it speak by
	// since then the agents of its place are heard without a gap, and it is not slowed down by a move
	listened time.Time
	now      time.Time
}

// provider is what carries the node.
func (w Handlers) provider(n nodeView) life.Provider {
	provider := w.Providers[n.machine.Substrate]
	if n.emulated {
		provider.Limits = provider.Emulated
	}
	return provider
}

// within is a phase's deadline, of the limits of the node's ground.
func (w Handlers) within(limit func(substrate.Deadlines) time.Duration) func(nodeView) time.Time {
	return func(n nodeView) time.Time { return n.PhaseAt.Add(limit(w.provider(n).Limits)) }
}

// bootDeadline counts from the last sign of life: what moves may be slow.
func (w Handlers) bootDeadline(n nodeView) time.Time {
	if n.Sleeps { // to read its memory again takes as long as it is large
		return n.PhaseAt.Add(w.provider(n).Limits.Move)
	}
	since := n.PhaseAt
	if n.onItsWay != nil && n.onItsWay.HeardAt.After(since) {
		since = n.onItsWay.HeardAt
	}
	return since.Add(w.provider(n).Limits.Boot)
}

func (n nodeView) ref() substrate.Ref {
	return substrate.Ref{Cluster: n.Cluster, Node: n.ID, Boot: n.Boot}
}

func (n nodeView) leaving() bool {
	return n.Desired == node.Absent || n.cluster.Desired == core.ToDelete
}

// Handlers are those of nodes, with what they act on.
type Handlers struct{ life.Deps }

// Table is the life of nodes.
func Table(d life.Deps) core.Table {
	w := Handlers{d}
	return core.StateTable[nodeView]{
		DB:   w.DB,
		Of:   node.Kind,
		Load: w.loadNode,
		Phases: map[core.Phase]core.Handler[nodeView]{
			core.Pending:   {Do: w.nodePending},
			node.Attaching: {Do: w.nodeAttach, Deadline: w.attachDeadline, Late: w.nodeAttachLate},
			node.Booting:   {Do: w.nodeBoot, Deadline: w.bootDeadline, Late: w.nodeBootLate},
			node.Joining: {Do: w.alive(w.orStopped(w.nodeJoin)), Deadline: w.within(func(l substrate.Deadlines) time.Duration {
				return l.Join
			}), Late: w.nodeJoinLate},
			node.Testing: {Do: w.alive(w.orStopped(w.nodeTest)), Deadline: w.within(func(l substrate.Deadlines) time.Duration {
				return l.Test
			}), Late: w.nodeTestLate},
			core.Ready:     {Do: w.orSleeps(w.alive(w.nodeReady))},
			node.Draining:  {Do: w.alive(w.nodeDrain)}, // its limit is the user's
			core.Failed:    {Do: w.nodeFailed},
			core.Releasing: {Do: w.nodeRelease},
		},
	}
}

func (w Handlers) loadNode(ctx context.Context, tx *core.Tx, id string) (nodeView, core.Subject, error) {
	var n nodeView
	var err error
	if n.Node, err = node.Get(ctx, tx, id); err != nil {
		return n, core.Subject{}, err
	}
	if n.cluster, err = cluster.Get(ctx, tx, n.Cluster); err != nil {
		return n, core.Subject{}, err
	}
	n.scheduler = w.Schedulers.Of(n.cluster.Spec.Scheduler())
	if n.MachineID != "" {
		if n.machine, err = machine.Get(ctx, tx, n.MachineID); err != nil {
			return n, core.Subject{}, err
		}
	}
	if n.machine.IsGuest() {
		if n.host, err = machine.Get(ctx, tx, n.machine.Host); err != nil {
			return n, core.Subject{}, err
		}
	}
	if n.host.HostsOnDemand() {
		seen, err := host.SeenOf(ctx, tx, n.host.ID)
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			return n, core.Subject{}, err
		}
		n.emulated = seen.Report != nil && seen.Report.Emulates
	}
	if n.networks, err = network.Of(ctx, tx, n.Cluster); err != nil {
		return n, core.Subject{}, err
	}
	// An isolation never changes: one that is of nodes on this host has no others.
	if kind, known := w.Substrates.Find(n.cluster.Spec.Isolation); !known || !kind.Caps.OnHost {
		if n.beyond, err = host.Beyond(ctx, tx); err != nil {
			return n, core.Subject{}, err
		}
	}
	if n.machine.BootsFromNetwork() {
		boot, err := machine.BootOf(ctx, tx, id)
		if err == nil && boot.Number == n.Boot {
			n.onItsWay = &boot
		} else if err != nil && !errors.Is(err, core.ErrNotFound) {
			return n, core.Subject{}, err
		}
	}
	if n.ports, err = fabrics.NodePorts(ctx, tx, id); err != nil {
		return n, core.Subject{}, err
	}
	if n.host.ID != "" && len(n.ports) > 0 {
		if n.keys, err = fabrics.GuestKeys(ctx, tx, n.Cluster, n.host.ID); err != nil {
			return n, core.Subject{}, err
		}
	}
	if n.listened, err = host.ListenedSince(ctx, tx, n.machine.Network); err != nil {
		return n, core.Subject{}, err
	}
	n.listened = life.Later(n.listened, n.machine.Undisturbed)
	n.now, err = tx.Now(ctx)
	who := core.Event{Project: n.cluster.Project, ClusterID: n.Cluster, Cluster: n.cluster.Name, Node: n.Name,
		Machine: n.Node.Machine}
	return n, core.Subject{Life: n.Life, Event: who, Op: life.Operation(n.cluster)}, err
}

// next advances and lets the cluster and the machine look if it is for them to know. Of a node's way to be ready its machine
// waits for the boot alone, and its cluster for the end.
func (n nodeView) next(to core.Phase, format string, args ...any) core.Outcome {
	comes := n.Phase == core.Pending || to == node.Booting || to == node.Joining || to == node.Testing
	return core.Advance(to, format, args...).With(func(_ context.Context, tx *core.Tx) error {
		if !comes {
			tx.Wake(cluster.Kind, n.Cluster)
		}
		if n.MachineID != "" && to != core.Ready && (!comes || to == node.Booting) {
			tx.Wake(machine.Kind, n.MachineID)
		}
		return nil
	})
}

// inform is next for changes that the cluster's other nodes must know.
func (n nodeView) inform(to core.Phase, format string, args ...any) core.Outcome {
	return n.next(to, format, args...).With(func(ctx context.Context, tx *core.Tx) error {
		return cluster.Inform(ctx, tx, n.Cluster)
	})
}

func (n nodeView) fail(format string, args ...any) core.Outcome {
	failed := n.inform(core.Failed, format, args...).With(func(ctx context.Context, tx *core.Tx) error {
		return host.NoteFailure(ctx, tx, n.ID)
	})
	return n.stopsRollout(failed)
}

// late is the exit of a phase that lasted too long.
func (n nodeView) late(what string, limit time.Duration) core.Outcome {
	if n.leaving() {
		return n.inform(core.Releasing, "no longer wanted")
	}
	if n.Reason != "" {
		what += " (" + n.Reason + ")"
	}
	return n.fail("%s within %s", what, limit).Because(life.CauseDeadline)
}

func (w Handlers) nodePending(ctx context.Context, n nodeView) core.Outcome {
	sleepers, err := w.awaitsSleepers(ctx, n)
	switch {
	case err != nil:
		return core.Retry(err)
	case n.leaving():
		return n.inform(core.Releasing, "no longer wanted")
	case n.Asleep():
		return n.nodeAsleep()
	case sleepers:
		return core.WaitFor(nodeLooks, "waits until its cluster's nodes are resumed")
	case n.machine.Phase == machine.Quarantined || n.machine.Desired != machine.ForService:
		return n.fail("machine %s is %s", n.machine.Name, n.machine.Phase).Because(life.CauseMachine)
	case n.apart() != "":
		return n.fail("%s", n.apart()).Because(life.CauseMachine)
	case n.awaitsFiles():
		return core.WaitFor(nodeLooks, "waits for its cluster's files")
	}
	switch waits, fails := n.awaitsHost(); {
	case fails != "":
		return n.fail("%s", fails).Because(life.CauseMachine)
	case waits != "":
		return core.WaitFor(nodeLooks, "%s", waits)
	}
	return n.next(node.Attaching, "on machine %s", n.machine.Name)
}

func (w Handlers) nodeAttach(ctx context.Context, n nodeView) core.Outcome {
	if n.leaving() {
		return n.inform(core.Releasing, "no longer wanted")
	}
	if n.Renew {
		if o, ended := w.endOldBoot(ctx, n); !ended {
			return o
		}
	}
	if err := w.Shared.EnsureShared(ctx, n.Cluster, n.network()); err != nil {
		return core.Retry(err)
	}
	if waits := n.awaitsKeys(); waits != "" {
		return core.WaitFor(nodeLooks, "%s", waits)
	}
	// The boot's number stands in the row before anything of the boot exists: what has a lower number is a remain.
	goOn := n.next
	if n.Renew { // while its old boot went, the others were told that it is not there
		goOn = n.inform
	}
	return goOn(node.Booting, "network ready").With(func(ctx context.Context, tx *core.Tx) error {
		if err := machine.MarkDirty(ctx, tx, n.MachineID); err != nil {
			return err
		}
		root := n.cluster.Boots()
		if err := node.StartBoot(ctx, tx, n.ID, root.Image, root.Disk && n.Whole); err != nil {
			return err
		}
		return w.askTest(ctx, tx, n)
	})
}

// network is its cluster's.
func (n nodeView) network() substrate.Network {
	network := substrate.Network{Segment: n.cluster.Segment, Home: life.HomeOf(n.cluster.Spec), Owner: n.cluster.Project}
	for _, on := range n.networks {
		network.Uplinks = append(network.Uplinks, substrate.Uplink{Namespace: on.Namespace, Interface: on.Interface})
	}
	return network
}

func (w Handlers) nodeBoot(ctx context.Context, n nodeView) core.Outcome {
	switch {
	case n.leaving():
		return n.inform(core.Releasing, "no longer wanted")
	case n.Sleeps:
		return w.wakeUp(ctx, n)
	case n.JoinedBoot == n.Boot:
		return n.next(node.Joining, "its agent is here")
	}
	if n.onItsWay != nil && n.onItsWay.Step == protocol.StepProblem {
		return n.bootAgain(n.onItsWay.Detail)
	}
	err := w.provider(n).Substrate.Ensure(ctx, w.describe(n))
	switch {
	case errors.Is(err, substrate.ErrStale):
		return core.WaitFor(nodeLooks, "a later boot is there")
	case errors.Is(err, substrate.ErrUnderway):
		return core.WaitFor(nodeLooks, "%s", err)
	case errors.Is(err, substrate.ErrRefused):
		return n.fail("%s: %v", n.host.Name, err).Because(life.CauseMachine)
	}
	if err != nil {
		return core.Retry(err)
	}
	if n.onItsWay != nil && n.onItsWay.Detail != "" {
		return core.WaitFor(nodeLooks, "machine %s %s", n.machine.Name, n.onItsWay.Detail)
	}
	if !n.machine.IsGuest() {
		return core.WaitFor(nodeLooks, "waits for its agent")
	}
	seen, err := w.provider(n).Substrate.Observe(ctx, n.ref())
	if err != nil {
		return core.Retry(err)
	}
	return w.settleAllocation(ctx, n, seen, core.WaitFor(nodeLooks, "waits for its agent"))
}

// describe is all that the substrate needs for this boot.
func (w Handlers) describe(n nodeView) substrate.Node {
	file := protocol.BootFile{
		Node: n.ID, Name: n.Name, Boot: n.Boot, Token: w.Authority.Token(n.ID, n.Boot), Authority: w.Authority.AgentsPEM(),
		Endpoints: w.provider(n).Endpoints,
	}
	mac, address := substrate.MAC(n.cluster.Segment, n.Slot), substrate.Address(n.Slot)
	for _, on := range n.networks {
		if on.Name == n.machine.Network {
			file.Endpoints = []string{protocol.Endpoint(on.Address.Addr())}
			file.Attachment = &protocol.Attachment{MAC: mac.String(), Address: address.String()}
			if n.Role != protocol.Head {
				file.Attachment.Home = substrate.Address(substrate.HeadSlot).Addr().String() + ":/home"
			}
		}
	}
	if n.machine.IsGuest() {
		n.attachGuest(&file)
	}
	described := substrate.Node{
		Ref: n.ref(), Name: n.Name, Machine: n.machine.Name, Address: address, MAC: mac, Seats: seats(n.cluster.Spec),
		Image: n.Image, CPUs: n.machine.Facts.CPUs, MemoryMiB: n.machine.Facts.MemoryMiB, File: file,
		Disk: n.Disk, ServesHome: n.Role == protocol.Head && n.beyond, KeepsState: n.Role == protocol.Head,
		Allocation: n.machine.Allocation, Keys: n.keys,
	}
	if n.machine.Allocation != nil && n.VM != nil {
		described.Asked = host.Asked(*n.VM, n.machine.Allocation.Share)
	}
	return described
}

// seats are as many as a cluster's nodes may be at once, with its head. Names that a cluster no longer has may keep theirs: who
// is seated beyond is told to agents.
func seats(c spec.Cluster) int {
	n := 1
	for _, q := range c.Queues {
		n += *q.Max
	}
	return n
}

func (w Handlers) nodeAttachLate(n nodeView) core.Outcome {
	return n.late("its network was not ready", w.provider(n).Limits.Attach)
}

func (w Handlers) nodeBootLate(n nodeView) core.Outcome {
	if n.leaving() {
		return n.inform(core.Releasing, "no longer wanted")
	}
	if n.Sleeps {
		return n.late("it was not resumed", w.provider(n).Limits.Move)
	}
	what := "its agent did not answer"
	if n.onItsWay != nil && n.onItsWay.Detail != "" {
		what = fmt.Sprintf("machine %s gave no sign of life after this: %s", n.machine.Name, n.onItsWay.Detail)
	}
	return n.bootAgain(fmt.Sprintf("%s within %s", what, w.provider(n).Limits.Boot))
}

// bootAgain tries once more on the same machine, then gives the machine up.
func (n nodeView) bootAgain(why string) core.Outcome {
	if n.Boot-n.JoinedBoot >= bootTries {
		return n.fail("%s", why).Because(life.CauseBoot)
	}
	return n.next(node.Attaching, "%s; boots once more", why)
}

// nodeJoin waits until the node's daemons run, but for those that wait for the node's test.
func (w Handlers) nodeJoin(_ context.Context, n nodeView) core.Outcome {
	switch {
	case n.leaving():
		return n.inform(core.Releasing, "no longer wanted")
	case !n.Seen.Healthy(n.Boot, n.laterChecks()...), n.Seen.Fails(n.Boot) != "":
		return core.WaitFor(nodeLooks, "waits for %s", n.unwell())
	}
	if waits := n.awaitsPorts(); waits != "" {
		return core.WaitFor(nodeLooks, "%s", waits)
	}
	return n.next(node.Testing, "its services run")
}

// unwell names the checks that have not passed.
func (n nodeView) unwell() string {
	var bad []string
	if n.Seen.Boot == n.Boot {
		for _, c := range n.Seen.Checks {
			if !c.OK && (n.Phase != node.Joining || !slices.Contains(n.laterChecks(), c.Name)) {
				bad = append(bad, strings.TrimSuffix(c.Name+": "+c.Text, ": "))
			}
		}
	}
	if len(bad) == 0 {
		return "its first report"
	}
	return strings.Join(bad, "; ")
}

func (w Handlers) nodeJoinLate(n nodeView) core.Outcome {
	return n.late("it did not join", w.provider(n).Limits.Join)
}

func (w Handlers) nodeTestLate(n nodeView) core.Outcome {
	return n.late("it did not pass its test", w.provider(n).Limits.Test)
}

func (w Handlers) nodeReady(ctx context.Context, n nodeView) core.Outcome {
	switch {
	case n.cluster.Desired == core.ToDelete:
		return n.next(core.Releasing, "its cluster is deleted")
	case n.machine.Moves != nil: // until that has come to its end, it is not known where it is
		return w.move(ctx, n)
	case n.Desired == node.Absent && n.Role == protocol.Compute:
		return n.inform(node.Draining, "%s", n.scheduler.Words.Leaves)
	case n.Desired == node.Absent && n.cluster.Phase == cluster.Pausing: // even if the cluster is to run again after it
		return n.inform(node.Draining, "%s", n.scheduler.Words.HeadLeaves)
	case n.Desired == node.Absent:
		return n.inform(core.Releasing, "no longer wanted")
	case n.Renew:
		return n.renew()
	case n.Role == protocol.Compute && n.Seen.Scheduler.Rebooting():
		return n.reboot()
	}
	if n.startedAnew() {
		return n.rebootAfter("has restarted")
	}
	seen, err := w.provider(n).Substrate.Observe(ctx, n.ref())
	switch {
	case err != nil:
		return core.Retry(err)
	case !seen.Running && seen.Boot == n.Boot && w.provider(n).Caps.Power:
		return n.rebootAfter("has lost its power")
	case !seen.Running || seen.Boot != n.Boot:
		return n.stopped(seen)
	case n.host.Drains:
		return w.leaveHost(ctx, n)
	}
	looks := core.WaitFor(readyLooks, "cpu %s, memory %s", seen.Limits.CPU, seen.Limits.Memory)
	return w.settleAllocation(ctx, n, seen, w.noteTest(n, looks))
}

// rebootAfter is for a whole machine that was ready and is not where it was. After a power cut, to boot it again costs less
// than to replace it, and what is on its disk is still there.
func (n nodeView) rebootAfter(what string) core.Outcome {
	return n.inform(node.Attaching, "machine %s %s; it boots again as the same node", n.machine.Name, what)
}

// mute is how long an agent that speaks every few seconds may say nothing before its machine is believed to be at
// something else, if it asks what to boot.
const mute = 20 * time.Second

// startedAnew says that the node's machine asks what to boot and its agent is silent: somebody pressed a button, or the
// kernel gave up. The question alone proves nothing, as anybody on the network can ask it.
func (n nodeView) startedAnew() bool {
	return n.onItsWay != nil && n.onItsWay.Detail == machine.AskedAgain && n.now.Sub(n.Seen.At) > mute
}

// nodeDrain waits until the scheduler has the node drained and without jobs. At the user's limit the jobs are ended, and after a
// grace the node goes in any case.
func (w Handlers) nodeDrain(ctx context.Context, n nodeView) core.Outcome {
	s := n.Seen.Scheduler
	over := !n.DrainUntil.IsZero() && n.now.After(n.DrainUntil)
	switch {
	case n.cluster.Desired == core.ToDelete:
		return n.next(core.Releasing, "its cluster is deleted")
	case n.Role == protocol.Head:
		return w.headHalts(n)
	case n.Desired == core.Present && !n.Renew:
		return n.inform(core.Ready, "it stays")
	case !n.scheduler.Caps.Jobs:
		return n.drained("this cluster has no scheduler that knows its jobs")
	case s == nil:
		return n.drained(n.scheduler.Title + " does not know it")
	case s.Drained():
		return n.drained("drained")
	case over && n.now.After(n.DrainUntil.Add(w.provider(n).Limits.KillGrace)):
		return n.drained("its jobs did not end at the drain limit")
	case over && !strings.HasPrefix(n.Reason, drainOver):
		return core.WaitFor(nodeLooks, "%s %s", drainOver, words.Count(s.Jobs, "job")).
			With(func(ctx context.Context, tx *core.Tx) error { return cluster.Inform(ctx, tx, n.Cluster) })
	case over:
		return core.WaitFor(nodeLooks, "%s %s", drainOver, words.Count(s.Jobs, "job"))
	}
	seen, err := w.provider(n).Substrate.Observe(ctx, n.ref())
	if err != nil {
		return core.Retry(err)
	}
	switch {
	case !seen.Running && n.Desired == core.Present && n.Whole:
		return n.rebootAfter("has lost its power while it drained")
	case !seen.Running && n.Desired == core.Present:
		return n.fail("it stopped while it drained: %s", brief(seen.Detail)).Because(life.CauseStopped)
	case !seen.Running:
		return n.inform(core.Releasing, "it stopped while it drained: %s", brief(seen.Detail))
	}
	text := words.Count(s.Jobs, "job") + " to end"
	look := readyLooks
	if !n.DrainUntil.IsZero() {
		text += ", until " + n.DrainUntil.Format("15:04:05") + " UTC"
		look = min(look, n.DrainUntil.Sub(n.now)+time.Millisecond)
	}
	return core.WaitFor(look, "%s", text)
}

// brief cuts what a driver says, which may be a line of a console, to what fits into a table.
func brief(detail string) string {
	const longest = 100
	return printable.Cut(detail, longest)
}

const drainOver = "the drain limit is over: ends"
