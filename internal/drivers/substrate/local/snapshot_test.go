package local

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/drivers/substrate"
)

func TestACopyThatDoesNotFitIsRefusedWithNumbers(t *testing.T) {
	dir := t.TempDir()
	err := room(filepath.Join(dir, "s1"), math.MaxInt64/2)
	if shares(dir) {
		if err != nil {
			t.Errorf("copies cost nothing here, and yet: %v", err)
		}
		return
	}
	if !errors.Is(err, substrate.ErrNoRoom) || !strings.Contains(err.Error(), "MiB are free") {
		t.Error(err)
	}
	if err := room(filepath.Join(dir, "s1"), 0); err != nil && !errors.Is(err, substrate.ErrNoRoom) {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Error("left: ", left, err)
	}
}

func TestWhatAKilledControllerLeftOfACopyIsMadeAnewOrDropped(t *testing.T) {
	w := open(t, site(t))
	t.Cleanup(func() { w.down(t) })
	check(t, w.EnsureShared(t.Context(), "c1", alone))
	w.write(t, "c1", "whole")
	s, err := w.snapshot("s1")
	check(t, err)
	check(t, os.MkdirAll(filepath.Join(s.part(), "home"), 0o755))
	check(t, os.WriteFile(filepath.Join(s.part(), "home/file"), []byte("ha"), 0o600))
	if ids, err := w.Snapshots(t.Context()); err != nil || len(ids) != 1 || ids[0] != "s1" {
		t.Error(ids, err)
	}
	if err := w.Restore(t.Context(), "s1", "c2", func(int64) error { return nil }); err == nil {
		t.Error("half a snapshot was restored")
	}
	_, err = w.Save(t.Context(), "c1", "s1", func(int64) error { return nil })
	check(t, err)
	check(t, w.Restore(t.Context(), "s1", "c2", func(int64) error { return nil }))
	if got := w.read(t, "c2"); got != "whole" {
		t.Errorf("%q", got)
	}
	check(t, os.Rename(s.dir, s.gone()))
	check(t, w.Drop(context.Background(), "s1"))
	if ids, err := w.Snapshots(t.Context()); err != nil || len(ids) != 0 {
		t.Error(ids, err)
	}
}

func TestACopyOfWhatGrowsFasterEnds(t *testing.T) {
	told := int64(0)
	progress := within(1<<20, false, func(n int64) error { told = n; return nil })
	if err := progress(2<<20 + spare); err != nil || told != 2<<20+spare {
		t.Error(err, told)
	}
	if err := progress(2<<20 + spare + 1); !errors.Is(err, substrate.ErrNoRoom) ||
		!strings.Contains(err.Error(), "pause the cluster first") {
		t.Error(err)
	}
	if err := within(0, true, func(int64) error { return nil })(math.MaxInt64); err != nil {
		t.Error(err)
	}
}
