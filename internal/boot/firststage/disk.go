package firststage

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/kit/clock"
	"muster/internal/kit/lists"
)

// disk is a whole disk that a root may go to.
type disk struct {
	name   string // the kernel's: nvme0n1, sda, vda
	bytes  int64
	sector int64 // logical, bytes
}

func (d disk) device() string { return "/dev/" + d.name }

// partition is the device of a partition: nvme0n1p2, sda2.
func (d disk) partition(number int) string {
	if last := d.name[len(d.name)-1]; last >= '0' && last <= '9' {
		return fmt.Sprintf("%sp%d", d.device(), number)
	}
	return fmt.Sprintf("%s%d", d.device(), number)
}

// disks lists those that may be written to: whole, not removable, writable; NVMe first, then by number.
func (h *hardware) disks() []disk {
	found, _ := filepath.Glob(filepath.Join(h.sys, "block/*"))
	var all []disk
	for _, dir := range found {
		d := disk{name: filepath.Base(dir), bytes: number(dir, "size") * 512, sector: number(dir, "queue/logical_block_size")}
		if wholeDisk().MatchString(d.name) && number(dir, "removable") == 0 && number(dir, "ro") == 0 && d.bytes > 0 &&
			d.sector >= 512 {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b disk) int {
		return cmp.Or(cmp.Compare(slow(a), slow(b)), cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
	})
	return all
}

// wholeDisk leaves out what is made of disks or memory: loop, dm, md, ram, zram; and CD drives.
func wholeDisk() *regexp.Regexp { return regexp.MustCompile(`^(nvme\d+n\d+|[shv]d[a-z]+|xvd[a-z]+)$`) }

func slow(d disk) int {
	if strings.HasPrefix(d.name, "nvme") {
		return 0
	}
	return 1
}

// number reads a file of sysfs; -1 if it has none.
func number(dir, file string) int64 {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

const (
	settled  = time.Second      // disks that have not changed for so long are all
	diskWait = 60 * time.Second // for the first suitable one
)

// awaitDisk returns the disk that holds this label, or else the first that has room for it.
func (h *hardware) awaitDisk(ctx context.Context, want label) (d disk, ours bool, err error) {
	h.loadFor(diskDrivers()...)
	start, changed := time.Now(), time.Now()
	var before []disk
	for {
		now := h.disks()
		for _, d := range now {
			if l, err := readLabel(d); err == nil && l == want {
				return d, true, nil
			}
		}
		if !slices.Equal(now, before) {
			before, changed = now, time.Now()
			h.loadFor(diskDrivers()...) // a bus may have brought more
		}
		suitable := slices.IndexFunc(now, func(d disk) bool { return d.bytes >= want.room() })
		switch {
		case suitable >= 0 && time.Since(changed) >= settled:
			return now[suitable], false, nil
		case time.Since(start) > diskWait:
			return disk{}, false, fmt.Errorf("no disk for the root: it needs %s, and there are: %s", size(want.room()),
				describe(now))
		}
		if err := clock.Sleep(ctx, 100*time.Millisecond); err != nil {
			return disk{}, false, err
		}
	}
}

func describe(all []disk) string {
	words := lists.Map(all, func(d disk) string { return d.name + " with " + size(d.bytes) })
	if len(words) == 0 {
		return "no fixed disks"
	}
	return strings.Join(words, ", ")
}
