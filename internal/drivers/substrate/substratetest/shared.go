package substratetest

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"muster/internal/drivers/substrate"
)

func segmentsAreNumbers(t *testing.T, h Harness) {
	for _, number := range []int{-1, 0, substrate.MaxSegment + 1} {
		if err := h.Shared.EnsureShared(t.Context(), "c1", substrate.Network{Segment: number}); err == nil {
			t.Errorf("a cluster's network has number %d", number)
		}
	}
	h.wantShared(t)
	must(t, h.Shared.EnsureShared(t.Context(), "c1", substrate.Network{Segment: substrate.MaxSegment}))
	h.wantShared(t, "c1")
}

// dials reaches a node by its address from its own cluster's network, and does not from another's.
func dials(t *testing.T, h Harness) {
	n := h.running(t, "c1", 1, 1)
	h.running(t, "c2", 2, 1)
	to := netip.AddrPortFrom(n.Address.Addr(), h.Answers)
	dial := func(cluster string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		connection, err := h.Shared.Dial(ctx, cluster, to)
		if err == nil {
			err = connection.Close()
		}
		return err
	}
	for end := time.Now().Add(time.Minute); ; {
		err := dial("c1", time.Second)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("a node that answers is not reached: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := dial("c2", 200*time.Millisecond); err == nil {
		t.Error("a node is reached from another cluster's network")
	}
}

func growsHome(t *testing.T, h Harness) {
	const large, less = 512 << 20, 256 << 20
	must(t, h.Shared.GrowHome(t.Context(), "c1", large))
	h.wantShared(t) // there is none yet, and none was made
	must(t, h.Shared.EnsureShared(t.Context(), "c1", substrate.Network{Segment: network.Segment, Home: less}))
	before := h.room(t, "c1")
	for range 2 {
		must(t, h.Shared.GrowHome(t.Context(), "c1", large))
	}
	grown := h.room(t, "c1")
	must(t, h.Shared.GrowHome(t.Context(), "c1", less))
	if after := h.room(t, "c1"); after < grown || grown < before || h.Room != nil && grown <= before {
		t.Errorf("/home held %d bytes, then %d, then %d", before, grown, after)
	}
}

func (h Harness) room(t *testing.T, cluster string) int64 {
	if h.Room == nil {
		return 0
	}
	return h.Room(t, cluster)
}
