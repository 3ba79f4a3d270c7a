package hosting

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/fake"
	"muster/internal/hostd/calls"
	"muster/internal/inventory"
)

// onPaper are the guests of the controller's host.
type onPaper struct{ *fake.Substrate }

func (onPaper) Emulates() bool { return true }
func (onPaper) Inspect(context.Context, substrate.Inspection) (substrate.Inspected, error) {
	return substrate.Inspected{Done: true}, nil
}
func (onPaper) EnsureOff(context.Context, inventory.Machine) (string, error) { return "", nil }

// introductions are those at gateways.
type introductions struct {
	calls.Host
	of *[]netip.Addr
}

func (i introductions) Introduce(_ context.Context, _ string, address netip.Addr) error {
	*i.of = append(*i.of, address)
	return nil
}

func TestGuestsAreAskedForWhereTheyAre(t *testing.T) {
	s, here, there := newFixture(t), fake.New(fake.Options{}), fake.New(fake.Options{})
	s.start(there)
	var introduced []netip.Addr
	g := Hosts{onPaper{here}, remoteHosts{s.driver, nil, s.db}, "box-hv", introductions{of: &introduced}}
	ctx, own, away := t.Context(), s.node(9, 1), s.node(2, 1) // no row has the first: its machine is no other host's
	if err := here.EnsureShared(ctx, own.Cluster, substrate.Network{Segment: 1}); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		substrate.Node
		host string
		on   *fake.Substrate
	}{{own, "box-hv", here}, {away, "hv", there}} {
		if err := g.Ensure(ctx, of.Node); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Sleep(ctx, of.Ref, of.host); err != nil {
			t.Fatal(err)
		}
		if err := g.Wake(ctx, of.Node, of.host); err != nil {
			t.Fatal(err)
		}
		if seen, err := g.Observe(ctx, of.Ref); err != nil || !seen.Running {
			t.Errorf("at %s it is %+v: %v", of.host, seen, err)
		}
		if refs, err := of.on.List(ctx); err != nil || !slices.Equal(refs, []substrate.Ref{of.Ref}) {
			t.Errorf("at %s are %v: %v", of.host, refs, err)
		}
	}
	if refs, err := g.List(ctx); err != nil || !slices.Equal(refs, []substrate.Ref{own.Ref, away.Ref}) {
		t.Errorf("in all there are %v: %v", refs, err)
	}
	if to := away.Address.Addr(); !slices.Equal(introduced, []netip.Addr{to, to}) {
		t.Errorf("when one was made and woken elsewhere, %v were introduced", introduced)
	}
	if g.Reaches("box-hv") || !g.Reaches("hv") || !g.CanSuspend("box-hv") || !g.CanSuspend("hv") || !g.Emulates() {
		t.Error("it says of hosts what they are not")
	}
	for _, r := range []substrate.Ref{own.Ref, away.Ref} {
		if err := g.Remove(ctx, r); err != nil {
			t.Error(err)
		}
	}
	if refs, err := g.List(ctx); err != nil || len(refs) > 0 {
		t.Errorf("left are %v: %v", refs, err)
	}
}
