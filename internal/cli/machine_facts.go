package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiv1 "muster/api/v1"
	"muster/internal/inventory"
	"muster/internal/kit/words"
)

// factsOf are a machine's facts with what can be asked of them. The API writes them as they are.
func factsOf(said apiv1.Facts) (f inventory.Facts) {
	layout := said.Layout
	said.Layout = ""
	text, _ := json.Marshal(said) // there is nothing in it that cannot be written, or read again
	_ = json.Unmarshal(text, &f)
	_ = f.Layout.UnmarshalText([]byte(layout)) // what cannot be read is not known
	return f
}

// addTopology tells how a machine's cores and memory lie: what an operator asks who wants to know which virtual machines
// fit on it.
func addTopology(t *table, f inventory.Facts) {
	if f.Cores > 0 {
		t.fact("cores", coresText(f))
	}
	caches := map[int]int{} // cores by last-level cache
	for _, c := range f.Layout {
		caches[c.Cache]++
	}
	switch len(caches) {
	case 0:
	case 1:
		t.fact("caches", "one last-level, for all cores")
	default:
		t.fact("caches", fmt.Sprintf("%d last-level, %s", len(caches), sharedText(caches)))
	}
	for _, n := range f.NUMA {
		t.fact("numa "+strconv.Itoa(n.ID), numaText(n))
	}
	if len(f.NUMA) > 1 {
		for i, n := range f.NUMA {
			t.fact(textIf(i == 0, "distances"),
				fmt.Sprintf("%d: %s", n.ID, strings.Trim(fmt.Sprint(n.Distances), "[]")))
		}
	}
	if len(f.Devices) > 0 && len(f.Layout) > 0 && !slices.ContainsFunc(f.Devices, func(d inventory.Device) bool {
		return d.Group != ""
	}) {
		t.fact("iommu", "off: no device can be given to a virtual machine")
	}
}

// coresText is "64 on 2 sockets, 2 threads each".
func coresText(f inventory.Facts) string {
	text := strconv.Itoa(f.Cores) + textIf(f.Sockets > 1, fmt.Sprintf(" on %d sockets", f.Sockets))
	switch threads := f.Threads(); {
	case threads == 1:
	case threads*f.Cores == f.CPUs:
		text += fmt.Sprintf(", %d threads each", threads)
	default: // some were switched off
		text += fmt.Sprintf(", up to %d threads each", threads)
	}
	return text
}

// sharedText is how many cores share each of some caches, one at least.
func sharedText(caches map[int]int) string {
	cores := slices.Collect(maps.Values(caches))
	least, most := slices.Min(cores), slices.Max(cores)
	switch {
	case most == 1:
		return "one for each core"
	case least == most:
		return fmt.Sprintf("each for %d cores", most)
	}
	return fmt.Sprintf("each for %d to %d cores", least, most)
}

// numaText is "cpus 0-7,64-71, 64 GiB, huge pages: 24 of 1.0 GiB (8 free)".
func numaText(n inventory.NUMANode) string {
	parts := []string{"cpus " + n.CPUs}
	if n.CPUs == "" {
		parts[0] = "no cpus"
	}
	parts = append(parts, words.Size(int64(n.MemoryMiB)<<20))
	var pools []string
	for _, p := range n.HugePages {
		pools = append(pools, fmt.Sprintf("%d of %s (%d free)", p.Total, words.Size(int64(p.KiB)<<10), p.Free))
	}
	if len(pools) > 0 {
		parts = append(parts, "huge pages: "+strings.Join(pools, " and "))
	}
	return strings.Join(parts, ", ")
}

// printDevices lists a machine's devices. Virtual functions are counted on the adapter's line. Devices whose groups are the
// same can be given away only together; those below the same port reach each other without the processor.
func (a *app) printDevices(f inventory.Facts) {
	virtual := map[string]int{}
	for _, d := range f.Devices {
		virtual[d.Parent]++
	}
	numbered := map[string]string{} // GPUs are called by their numbers, as in "r1n1/gpu0"
	for i, d := range f.GPUs() {
		numbered[d.PCI] = fmt.Sprintf("gpu%d", i)
	}
	t := newTable("DEVICE", "PCI", "NUMA", "GROUP", "BELOW", "DRIVER", "VFS", "NAME", "THE MACHINE'S OWN")
	for _, d := range f.Devices {
		if d.Parent != "" {
			continue
		}
		below := ""
		if len(d.Path) > 0 {
			below = d.Path[0]
		}
		numa, functions := textIf(d.NUMA >= 0, strconv.Itoa(d.NUMA)), fmt.Sprintf("%d of %d", virtual[d.PCI], d.VFs)
		name := cmp.Or(strings.TrimSpace(d.Name), d.Vendor+":"+d.ID)
		t.row(cmp.Or(numbered[d.PCI], d.Kind), d.PCI, numa, d.Group, below, d.Driver, textIf(d.VFs > 0, functions), name, d.Host)
	}
	t.printBelow(a.out)
}
