package substratetest

import (
	"errors"
	"slices"
	"testing"
)

// whatever is progress that is not looked at.
func whatever(int64) error { return nil }

func (h Harness) wantSnapshots(t *testing.T, want ...string) {
	t.Helper()
	got, err := h.Keep.Snapshots(t.Context())
	must(t, err)
	if !slices.Equal(got, want) {
		t.Fatalf("Snapshots gave %q, want %q", got, want)
	}
}

func (h Harness) wantContent(t *testing.T, cluster, want string) {
	t.Helper()
	if got := h.Read(t, cluster); got != want {
		t.Fatalf("cluster %s holds %q, want %q", cluster, got, want)
	}
}

func keptOverNodes(t *testing.T, h Harness) {
	if size, err := h.Keep.Size(t.Context(), "c1"); size != 0 || err != nil {
		t.Errorf("a cluster that is not there takes %d bytes, %v", size, err)
	}
	n := h.running(t, "c1", 1, 1)
	h.Write(t, "c1", "kept")
	must(t, h.Substrate.Remove(t.Context(), n.Ref))
	must(t, h.shared().EnsureShared(t.Context(), "c1", network))
	h.wantContent(t, "c1", "kept")
	if size, err := h.Keep.Size(t.Context(), "c1"); size <= 0 || err != nil {
		t.Errorf("it takes %d bytes, %v", size, err)
	}
}

func savedOnce(t *testing.T, h Harness) {
	must(t, h.shared().EnsureShared(t.Context(), "c1", network))
	h.Write(t, "c1", "first")
	var last int64
	saved, err := h.Keep.Save(t.Context(), "c1", "s1", func(n int64) error {
		if n < last {
			t.Errorf("progress went back from %d to %d", last, n)
		}
		last = n
		return nil
	})
	must(t, err)
	if last == 0 || saved.Bytes < last {
		t.Errorf("%d bytes were copied of a snapshot of %d", last, saved.Bytes)
	}
	h.wantSnapshots(t, "s1")
	h.Write(t, "c1", "second")
	_, err = h.Keep.Save(t.Context(), "c1", "s1", whatever) // again: it stays what it was
	must(t, err)
	must(t, h.shared().RemoveShared(t.Context(), "c1"))
	for range 2 {
		must(t, h.Keep.Restore(t.Context(), "s1", "c2", 0, whatever))
		h.wantContent(t, "c2", "first")
		must(t, h.shared().EnsureShared(t.Context(), "c2", network))
		h.wantContent(t, "c2", "first")
	}
	h.Write(t, "c2", "third")
	must(t, h.Keep.Restore(t.Context(), "s1", "c2", 0, whatever)) // what it has it keeps
	h.wantContent(t, "c2", "third")
	must(t, h.Keep.Restore(t.Context(), "s1", "c3", 0, whatever))
	h.wantContent(t, "c3", "first")
	for range 2 {
		must(t, h.Keep.Drop(t.Context(), "s1"))
		h.wantSnapshots(t)
	}
	if err := h.Keep.Restore(t.Context(), "s1", "c4", 0, whatever); err == nil {
		t.Error("a snapshot that is gone was restored")
	}
	h.wantShared(t, "c2", "c3")
}

func copyCalledOff(t *testing.T, h Harness) {
	must(t, h.shared().EnsureShared(t.Context(), "c1", network))
	h.Write(t, "c1", "first")
	enough := errors.New("enough")
	stop := func(int64) error { return enough }
	if _, err := h.Keep.Save(t.Context(), "c1", "s1", stop); !errors.Is(err, enough) {
		t.Errorf("a copy that was called off gave %v", err)
	}
	h.wantSnapshots(t)
	_, err := h.Keep.Save(t.Context(), "c1", "s1", whatever)
	must(t, err)
	if err := h.Keep.Restore(t.Context(), "s1", "c2", 0, stop); !errors.Is(err, enough) {
		t.Errorf("a copy that was called off gave %v", err)
	}
	h.wantShared(t, "c1")
	h.wantSnapshots(t, "s1")
	must(t, h.Keep.Restore(t.Context(), "s1", "c2", 0, whatever))
	h.wantContent(t, "c2", "first")
}

func (h Harness) dropAll(t *testing.T) {
	ctx, cancel := fresh()
	defer cancel()
	snapshots, err := h.Keep.Snapshots(ctx)
	must(t, err)
	for _, id := range snapshots {
		must(t, h.Keep.Drop(ctx, id))
	}
}
