package substratetest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"muster/internal/drivers/substrate"
)

// running gives the cluster its shared parts and makes a node of it run.
func (h Harness) running(t *testing.T, cluster string, number byte, boot int64) substrate.Node {
	t.Helper()
	n := h.node(cluster, number, boot)
	must(t, h.shared().EnsureShared(t.Context(), cluster, network))
	must(t, h.Substrate.Ensure(t.Context(), n))
	h.wantRunning(t, n.Ref)
	return n
}

// halfMade gives c1 its shared parts and leaves its first node half-made.
func (h Harness) halfMade(t *testing.T, boot int64) substrate.Node {
	t.Helper()
	n := h.node("c1", 1, boot)
	must(t, h.shared().EnsureShared(t.Context(), "c1", network))
	h.HalfMake(t, n)
	return n
}

func (h Harness) observe(t *testing.T, r substrate.Ref) substrate.Observation {
	t.Helper()
	seen, err := h.Substrate.Observe(t.Context(), r)
	must(t, err)
	return seen
}

func (h Harness) wantRunning(t *testing.T, r substrate.Ref) {
	t.Helper()
	if seen := h.observe(t, r); !seen.Present || !seen.Running || seen.Boot != r.Boot || seen.Limits == (substrate.Limits{}) {
		t.Fatalf("%v should run and have limits; observed %+v", r, seen)
	}
}

func (h Harness) wantDead(t *testing.T, r substrate.Ref) {
	t.Helper()
	if seen := h.observe(t, r); !seen.Present || seen.Running || seen.Boot != r.Boot || seen.Detail == "" {
		t.Fatalf("%v should be present, not running, and say why; observed %+v", r, seen)
	}
}

func (h Harness) wantAbsent(t *testing.T, r substrate.Ref) {
	t.Helper()
	if seen := h.observe(t, r); seen != (substrate.Observation{}) {
		t.Fatalf("%v should be gone; observed %+v", r, seen)
	}
}

func (h Harness) wantStale(t *testing.T, n substrate.Node) {
	t.Helper()
	if err := h.Substrate.Ensure(t.Context(), n); !errors.Is(err, substrate.ErrStale) {
		t.Fatalf("Ensure of %v should be stale; got %v", n.Ref, err)
	}
}

func (h Harness) wantList(t *testing.T, want ...substrate.Ref) {
	t.Helper()
	got, err := h.Substrate.List(t.Context())
	must(t, err)
	order := func(a, b substrate.Ref) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Boot, b.Boot))
	}
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !slices.Equal(got, want) {
		t.Fatalf("List gave %v, want %v", got, want)
	}
}

func (h Harness) wantShared(t *testing.T, want ...string) {
	t.Helper()
	got, err := h.shared().ListShared(t.Context())
	must(t, err)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("ListShared gave %q, want %q", got, want)
	}
}

// must reports an error; it may be called from any goroutine.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// fresh is for cleaning up after the test's own context has ended.
func fresh() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}
