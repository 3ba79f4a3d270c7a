package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAnOwnerOfMuchLeavesTheLastPartOfTheDiskToOthers has one owner fill what two clusters were promised, before another comes.
func TestAnOwnerOfMuchLeavesTheLastPartOfTheDiskToOthers(t *testing.T) {
	w, _ := small(t, site(t), 4000, 3000<<20)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.GuardDisk(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	// take takes at most so much for a file in a cluster's /home. Where there is no room it tries so often, every 100 ms.
	take := func(cluster, owner string, most int64, tries int) (taken int64) {
		t.Helper()
		network := alone
		network.Owner = owner
		check(t, w.EnsureShared(t.Context(), cluster, network))
		c, err := w.shared(cluster)
		check(t, err)
		file, err := os.OpenFile(filepath.Join(c.home(), "fill"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		check(t, err)
		defer file.Close()
		info, err := file.Stat()
		check(t, err)
		const piece = 1 << 20
		for refused := 0; taken < most && refused < tries; {
			switch err := unix.Fallocate(int(file.Fd()), 0, info.Size()+taken, piece); {
			case err == nil:
				taken, refused = taken+piece, 0
			case errors.Is(err, unix.ENOSPC):
				refused++
				time.Sleep(100 * time.Millisecond)
			default:
				t.Fatal(err)
			}
		}
		return taken
	}
	much := take("c1", "greedy", 1000<<20, 100) + take("c2", "greedy", 1000<<20, 100) + take("c2", "greedy", 3000<<20, 10)
	now, err := w.Disk()
	check(t, err)
	last := now.last()
	t.Logf("%d MiB were taken, and %d are left", much>>20, now.Left()>>20)
	if much < 2000<<20 || now.Left() < last*3/4 {
		t.Errorf("%d MiB were taken, and of the last %d MiB are left %d", much>>20, last>>20, now.Left()>>20)
	}
	if n := take("c3", "modest", 100<<20, 100); n < 100<<20 {
		t.Errorf("another owner could take %d MiB", n>>20)
	}
	if n := take("c1", "greedy", 50<<20, 10); n > 10<<20 {
		t.Errorf("who has most of the disk could take %d MiB more", n>>20)
	}
}
