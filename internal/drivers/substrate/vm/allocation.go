package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/drivers/substrate/vm/domain"
	"muster/internal/inventory"
	"muster/internal/kit/lists"
	"muster/internal/place"
)

// What a guest is to have of this host was chosen with what the database knew. What it gets is decided here, with what there
// is: cores that are online, devices that are there, memory in pages that a guest can use, and what other guests have that
// are on this host, whichever controller sent them. See docs/decisions/guests.md.

// part is what a guest has of this host. It is written before anything of it is used, and goes with the boot's directory.
type part struct {
	Allocation place.Allocation `json:"Holding"`
	PageKiB    int              // of its memory's pages; 0: plain ones
	User       int              // whom its QEMU runs as, and no other process on this host
}

// firstUser begins the numbers of QEMUs' users. No account has them, nor does systemd deal them out (systemd's "Users, Groups,
// UIDs and GIDs"). A QEMU that its guest has taken over can do to others what their users may: nothing.
const firstUser = 0x7f000000

// freeUser is the lowest that no guest has.
func freeUser(others []part) int {
	user := firstUser
	for slices.ContainsFunc(others, func(p part) bool { return p.User == user }) {
		user++
	}
	return user
}

// take decides what a boot gets, and writes it down before anybody else asks. facts are the host's as far as others have
// left them. An error says ErrRefused if nothing fits.
func (d *Driver) take(ctx context.Context, b boot, n substrate.Node) (p part, facts inventory.Facts, err error) {
	lost, err := d.lostDevices(n)
	if err != nil {
		return p, facts, err
	}
	held, err := onhost.Exclusive(ctx, d.lockPath("parts"))
	if err != nil {
		return p, facts, err
	}
	defer held.Release()
	if facts, err = d.config.Facts(ctx); err != nil {
		return p, facts, err
	}
	others, err := d.parts()
	if err != nil {
		return p, facts, err
	}
	facts = left(facts, others)
	if p, err = lastWord(facts, others, lost, *n.Allocation, n.Asked); err != nil {
		return p, facts, err
	}
	if err := held.Lost(); err != nil { // somebody may have taken the same meanwhile
		return p, facts, err
	}
	p.User = freeUser(others)
	return p, facts, b.writeJSON(partFile, p)
}

// parts are what the guests have that are present, in whatever state: what has not been removed is not free.
func (d *Driver) parts() ([]part, error) {
	refs, err := onhost.List(d.guests())
	if err != nil {
		return nil, err
	}
	var all []part
	for _, r := range refs {
		home, err := d.home(r)
		if err != nil {
			return nil, err
		}
		p, there, err := d.bootAt(home, r.Boot).part()
		if err != nil {
			return nil, err
		}
		if there {
			all = append(all, p)
		}
	}
	return all, nil
}

// part is what a boot has; false if it has been given nothing yet.
func (b boot) part() (p part, there bool, err error) {
	text, err := os.ReadFile(b.path(partFile))
	if os.IsNotExist(err) {
		return p, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return p, false, fmt.Errorf("what a guest has of this host: %s: %w", filepath.Base(b.path(partFile)), err)
	}
	return p, true, nil
}

// left is what others leave of a host's huge pages. A guest that is about to start has not touched its pages yet, so the
// kernel counts them as free; what somebody else has taken is in no record. So both are asked.
func left(f inventory.Facts, others []part) inventory.Facts {
	f.NUMA = slices.Clone(f.NUMA)
	for i, n := range f.NUMA {
		f.NUMA[i].HugePages = slices.Clone(n.HugePages)
		for j, pages := range n.HugePages {
			free := pages.Total - heldMiB(others, n.ID, pages.KiB)<<10/pages.KiB
			f.NUMA[i].HugePages[j].Free = max(0, min(pages.Free, free))
		}
	}
	return f
}

// heldMiB is how much memory of a node guests have in pages of a size.
func heldMiB(guests []part, numa, pageKiB int) int {
	total := 0
	for _, g := range guests {
		for _, c := range g.Allocation.Cells {
			if g.PageKiB == pageKiB && c.NUMA == numa {
				total += c.MemoryMiB
			}
		}
	}
	return total
}

// plain is the size of pages that are not huge, as PageKiB has it.
const plain = 0

// lastWord is what a guest gets of a host: what was wanted for it, if that can be had, in the largest pages that can be; else
// what can be had of what was asked. f are the facts that left has made.
func lastWord(f inventory.Facts, others []part, lost []string, wanted place.Allocation, asked place.Guest) (part, error) {
	sizes := append(domain.PageSizes(), plain)
	rooms := lists.Map(sizes, func(size int) place.Room { return roomIn(size, f, others, lost) })
	var gone, misfit error // why not, with plain pages: there most fits
	for i, r := range rooms {
		if gone = r.Grants(wanted); gone == nil && whole(wanted, sizes[i]) {
			return part{Allocation: wanted, PageKiB: domain.PageKiB(f, wanted)}, nil
		}
	}
	for _, share := range []int{1, asked.Share} { // cores that no guest has come first
		asked.Share = share
		for i, r := range rooms {
			var other place.Allocation
			if other, misfit = place.Hold(r, asked); misfit == nil && whole(other, sizes[i]) {
				other.Guest, other.Share = wanted.Guest, wanted.Share
				return part{Allocation: other, PageKiB: domain.PageKiB(f, other)}, nil
			}
		}
	}
	return part{}, fmt.Errorf("%w: its part cannot be had (%w), and no other fits (%w)", substrate.ErrRefused, gone, misfit)
}

// roomIn is what a host has for guests whose memory is in pages of one size. What is set aside as huge pages is no plain
// memory any more, and the host itself needs plain memory only.
func roomIn(pageKiB int, f inventory.Facts, others []part, lost []string) place.Room {
	r := place.Room{Facts: f, Lost: lost}
	var kept map[int]int
	r.Keep, kept = f.Kept()
	for _, other := range others {
		h := other.Allocation
		h.Cells = slices.Clone(h.Cells)
		for i := range h.Cells {
			h.Cells[i].MemoryMiB = 0 // it is not in what there is
		}
		r.Held = append(r.Held, h)
	}
	r.Facts.NUMA = slices.Clone(f.NUMA)
	for i, n := range f.NUMA {
		memory := &r.Facts.NUMA[i].MemoryMiB
		if pageKiB == plain {
			*memory -= kept[n.ID] + heldMiB(others, n.ID, plain)
		} else {
			*memory = 0
		}
		for _, pages := range n.HugePages {
			switch pageKiB {
			case plain:
				*memory -= pages.Total * pages.KiB >> 10
			case pages.KiB:
				*memory = pages.Free * pages.KiB >> 10
			}
		}
	}
	return r
}

// whole says whether a holding's memory comes in whole pages.
func whole(h place.Allocation, pageKiB int) bool {
	return pageKiB == plain || !slices.ContainsFunc(h.Cells, func(c place.Cell) bool { return c.MemoryMiB<<10%pageKiB != 0 })
}
