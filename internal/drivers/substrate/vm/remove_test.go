package vm

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"muster/internal/drivers/substrate"
)

// noPorts has no network's port to drop.
type noPorts struct{ substrate.Networks }

func (noPorts) DropPort(context.Context, string, string) error { return nil }

func TestTheLogOfABootGoesWithIt(t *testing.T) {
	d := &Driver{config: Config{Dir: t.TempDir(), Ports: noPorts{}, Log: slog.New(slog.DiscardHandler)}}
	gone, stays := node("c1", 1, 1).Ref, node("c1", 1, 2).Ref
	home, err := d.home(gone)
	check(t, err)
	logs := map[int64]string{}
	for _, r := range []substrate.Ref{gone, stays} {
		b := d.bootAt(home, r.Boot)
		logs[r.Boot] = d.qemuLog(b.name)
		check(t, os.MkdirAll(b.dir, 0o700))
		check(t, os.MkdirAll(filepath.Dir(logs[r.Boot]), 0o700))
		check(t, os.WriteFile(logs[r.Boot], []byte("started\n"), 0o600))
	}
	for range 2 { // the second finds none
		check(t, os.MkdirAll(d.bootAt(home, gone.Boot).dir, 0o700))
		check(t, d.removeBoots(t.Context(), home, gone))
	}
	if left := glob(t, d.qemuLog("*")); len(left) != 1 || left[0] != logs[stays.Boot] {
		t.Errorf("the logs %v are left, want the one of the boot that stays", left)
	}
}
