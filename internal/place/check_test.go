package place

import (
	"errors"
	"slices"
	"testing"

	"muster/internal/inventory"
)

func TestCheckFindsEveryOvercommitment(t *testing.T) {
	f := small(1, []int{gib(4), 2}, []int{gib(4), 2})
	f.Devices = []inventory.Device{device(1, "gpu", 0, ""), device(2, "hca", 0, ""), device(3, "hca", 0, ""),
		device(4, "nic", 0, ""), device(5, "nic", 0, ""), device(6, "bridge", 0, "")}
	f.Devices[2].Parent = f.Devices[1].PCI
	f.Devices[3].Host = "its default route"
	f.Devices[4].Group = f.Devices[3].Group
	with := func(share int, core, mib int, devices ...string) Allocation {
		return Allocation{Guest: "g", Cells: []Cell{{NUMA: core / 2, Cores: []int{core}, MemoryMiB: mib}}, Devices: devices,
			Share: share}
	}
	for name, c := range map[string]struct {
		held []Allocation
		good bool
	}{
		"nothing":                   {nil, true},
		"two on their own cores":    {[]Allocation{with(1, 1, gib(1)), with(1, 2, gib(1))}, true},
		"a core twice":              {[]Allocation{with(1, 1, gib(1)), with(1, 1, gib(1))}, false},
		"a core shared":             {[]Allocation{with(2, 1, gib(1)), with(3, 1, gib(1))}, true},
		"a core shared by too many": {[]Allocation{with(2, 1, gib(1)), with(3, 1, gib(1)), with(3, 1, gib(1))}, false},
		"a core shared and not":     {[]Allocation{with(1, 1, gib(1)), with(3, 1, gib(1))}, false},
		"a core twice in one":       {[]Allocation{{Cells: []Cell{{Cores: []int{1, 1}}}, Share: 2}}, false},
		"the host's core":           {[]Allocation{with(1, 0, gib(1))}, false},
		"a core of another node":    {[]Allocation{{Cells: []Cell{{NUMA: 1, Cores: []int{1}}}}}, false},
		"too much memory":           {[]Allocation{with(1, 1, gib(4))}, false},
		"memory that is nowhere":    {[]Allocation{{Cells: []Cell{{NUMA: 7, MemoryMiB: 1}}}}, false},
		"a device":                  {[]Allocation{with(1, 1, 1, "0000:01:00.0")}, true},
		"a device twice":            {[]Allocation{with(1, 1, 1, "0000:01:00.0"), with(1, 2, 1, "0000:01:00.0")}, false},
		"a device twice in one":     {[]Allocation{with(1, 1, 1, "0000:01:00.0", "0000:01:00.0")}, false},
		"an adapter and its part":   {[]Allocation{with(1, 1, 1, "0000:02:00.0"), with(1, 2, 1, "0000:03:00.0")}, false},
		"the host's device":         {[]Allocation{with(1, 1, 1, "0000:04:00.0")}, false},
		"beside the host's device":  {[]Allocation{with(1, 1, 1, "0000:05:00.0")}, false},
		"a bridge":                  {[]Allocation{with(1, 1, 1, "0000:06:00.0")}, false},
		"a device that has gone":    {[]Allocation{with(1, 1, 1, "0000:0f:00.0")}, true},
	} {
		r := Room{Facts: f, Keep: []int{0}, KeepMiB: map[int]int{0: 512}, Held: c.held}
		if err := r.Check(); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatWasChosenIsGrantedUnlessSomethingOfItIsGone(t *testing.T) {
	f := small(1, []int{gib(4), 2}, []int{gib(4), 2})
	f.Devices = []inventory.Device{device(1, "gpu", 0, ""), device(2, "gpu", 0, ""), device(3, "other", 0, "")}
	f.Devices[2].Group = f.Devices[0].Group
	chosen := Allocation{Cells: []Cell{{NUMA: 0, Cores: []int{1}, MemoryMiB: gib(2)}}, Devices: []string{"0000:01:00.0"},
		Withheld: []string{"0000:03:00.0"}, Share: 1}
	for name, c := range map[string]struct {
		change func(*Room, *Allocation)
		what   string // is short; "": nothing
	}{
		"nothing has changed":      {func(*Room, *Allocation) {}, ""},
		"a core is offline":        {func(r *Room, _ *Allocation) { r.Facts.Layout = r.Facts.Layout[2:] }, "cores"},
		"a core became the host's": {func(r *Room, _ *Allocation) { r.Keep = []int{1} }, "cores"},
		"a core is another guest's": {func(r *Room, _ *Allocation) {
			r.Held = []Allocation{{Cells: []Cell{{Cores: []int{1}}}}}
		}, "cores"},
		"a core is asked twice": {func(_ *Room, h *Allocation) { h.Cells[0].Cores = []int{1, 1} }, "cores"},
		"a core is elsewhere":   {func(_ *Room, h *Allocation) { h.Cells[0].NUMA = 1 }, "cores"},
		"memory is another guest's": {func(r *Room, _ *Allocation) {
			r.Held = []Allocation{{Cells: []Cell{{MemoryMiB: gib(3)}}}}
		}, "memory"},
		"memory is nowhere":          {func(_ *Room, h *Allocation) { h.Cells[0].NUMA = 7 }, "memory"},
		"a device has gone":          {func(r *Room, _ *Allocation) { r.Facts.Devices = r.Facts.Devices[1:] }, "devices"},
		"a device is lost":           {func(r *Room, _ *Allocation) { r.Lost = []string{"0000:01:00.0"} }, "devices"},
		"a device beside it is lost": {func(r *Room, _ *Allocation) { r.Lost = []string{"0000:03:00.0"} }, "devices"},
		"another device is lost":     {func(r *Room, _ *Allocation) { r.Lost = []string{"0000:02:00.0"} }, ""},
		"a device is another guest's": {func(r *Room, _ *Allocation) {
			r.Held = []Allocation{{Devices: []string{"0000:01:00.0"}}}
		}, "devices"},
		"a device is asked twice": {func(_ *Room, h *Allocation) {
			h.Devices = []string{"0000:01:00.0", "0000:01:00.0"}
		}, "devices"},
		"its group has another fellow": {func(r *Room, _ *Allocation) {
			r.Facts.Devices[1].Group = r.Facts.Devices[0].Group
		}, "iommu"},
		"its group has lost its fellow": {func(r *Room, _ *Allocation) { r.Facts.Devices = r.Facts.Devices[:2] }, "iommu"},
	} {
		r, h := Room{Facts: f}, chosen
		r.Facts.Layout, r.Facts.Devices, h.Cells = slices.Clone(f.Layout), slices.Clone(f.Devices), slices.Clone(chosen.Cells)
		c.change(&r, &h)
		err := r.Grants(h)
		var short *Misfit
		if errors.As(err, &short); (err == nil) != (c.what == "") || short != nil && short.What != c.what {
			t.Errorf("%s: %v", name, err)
		}
	}
}
