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

	"muster/internal/drivers/substrate"
)

// Harness is one driver, fresh for each test, with what the contract cannot do through the interfaces.
type Harness struct {
	Caps      substrate.Capabilities // that the driver says it has
	Substrate substrate.Substrate
	Shared    substrate.Shared    // nil: the driver's nodes have no shared parts of its own
	Keep      substrate.Snapshots // nil: nothing outlives the driver's nodes
	Sleeper   substrate.Sleeper   // nil: the driver's nodes do not sleep
	Mover     substrate.Mover     // nil: the driver's nodes do not move
	Image     string              // a digest that nodes can boot
	// Crash ends the node's first process behind the driver's back.
	Crash func(*testing.T, substrate.Ref)
	// HalfMake leaves what a controller leaves that was killed in the middle of Ensure.
	HalfMake func(*testing.T, substrate.Node)
	// Write makes something the content of a cluster's /home and state, and Read reads it.
	Write func(t *testing.T, cluster, content string)
	Read  func(t *testing.T, cluster string) string
}

// node describes the number-th node of a cluster; the same numbers give the same names and addresses in every cluster.
func (h Harness) node(cluster string, number byte, boot int64) substrate.Node {
	return substrate.Node{
		Ref:  substrate.Ref{Cluster: cluster, Node: fmt.Sprintf("%s-node-%d", cluster, number), Boot: boot},
		Name: fmt.Sprintf("n%d", number), Machine: fmt.Sprintf("m%s%d", cluster, number),
		Address: substrate.Address(256 + int(number)), MAC: substrate.MAC(network.Segment, 256+int(number)), Image: h.Image,
	}
}

// network is that of every cluster here; none reaches beyond its host.
var network = substrate.Network{Segment: 1}

// Test runs the contract. harness is called once for each of its parts.
func Test(t *testing.T, harness func(*testing.T) Harness) {
	run := func(name string, part func(*testing.T, Harness)) {
		t.Run(name, func(t *testing.T) {
			h := harness(t)
			if h.Shared == nil {
				h.Shared = noShared{}
			}
			t.Cleanup(func() { h.sweep(t) })
			part(t, h)
		})
	}
	for _, part := range []part{
		{"nothing is there at first", nothingAtFirst},
		{"Ensure makes a node run once", ensureIsIdempotent},
		{"Ensure replaces an older boot", ensureReplaces},
		{"Ensure refuses an older boot", ensureRefusesStale},
		{"Ensure refuses an older boot after the newer one was removed", staleAfterRemove},
		{"Ensure revives a node whose process died", ensureRevives},
		{"Ensure finishes a half-made boot", ensureFinishes},
		{"Ensure replaces a half-made older boot", ensureReplacesHalfMade},
		{"many Ensures at the same time", ensureInParallel},
		{"many Ensures of one node at the same time", ensureOneInParallel},
		{"Observe and List tell of a dead node", deadIsPresent},
		{"Remove takes a node away once", removeIsIdempotent},
		{"Remove takes a half-made node away", removeHalfMade},
		{"Remove of an older boot leaves the node alone", removeOlder},
		{"Remove with boot 0 forgets the boots", removeForgets},
	} {
		run(part.name, part.run)
	}
	run("it can what it says and no more", capable)
	if harness(t).Caps.Sleeps {
		run("a node sleeps and wakes", sleepsAndWakes)
		run("what is not there neither sleeps nor wakes", whatIsNotThere)
	}
	if harness(t).Shared == nil {
		return
	}
	for _, part := range []part{
		{"Ensure needs the shared parts", ensureNeedsShared},
		{"shared parts live from Ensure to Remove", sharedLife},
		{"shared parts stay while a node is there", sharedStays},
		{"clusters with the same names and addresses", twoClusters},
	} {
		run(part.name, part.run)
	}
	if harness(t).Keep == nil {
		return
	}
	for _, part := range []part{
		{"what a cluster holds outlives its nodes", keptOverNodes},
		{"a snapshot is made once and restored often", savedOnce},
		{"a copy that is called off leaves nothing", copyCalledOff},
	} {
		run(part.name, func(t *testing.T, h Harness) {
			t.Cleanup(func() { h.dropAll(t) })
			part.run(t, h)
		})
	}
}

// part is one promise.
type part struct {
	name string
	run  func(*testing.T, Harness)
}

// noShared is nothing, for drivers whose nodes share nothing that the driver makes.
type noShared struct{}

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
	clusters, err := h.Shared.ListShared(ctx)
	must(t, err)
	for _, cluster := range clusters {
		must(t, h.Shared.RemoveShared(ctx, cluster))
	}
	refs, err = h.Substrate.List(ctx)
	must(t, err)
	clusters, err = h.Shared.ListShared(ctx)
	must(t, err)
	if len(refs)+len(clusters) > 0 {
		t.Errorf("left at the end: %v %v", refs, clusters)
	}
}

func nothingAtFirst(t *testing.T, h Harness) {
	h.wantAbsent(t, h.node("c1", 1, 1).Ref)
	h.wantList(t)
	must(t, h.Substrate.Remove(t.Context(), h.node("c1", 1, 1).Ref))
	must(t, h.Shared.RemoveShared(t.Context(), "c1"))
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
	must(t, h.Shared.EnsureShared(t.Context(), "c1", network))
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
	must(t, h.Shared.EnsureShared(t.Context(), "c1", network))
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
		must(t, h.Shared.EnsureShared(t.Context(), "c1", network))
		h.wantShared(t, "c1")
	}
	must(t, h.Shared.EnsureShared(t.Context(), "c2", network))
	h.wantShared(t, "c1", "c2")
	for range 2 {
		must(t, h.Shared.RemoveShared(t.Context(), "c1"))
		h.wantShared(t, "c2")
	}
	if _, err := h.Shared.Dial(t.Context(), "c1", netip.MustParseAddrPort("10.77.1.1:22")); err == nil {
		t.Error("a connection into a network that is gone")
	}
}

func sharedStays(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	must(t, h.Shared.EnsureShared(t.Context(), "c1", network))
	if err := h.Shared.RemoveShared(t.Context(), "c1"); err == nil {
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
	must(t, h.Shared.RemoveShared(t.Context(), "c1"))
	h.wantRunning(t, b.Ref)
	h.wantShared(t, "c2")
}
