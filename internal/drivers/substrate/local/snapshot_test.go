package local

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/drivers/substrate"
)

func TestACopyThatDoesNotFitIsRefusedWithNumbers(t *testing.T) {
	d := &Driver{config: Config{Dir: t.TempDir()}}
	check(t, os.Mkdir(filepath.Join(d.config.Dir, "clusters"), 0o700))
	_, err := d.claim(math.MaxInt64 / 2)
	if !errors.Is(err, substrate.ErrNoRoom) || !strings.Contains(err.Error(), "MiB are free") {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(d.config.Dir, "probe*")); err != nil || len(left) > 0 {
		t.Error("left: ", left, err)
	}
}

// Fourteen snapshots that began at the same moment each found room for themselves.
func TestCopiesAtTheSameTimeLeaveTheReserve(t *testing.T) {
	w, _ := small(t, site(t), 2000, leastVolume)
	before, err := w.Disk()
	check(t, err)
	need, claims := before.Left()*2/5, []*claim{}
	for range 2 {
		c, err := w.claim(need)
		check(t, err)
		claims = append(claims, c)
	}
	if _, err := w.claim(need); !errors.Is(err, substrate.ErrNoRoom) {
		t.Errorf("a third one has room: %v", err)
	}
	if now, err := w.Disk(); err != nil || now.Left() > before.Left()-2*need+64<<20 {
		t.Errorf("%d MiB are said to be left beside copies under way, of %d: %v", now.Left()>>20, before.Left()>>20, err)
	}
	check(t, claims[0].copied(need/2))
	check(t, claims[0].copied(need+1)) // it has grown, and there is room
	claims[0].release()
	if _, err := w.claim(need); err != nil {
		t.Errorf("what is over has no room any more: %v", err)
	}
	w.config.Reserve = before.Free
	time.Sleep(looksEvery) // for which a look is good
	if err := claims[1].copied(need + 1); !errors.Is(err, substrate.ErrNoRoom) ||
		!strings.Contains(err.Error(), "takes no more") {
		t.Errorf("a copy that grows goes into the reserve: %v", err)
	}
}

func TestASnapshotFindsNoRoomThatOthersClaim(t *testing.T) {
	w, _ := small(t, site(t), 2000, leastVolume)
	check(t, w.EnsureShared(t.Context(), "c1", alone))
	c, err := w.shared("c1")
	check(t, err)
	check(t, os.WriteFile(filepath.Join(c.home(), "data"), make([]byte, 16<<20), 0o600))
	command(t, "sync", "-f", c.home())
	before, err := w.Disk()
	check(t, err)
	other, err := w.claim(before.Left() - 8<<20)
	if err != nil {
		t.Fatal(err)
	}
	save := func() error {
		_, err := w.Save(t.Context(), "c1", "s1", func(int64) error { return nil })
		return err
	}
	if err := save(); !errors.Is(err, substrate.ErrNoRoom) || !strings.Contains(err.Error(), "the copy takes") {
		t.Errorf("it has room that is another's: %v", err)
	}
	other.release()
	check(t, save())
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
	if err := w.Restore(t.Context(), "s1", "c2", 0, func(int64) error { return nil }); err == nil {
		t.Error("half a snapshot was restored")
	}
	_, err = w.Save(t.Context(), "c1", "s1", func(int64) error { return nil })
	check(t, err)
	check(t, w.Restore(t.Context(), "s1", "c2", 0, func(int64) error { return nil }))
	if got := w.read(t, "c2"); got != "whole" {
		t.Errorf("%q", got)
	}
	check(t, os.Rename(s.dir, s.gone()))
	check(t, w.Drop(context.Background(), "s1"))
	if ids, err := w.Snapshots(t.Context()); err != nil || len(ids) != 0 {
		t.Error(ids, err)
	}
}

// TestAHeadWritesNothingWhileItsStateIsCopied: the files of a database fit together at one moment only.
func TestAHeadWritesNothingWhileItsStateIsCopied(t *testing.T) {
	w := open(t, site(t))
	t.Cleanup(func() { w.down(t) })
	check(t, w.EnsureShared(t.Context(), "c1", alone))
	c, err := w.shared("c1")
	check(t, err)
	name, wrote := filepath.Join(c.state(), "late"), make(chan error, 1)
	write := func() { wrote <- os.WriteFile(name, nil, 0o600) }
	waits := func() {
		t.Helper()
		select {
		case err := <-wrote:
			t.Errorf("it was written: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
	check(t, c.stateVolume().still(func() error {
		go write()
		waits()
		return nil
	}))
	check(t, <-wrote)

	root, err := os.Open(c.state())
	check(t, err)
	defer root.Close()
	check(t, xfsRequest(root, freeze, nil)) // as a controller that was killed leaves it
	go write()
	waits()
	check(t, w.goOn(t.Context()))
	check(t, <-wrote)
}

func TestACopyOfWhatGrowsFasterEnds(t *testing.T) {
	d := &Driver{config: Config{Dir: t.TempDir(), Reserve: 1}}
	check(t, os.Mkdir(filepath.Join(d.config.Dir, "clusters"), 0o700))
	told := int64(0)
	progress := (&claim{d: d, need: 1 << 20}).within(func(n int64) error { told = n; return nil })
	if err := progress(2<<20 + spare); err != nil || told != 2<<20+spare {
		t.Error(err, told)
	}
	if err := progress(2<<20 + spare + 1); !errors.Is(err, substrate.ErrNoRoom) ||
		!strings.Contains(err.Error(), "pause the cluster first") {
		t.Error(err)
	}
}
