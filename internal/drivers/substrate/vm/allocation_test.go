package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/place"
)

// twoNodes is a host of two NUMA nodes of 8 GiB with 4 cores each, and of two GPUs. Core 0 and 512 MiB are the host's own.
func twoNodes() inventory.Facts {
	f := inventory.Facts{Arch: "amd64", NUMA: []inventory.NUMANode{{ID: 0, MemoryMiB: 8 << 10}, {ID: 1, MemoryMiB: 8 << 10}}}
	for id := range 8 {
		f.Layout = append(f.Layout, inventory.Core{ID: id, CPUs: []int{id}, NUMA: id / 4, Cache: id / 4 * 4})
	}
	for _, pci := range []string{"0000:01:00.0", "0000:02:00.0"} {
		f.Devices = append(f.Devices, inventory.Device{Kind: "gpu", PCI: pci, NUMA: 0, Group: pci})
	}
	return f
}

// on is a part of one NUMA node.
func on(numa, mib, pageKiB int, cores ...int) part {
	return part{Allocation: place.Allocation{Guest: "g", Share: 1,
		Cells: []place.Cell{{NUMA: numa, Cores: cores, MemoryMiB: mib}}}, PageKiB: pageKiB}
}

// pages sets pages of a size aside on a NUMA node.
func pages(f inventory.Facts, numa, kib, total, free int) inventory.Facts {
	f.NUMA = slices.Clone(f.NUMA)
	f.NUMA[numa].HugePages = append(slices.Clone(f.NUMA[numa].HugePages), inventory.HugePages{KiB: kib, Total: total, Free: free})
	return f
}

func TestTheLastWord(t *testing.T) {
	const small, large = 2 << 10, 1 << 20
	wanted := on(0, 2<<10, plain, 1, 2).Allocation
	asked := place.Guest{CPUs: 2, MemoryMiB: 2 << 10, Share: 1}
	withGPU, asksGPU := wanted, asked
	withGPU.Devices, asksGPU.Devices = []string{"0000:01:00.0"}, map[string]int{"gpu": 1}
	otherGPU := withGPU
	otherGPU.Devices = []string{"0000:02:00.0"}
	offline := twoNodes()
	offline.Layout = slices.Delete(offline.Layout, 1, 2)
	unplugged := twoNodes()
	unplugged.Devices = unplugged.Devices[1:]
	hosts := twoNodes()
	hosts.Devices[0].Host = "its screen"

	for name, c := range map[string]struct {
		facts   inventory.Facts
		others  []part
		lost    []string
		wanted  place.Allocation
		asked   place.Guest
		want    part
		refused string
	}{
		"what was chosen is there": {facts: twoNodes(), want: part{Allocation: wanted, PageKiB: plain}},
		"a core is offline":        {facts: offline, want: on(1, 2<<10, plain, 4, 5)},
		"a core is another guest's": {facts: twoNodes(), others: []part{on(0, 1, plain, 2)},
			want: on(1, 2<<10, plain, 4, 5)},
		"memory is another guest's": {facts: twoNodes(), others: []part{on(0, 6<<10, plain, 3)},
			want: on(1, 2<<10, plain, 4, 5)},
		"all cores are other guests'": {facts: twoNodes(),
			others:  []part{on(0, 1, plain, 1, 2, 3), on(1, 1, plain, 4, 5, 6)},
			refused: "core 1 of NUMA node 0 is offline, kept by the host, or in use"},
		"all memory is other guests'": {facts: twoNodes(),
			others: []part{on(0, 7<<10, plain, 3), on(1, 7<<10, plain, 4)}, refused: "2048 MiB asked"},
		"large pages are free": {facts: pages(twoNodes(), 0, large, 2, 2),
			want: part{Allocation: wanted, PageKiB: large}},
		"small pages are free": {facts: pages(pages(twoNodes(), 0, large, 2, 1), 0, small, 1024, 1024),
			want: part{Allocation: wanted, PageKiB: small}},
		"too few pages are free, plain ones do": {facts: pages(twoNodes(), 0, large, 2, 1),
			want: part{Allocation: wanted, PageKiB: plain}},
		"another guest is about to use them": {facts: pages(twoNodes(), 0, large, 3, 3),
			others: []part{on(0, 2<<10, large, 3)}, want: part{Allocation: wanted, PageKiB: plain}},
		"another guest uses some": {facts: pages(twoNodes(), 0, large, 4, 2),
			others: []part{on(0, 2<<10, large, 3)}, want: part{Allocation: wanted, PageKiB: large}},
		"a guest with pages needs no plain ones": {facts: pages(twoNodes(), 0, large, 4, 0),
			others: []part{on(0, 4<<10, large, 3)}, want: part{Allocation: wanted, PageKiB: plain}},
		"pages bind the memory": {facts: pages(twoNodes(), 0, large, 6, 0), want: on(1, 2<<10, plain, 4, 5)},
		"pages bind all memory": {facts: pages(pages(twoNodes(), 0, large, 6, 0), 1, large, 7, 1),
			refused: "2048 MiB asked of NUMA node 0, 1536 are free"},
		"half a page is none": {
			facts: pages(twoNodes(), 0, large, 7, 7), wanted: on(0, 1<<9, plain, 1).
				Allocation, asked: place.Guest{CPUs: 1, MemoryMiB: 1 << 9, Share: 1}, want: on(0, 1<<9, plain, 1),
		},
		"a device is there": {facts: twoNodes(), wanted: withGPU, asked: asksGPU,
			want: part{Allocation: withGPU, PageKiB: plain}},
		"a device has gone": {facts: unplugged, wanted: withGPU, asked: asksGPU,
			want: part{Allocation: otherGPU, PageKiB: plain}},
		"a device is the host's": {facts: hosts, wanted: withGPU, asked: asksGPU,
			want: part{Allocation: otherGPU, PageKiB: plain}},
		"a device is lost": {facts: twoNodes(), lost: []string{"0000:01:00.0"}, wanted: withGPU, asked: asksGPU,
			want: part{Allocation: otherGPU, PageKiB: plain}},
		"a device is another guest's": {facts: twoNodes(),
			others: []part{{Allocation: place.Allocation{Devices: []string{"0000:01:00.0"}, Share: 1}}}, wanted: withGPU,
			asked: asksGPU, want: part{Allocation: otherGPU, PageKiB: plain}},
		"all devices are lost": {facts: twoNodes(), lost: []string{"0000:01:00.0", "0000:02:00.0"}, wanted: withGPU,
			asked: asksGPU, refused: "1 gpu asked, 0 of 2 available"},
		"nothing is known of the host": {facts: inventory.Facts{},
			refused: "the layout of the host's cores and memory is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.wanted.Cells == nil {
				c.wanted, c.asked = wanted, asked
			}
			got, err := lastWord(left(c.facts, c.others), c.others, c.lost, c.wanted, c.asked)
			if c.refused != "" {
				if !errors.Is(err, substrate.ErrRefused) || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCoresAreSharedAsFarAsAllGuestsShareThem(t *testing.T) {
	shared := on(0, 512, plain, 1)
	shared.Allocation.Share = 2
	if _, err := lastWord(twoNodes(), []part{shared}, nil, shared.Allocation, place.Guest{}); err != nil {
		t.Error(err)
	}
	if got, err := lastWord(twoNodes(), []part{shared, shared}, nil, shared.Allocation, place.Guest{}); !errors.Is(err,
		substrate.ErrRefused) {
		t.Errorf("a third guest got %+v, %v", got, err)
	}
	asked := place.Guest{CPUs: 1, MemoryMiB: 512, Share: 2}
	got, err := lastWord(twoNodes(), []part{shared, shared}, nil, shared.Allocation, asked)
	if err != nil || got.Allocation.Share != 2 || slices.Equal(got.Allocation.Cells[0].Cores, []int{1}) {
		t.Errorf("a third guest got %+v, %v", got, err)
	}
	beside := on(0, 512, plain, 2)
	beside.Allocation.Share = 2
	if got, err = lastWord(twoNodes(), []part{shared, shared, beside}, nil, shared.Allocation, asked); err != nil ||
		slices.Equal(got.Allocation.Cells[0].Cores, []int{2}) {
		t.Errorf("while cores are free a guest got %+v, %v", got, err)
	}
}

// Several controllers of one host hear its last word in the same moment: each core is given once, and who comes too late is
// refused.
func TestLastWordsAtTheSameMomentGiveNothingTwice(t *testing.T) {
	dir, facts := t.TempDir(), twoNodes()
	wanted, asked := on(0, 256, plain, 1, 2).Allocation, place.Guest{CPUs: 2, MemoryMiB: 256, Share: 1}
	const askers, fit = 6, 3 // of seven cores each has two, which lie on one NUMA node
	parts, errs := make([]part, askers), make([]error, askers)
	var all sync.WaitGroup
	for i := range askers {
		// a controller's own
		d := &Driver{config: Config{Dir: dir, Facts: func(context.Context) (inventory.Facts, error) { return facts, nil }}}
		n := substrate.Node{Ref: substrate.Ref{Cluster: "c", Node: fmt.Sprintf("n%d", i), Boot: 1}, Allocation: &wanted,
			Asked: asked}
		home, err := d.home(n.Ref)
		b := d.bootAt(home, 1)
		if err := errors.Join(err, os.MkdirAll(b.dir, 0o700), os.MkdirAll(filepath.Join(dir, "locks"), 0o700)); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { parts[i], _, errs[i] = d.take(t.Context(), b, n) })
	}
	all.Wait()
	var room place.Room
	room.Facts = facts
	users := map[int]bool{}
	room.Keep, room.KeepMiB = facts.Kept()
	for i, err := range errs {
		if err == nil {
			room.Held, users[parts[i].User] = append(room.Held, parts[i].Allocation), true
		} else if !errors.Is(err, substrate.ErrRefused) {
			t.Errorf("asker %d: %v", i, err)
		}
	}
	if err := room.Check(); err != nil || len(room.Held) != fit || len(users) != fit {
		t.Errorf("%d have a part, of %d users: %v\n%+v", len(room.Held), len(users), err, room.Held)
	}
}
