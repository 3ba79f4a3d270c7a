// Package substratetest is the contract of substrate drivers as a test that every one of them passes, the fake and the
// real ones alike.
//
// What enters: a Harness of a driver with nothing on it. What leaves: failures that name the broken promise.
package substratetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"

	"muster/internal/drivers/drivertest"
	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/place"
)

// Harness is one driver, fresh for each test, with what the contract cannot do through the interfaces. What a driver has, and the
// contract has no way to try, is a failure: its functions below are nil only where nothing asks for them.
type Harness struct {
	Caps             substrate.Capabilities // that the driver says it has
	Substrate        substrate.Substrate
	Shared           substrate.Shared    // nil: the driver's nodes have no shared parts of its own
	Keep             substrate.Snapshots // nil: nothing outlives the driver's nodes
	Sleeper          substrate.Sleeper   // nil: the driver's nodes do not sleep
	Mover            substrate.Mover     // nil: the driver's nodes do not move
	Inspector        substrate.Inspector // what the driver is when a site has opened it; nil: it is none there
	HypervisorBooter substrate.HypervisorBooter
	Caller           substrate.Caller
	Emulator         substrate.Emulator
	Worker           substrate.Worker

	Image string // a digest that nodes can boot
	// Allocation is what the number-th node is to have of its host, if it is a guest; nil: they are none.
	Allocation func(number byte) *place.Allocation
	// Crash ends the node's first process behind the driver's back.
	Crash func(*testing.T, substrate.Ref)
	// HalfMake leaves what a controller leaves that was killed in the middle of Ensure.
	HalfMake func(*testing.T, substrate.Node)
	// Write makes something the content of a cluster's /home and state, and Read reads it.
	Write func(t *testing.T, cluster, content string)
	Read  func(t *testing.T, cluster string) string
	// Kernel is the image whose kernel the node's machine has started.
	Kernel func(*testing.T, substrate.Ref) string
	// CPUs names those that the node's tasks run on, of all machines there are.
	CPUs func(*testing.T, substrate.Ref) []string
	// Process is the node's first process, by its number on this host.
	Process func(*testing.T, substrate.Ref) int
	// Powered says that the node's machine has power.
	Powered func(*testing.T, substrate.Ref) bool
	// At is what sees the nodes of a host, where those that move are seen by one each; nil: Substrate sees all.
	At func(host string) substrate.Substrate
	// Agent plays the agent of a machine that has booted for its own sake: it tells what it finds.
	Agent func(*testing.T, inventory.Machine)
	// Answers is a port where nodes answer connections from their cluster's network.
	Answers uint16
	// Room is how many bytes a cluster's /home may hold; nil: nothing limits it.
	Room func(t *testing.T, cluster string) int64
	// Untried is why something cannot be tried where the test runs; see drivertest.Run.
	Untried map[string]string
}

// node describes the number-th node of a cluster; the same numbers give the same names and addresses in every cluster.
func (h Harness) node(cluster string, number byte, boot int64) substrate.Node {
	n := substrate.Node{
		Ref:  substrate.Ref{Cluster: cluster, Node: fmt.Sprintf("%s-node-%d", cluster, number), Boot: boot},
		Name: fmt.Sprintf("n%d", number), Machine: fmt.Sprintf("m%s%d", cluster, number),
		Address: substrate.Address(256 + int(number)), MAC: substrate.MAC(network.Segment, 256+int(number)), Image: h.Image,
	}
	if h.Allocation != nil {
		n.Allocation = h.Allocation(number)
		n.Allocation.Guest = n.Node
	}
	return n
}

// network is that of every cluster here; none reaches beyond its host.
var network = substrate.Network{Segment: 1}

// Test runs the contract. harness is called once for each of its parts.
func Test(t *testing.T, harness func(*testing.T) Harness) {
	drivertest.Run(t, parts(), func(t *testing.T) Harness {
		h := harness(t)
		if h.Keep != nil {
			t.Cleanup(func() { h.dropAll(t) })
		}
		t.Cleanup(func() { h.sweep(t) })
		return h
	}, harness(t).Untried)
}

// parts are the promises, and which capabilities and methods each of them tries.
func parts() []drivertest.Part[Harness] {
	const ensure, observe, remove, list = "Substrate.Ensure", "Substrate.Observe", "Substrate.Remove", "Substrate.List"
	const sleeps, kept = "Capabilities.Sleeps", "Capabilities.KeepsHead"
	part := func(name string, run func(*testing.T, Harness), tries ...string) drivertest.Part[Harness] {
		return drivertest.Part[Harness]{Name: name, Tries: tries, Run: run}
	}
	return []drivertest.Part[Harness]{
		part("nothing is there at first", nothingAtFirst, observe, remove, list),
		part("Ensure makes a node run once", ensureIsIdempotent, ensure, observe, list),
		part("Ensure replaces an older boot", ensureReplaces, ensure, remove),
		part("Ensure refuses an older boot", ensureRefusesStale, ensure),
		part("Ensure refuses an older boot after the newer one was removed", staleAfterRemove, ensure),
		part("Ensure revives a node whose process died", ensureRevives, ensure),
		part("Ensure finishes a half-made boot", ensureFinishes, ensure),
		part("Ensure replaces a half-made older boot", ensureReplacesHalfMade, ensure),
		part("many Ensures at the same time", ensureInParallel, ensure),
		part("many Ensures of one node at the same time", ensureOneInParallel, ensure),
		part("Observe and List tell of a dead node", deadIsPresent, observe, list),
		part("Remove takes a node away once", removeIsIdempotent, remove),
		part("Remove takes a half-made node away", removeHalfMade, remove),
		part("Remove of an older boot leaves the node alone", removeOlder, remove),
		part("Remove with boot 0 forgets the boots", removeForgets, remove),
		part("it can what it says and no more", capable),
		part("a node boots the kernel of its image", bootsItsKernel, "Capabilities.Kernel"),
		part("no two nodes run on one CPU", hasItsCPUs, "Capabilities.OwnCPUs"),
		part("a node has all of its machine", hasItsMachine, "Capabilities.WholeMachine"),
		part("a node has a part of its host as long as it runs", hasItsPart, "Capabilities.Guest"),
		part("a node runs on this host and calls from there", runsHere, "Capabilities.OnHost", "Caller.Endpoints"),
		part("agents are told where they call", saysWhere, "Caller.Endpoints"),
		part("a node that stopped has no power and starts again", losesItsPower, "Capabilities.Power"),
		part("a machine is inspected and rests", inspects, "Inspector.Inspect", "Inspector.EnsureOff"),
		part("each machine that is enrolled is inspected", inspectsEach, "Capabilities.Enrols", "Inspector.Inspect"),
		part("a machine becomes a hypervisor and ends", keepsHosts, "HypervisorBooter.Host", "HypervisorBooter.End"),
		part("whether it emulates is always the same", emulates, "Emulator.Emulates"),
		part("its work ends with its context", works, "Worker.Work"),
		part("plans have times", takesTime, "Capabilities.Turnaround"),
		part("plans have times to start", takesTime, "Capabilities.Lead"),
		part("a node sleeps and wakes", sleepsAndWakes, sleeps, "Sleeper.CanSuspend", "Sleeper.Sleep", "Sleeper.Wake"),
		part("what is not there neither sleeps nor wakes", whatIsNotThere, sleeps, "Sleeper.Sleep", "Sleeper.Wake"),
		part("a boot that was replaced asleep is lost", replacedAsleep, sleeps, "Sleeper.Wake"),
		part("a node that was removed asleep is lost", removedAsleep, sleeps, "Sleeper.Wake"),
		part("nodes that do not sleep stay awake", staysAwake, "Sleeper.CanSuspend", "Sleeper.Sleep", "Sleeper.Wake"),
		part("a node moves there and back", moves, "Capabilities.Moves", "Mover.Reaches", "Mover.Move", "Mover.Forget"),
		part("a node that died does not move", deadStays, "Capabilities.Moves", "Mover.Move"),
		part("nodes that do not move stay", stays, "Mover.Reaches", "Mover.Move", "Mover.Forget"),
		part("Ensure needs the shared parts", ensureNeedsShared, "Shared.EnsureShared"),
		part("shared parts live from Ensure to Remove", sharedLife, "Shared.EnsureShared", "Shared.RemoveShared",
			"Shared.ListShared"),
		part("shared parts stay while a node is there", sharedStays, "Shared.RemoveShared"),
		part("clusters with the same names and addresses", twoClusters, "Shared.EnsureShared"),
		part("a network needs its number", segmentsAreNumbers, "Shared.EnsureShared"),
		part("a connection reaches a node of its cluster alone", dials, "Shared.Dial"),
		part("/home grows and never shrinks", growsHome, "Shared.GrowHome"),
		part("what a cluster holds outlives its nodes", keptOverNodes, kept, "Snapshots.Size"),
		part("a snapshot is made once and restored often", savedOnce, kept, "Snapshots.Save", "Snapshots.Restore",
			"Snapshots.Drop", "Snapshots.Snapshots"),
		part("a copy that is called off leaves nothing", copyCalledOff, kept, "Snapshots.Save", "Snapshots.Restore"),
	}
}

// noShared is nothing, for drivers whose nodes share nothing that the driver makes.
type noShared struct{}

func (h Harness) shared() substrate.Shared {
	if h.Shared == nil {
		return noShared{}
	}
	return h.Shared
}

func (noShared) EnsureShared(context.Context, string, substrate.Network) error { return nil }
func (noShared) GrowHome(context.Context, string, int64) error                 { return nil }
func (noShared) RemoveShared(context.Context, string) error                    { return nil }
func (noShared) ListShared(context.Context) ([]string, error)                  { return nil, nil }
func (noShared) Dial(context.Context, string, netip.AddrPort) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

// sweep ends each part as a cluster ends: nodes, then shared parts, then nothing is listed.
func (h Harness) sweep(t *testing.T) {
	ctx, cancel := fresh()
	defer cancel()
	refs, err := h.Substrate.List(ctx)
	must(t, err)
	for _, r := range refs {
		r.Boot = 0
		must(t, h.Substrate.Remove(ctx, r))
	}
	clusters, err := h.shared().ListShared(ctx)
	must(t, err)
	for _, cluster := range clusters {
		must(t, h.shared().RemoveShared(ctx, cluster))
	}
	refs, err = h.Substrate.List(ctx)
	must(t, err)
	clusters, err = h.shared().ListShared(ctx)
	must(t, err)
	if len(refs)+len(clusters) > 0 {
		t.Errorf("left at the end: %v %v", refs, clusters)
	}
}

func nothingAtFirst(t *testing.T, h Harness) {
	h.wantAbsent(t, h.node("c1", 1, 1).Ref)
	h.wantList(t)
	must(t, h.Substrate.Remove(t.Context(), h.node("c1", 1, 1).Ref))
	must(t, h.shared().RemoveShared(t.Context(), "c1"))
	h.wantShared(t)
}

func ensureIsIdempotent(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	for range 2 {
		must(t, h.Substrate.Ensure(t.Context(), n))
		h.wantRunning(t, n.Ref)
	}
	h.wantList(t, n.Ref)
}

func ensureNeedsShared(t *testing.T, h Harness) {
	n := h.node("c1", 1, 1)
	if err := h.Substrate.Ensure(t.Context(), n); err == nil {
		t.Fatal("a node started without its cluster's shared parts")
	}
	must(t, h.Substrate.Remove(t.Context(), n.Ref))
	h.wantAbsent(t, n.Ref)
}

func ensureReplaces(t *testing.T, h Harness) {
	old := h.running(t, "c1", 1, 9)
	n := h.node("c1", 1, 10)
	must(t, h.Substrate.Ensure(t.Context(), n))
	h.wantRunning(t, n.Ref)
	h.wantList(t, n.Ref)
	must(t, h.Substrate.Remove(t.Context(), old.Ref))
	h.wantRunning(t, n.Ref)
}

func ensureRefusesStale(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 7)
	h.wantStale(t, h.node("c1", 1, 6))
	h.wantRunning(t, n.Ref)
}

func staleAfterRemove(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 7)
	must(t, h.Substrate.Remove(t.Context(), n.Ref))
	h.wantAbsent(t, n.Ref)
	h.wantList(t)
	h.wantStale(t, h.node("c1", 1, 6))
	h.wantAbsent(t, n.Ref)
}

func ensureRevives(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	h.Crash(t, n.Ref)
	h.wantDead(t, n.Ref)
	must(t, h.Substrate.Ensure(t.Context(), n))
	h.wantRunning(t, n.Ref)
}

func ensureFinishes(t *testing.T, h Harness) {
	n := h.halfMade(t, 1)
	must(t, h.Substrate.Ensure(t.Context(), n))
	h.wantRunning(t, n.Ref)
	h.wantList(t, n.Ref)
}

func ensureReplacesHalfMade(t *testing.T, h Harness) {
	h.halfMade(t, 1)
	n := h.node("c1", 1, 2)
	must(t, h.Substrate.Ensure(t.Context(), n))
	h.wantRunning(t, n.Ref)
	h.wantList(t, n.Ref)
}

func ensureInParallel(t *testing.T, h Harness) {
	must(t, h.shared().EnsureShared(t.Context(), "c1", network))
	var refs []substrate.Ref
	var all sync.WaitGroup
	for i := range byte(8) {
		n := h.node("c1", i+1, 1)
		refs = append(refs, n.Ref)
		all.Go(func() { must(t, h.Substrate.Ensure(t.Context(), n)) })
	}
	all.Wait()
	for _, r := range refs {
		h.wantRunning(t, r)
	}
	h.wantList(t, refs...)
	for _, r := range refs {
		all.Go(func() { must(t, h.Substrate.Remove(t.Context(), r)) })
	}
	all.Wait()
	h.wantList(t)
}

func ensureOneInParallel(t *testing.T, h Harness) {
	must(t, h.shared().EnsureShared(t.Context(), "c1", network))
	var all sync.WaitGroup
	for boot := range int64(6) {
		all.Go(func() {
			err := h.Substrate.Ensure(t.Context(), h.node("c1", 1, boot/2+1))
			if err != nil && !errors.Is(err, substrate.ErrStale) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	h.wantRunning(t, h.node("c1", 1, 3).Ref)
	h.wantList(t, h.node("c1", 1, 3).Ref)
}

func deadIsPresent(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	h.Crash(t, n.Ref)
	h.wantDead(t, n.Ref)
	h.wantList(t, n.Ref)
}

func removeIsIdempotent(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	other := h.running(t, "c1", 2, 1)
	for range 2 {
		must(t, h.Substrate.Remove(t.Context(), n.Ref))
		h.wantAbsent(t, n.Ref)
	}
	h.wantRunning(t, other.Ref)
	h.wantList(t, other.Ref)
}

func removeHalfMade(t *testing.T, h Harness) {
	n := h.halfMade(t, 1)
	h.wantDead(t, n.Ref)
	h.wantList(t, n.Ref)
	must(t, h.Substrate.Remove(t.Context(), n.Ref))
	h.wantAbsent(t, n.Ref)
	h.wantList(t)
}

func removeOlder(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 5)
	must(t, h.Substrate.Remove(t.Context(), h.node("c1", 1, 4).Ref))
	h.wantRunning(t, n.Ref)
}

func removeForgets(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 5)
	r := n.Ref
	r.Boot = 0
	must(t, h.Substrate.Remove(t.Context(), r))
	h.wantAbsent(t, n.Ref)
	n.Boot = 1
	must(t, h.Substrate.Ensure(t.Context(), n))
	h.wantRunning(t, n.Ref)
}

func sharedLife(t *testing.T, h Harness) {
	for range 2 {
		must(t, h.shared().EnsureShared(t.Context(), "c1", network))
		h.wantShared(t, "c1")
	}
	must(t, h.shared().EnsureShared(t.Context(), "c2", network))
	h.wantShared(t, "c1", "c2")
	for range 2 {
		must(t, h.shared().RemoveShared(t.Context(), "c1"))
		h.wantShared(t, "c2")
	}
	if _, err := h.shared().Dial(t.Context(), "c1", netip.MustParseAddrPort("10.77.1.1:22")); err == nil {
		t.Error("a connection into a network that is gone")
	}
}

func sharedStays(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	must(t, h.shared().EnsureShared(t.Context(), "c1", network))
	if err := h.shared().RemoveShared(t.Context(), "c1"); err == nil {
		t.Error("shared parts were removed under a node")
	}
	h.wantRunning(t, n.Ref)
	h.wantShared(t, "c1")
}

func twoClusters(t *testing.T, h Harness) {
	a, b := h.running(t, "c1", 1, 1), h.running(t, "c2", 1, 1)
	h.wantList(t, a.Ref, b.Ref)
	must(t, h.Substrate.Remove(t.Context(), a.Ref))
	h.wantAbsent(t, a.Ref)
	h.wantRunning(t, b.Ref)
	must(t, h.shared().RemoveShared(t.Context(), "c1"))
	h.wantRunning(t, b.Ref)
	h.wantShared(t, "c2")
}
