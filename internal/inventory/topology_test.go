package inventory_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/inventory"
	"muster/internal/inventory/shapes"
)

func TestALayoutIsTheSameAfterItWasSent(t *testing.T) {
	for _, s := range shapes.All() {
		text, err := json.Marshal(s.Facts)
		if err != nil {
			t.Fatal(err)
		}
		var got inventory.Facts
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.Facts, got); diff != "" {
			t.Errorf("%s: %s", s.Name, diff)
		}
		layout, err := s.Facts.Layout.MarshalText()
		t.Logf("%s: %d bytes of facts, %d of them the layout %.60q, %v", s.Name, len(text), len(layout), layout, err)
		if len(layout) > 1200 {
			t.Errorf("%s: a layout of %d bytes", s.Name, len(layout))
		}
	}
}

func TestVirtualFunctionsAreNoMoreDevices(t *testing.T) {
	f := shapes.Named("virtual-functions")
	if f.Count("hca") != 1 || f.Count("nic") != 1 {
		t.Errorf("%d HCAs and %d NICs; one of each has virtual functions", f.Count("hca"), f.Count("nic"))
	}
	without := shapes.Named("virtual-functions")
	without.Devices = slices.DeleteFunc(without.Devices, func(d inventory.Device) bool { return d.Parent != "" })
	if changes := append(f.Since(without), without.Since(f)...); changes != nil {
		t.Errorf("making virtual functions is told as %q", changes)
	}
}

func TestAnInspectionTellsThatTheIOMMUIsOff(t *testing.T) {
	on, off := shapes.Named("dgx-a100"), shapes.Named("dgx-a100")
	for i := range off.Devices {
		off.Devices[i].Group = ""
	}
	if got := off.Since(on); len(got) != 1 || !strings.HasPrefix(got[0], "IOMMU: off, was on") {
		t.Errorf("%q", got)
	}
	if got := on.Since(off); got != nil {
		t.Errorf("%q", got)
	}
}

func TestALayoutThatCannotBeWrittenIsRefused(t *testing.T) {
	for _, c := range []inventory.Core{{ID: 0}, {ID: 1, CPUs: []int{2}}, {ID: 2, CPUs: []int{2, 1}}} {
		if text, err := (inventory.Layout{c}).MarshalText(); err == nil {
			t.Errorf("%+v is written as %q", c, text)
		}
	}
}

func TestALayoutThatMakesNoSenseIsRefused(t *testing.T) {
	for _, text := range []string{"0/0:1", "0/0/0", "0/0/x:1", "-1/0/0:1", "0/0/0:2+1", "0/0/0:0-1+2", "0/0/0:0+0", "0/0/0:1-0",
		"0/0/0:0-9999"} {
		var got inventory.Layout
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

// FuzzLayout: what can be read can be written, and is then read as the same.
func FuzzLayout(f *testing.F) {
	f.Add("0/0/0:0-7+64-71 0/0/8:8-15+72-79")
	f.Add("0/0/0:0,2,4 1/1/1:1,3,5")
	f.Add("0/8/16:16-17+20-21+24-25+28-29")
	f.Add("0/0/0:5 0/0/0:4-5+7-8")
	f.Fuzz(func(t *testing.T, text string) {
		var read, again inventory.Layout
		if read.UnmarshalText([]byte(text)) != nil {
			return
		}
		written, err := read.MarshalText()
		if err == nil {
			err = again.UnmarshalText(written)
		}
		if err != nil || len(read) != len(again) {
			t.Fatalf("%q is written as %q: %v", text, written, err)
		}
	})
}

func FuzzCPUList(f *testing.F) {
	f.Add("0-3,8\n")
	f.Add("0-65535,0-65535")
	f.Add(",,1,-2")
	f.Fuzz(func(t *testing.T, text string) {
		cpus, err := inventory.ParseCPUList(text)
		if err != nil {
			return
		}
		again, err := inventory.ParseCPUList(inventory.CPUList(cpus))
		if diff := cmp.Diff(cpus, again); err != nil || len(cpus) > 0 && diff != "" {
			t.Errorf("%q: %v %s", text, err, diff)
		}
		for i := 1; i < len(cpus); i++ {
			if cpus[i] <= cpus[i-1] {
				t.Fatalf("out of order: %v", cpus)
			}
		}
	})
}
