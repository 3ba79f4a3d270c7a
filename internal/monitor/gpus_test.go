package monitor

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/drivers"
	"muster/internal/fabric"
	"muster/internal/inventory"
	"muster/internal/inventory/shapes"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/place"
	"muster/internal/protocol"
)

func TestAGPUKeepsItsAddressInAGuest(t *testing.T) {
	host := machine.Machine{Machine: inventory.Machine{ID: "h", Name: "r1n1", Substrate: "metal",
		Facts: shapes.Named("dgx-h100")}}
	known := drivers.Substrates()
	metal, part, namespaces := known.Of("metal"), known.Of("vm"), known.Of("local")
	whole := gpusOf(metal, host, machine.Machine{})
	if len(whole) != 8 || whole[5].Address != "r1n1/gpu5" || whole[0].CPUs == "" || whole[0].CPUs == whole[7].CPUs {
		t.Fatalf("a whole machine's: %+v", whole)
	}
	all := host.Facts.GPUs()
	guest := machine.Machine{
		Machine: inventory.Machine{ID: "g", Name: "r1n1-g1", Substrate: "vm", Host: "h",
			Facts: inventory.Facts{NUMA: []inventory.NUMANode{{ID: 0, CPUs: "0-3"}, {ID: 1, CPUs: "4-7"}}}},
		Allocation: &place.Allocation{Cells: []place.Cell{{NUMA: all[2].NUMA}, {NUMA: all[5].NUMA}},
			Devices: []string{all[2].PCI, all[5].PCI}},
	}
	// A guest's last NUMA node has the lowest bus.
	want := []protocol.GPU{{Address: "r1n1/gpu5", Model: all[5].Name, CPUs: "4-7"},
		{Address: "r1n1/gpu2", Model: all[2].Name, CPUs: "0-3"}}
	if diff := cmp.Diff(want, gpusOf(part, guest, host)); diff != "" {
		t.Error(diff)
	}
	if got := gpusOf(namespaces, machine.Machine{Machine: inventory.Machine{Substrate: "local", Facts: host.Facts}},
		machine.Machine{}); got != nil {
		t.Errorf("a node in namespaces has %+v", got)
	}
}

func TestWhatAGuestSawOfPartitionsIsToldOnce(t *testing.T) {
	saw := func(what map[string]string) protocol.HostReport { return protocol.HostReport{Partitions: what} }
	first := saw(map[string]string{"0000:04:00.1": "guest a saw it", "0000:04:00.2": "guest b lacks it"})
	if got := strange(host.Seen{}, first); len(got) != 2 || got[0] != "virtual function 0000:04:00.1: guest a saw it" {
		t.Errorf("%q", got)
	}
	before := host.Seen{Report: &first}
	if got := strange(before, first); got != nil {
		t.Errorf("again: %q", got)
	}
	if got := strange(before, saw(map[string]string{"0000:04:00.1": "guest a saw another"})); len(got) != 1 {
		t.Errorf("something else: %q", got)
	}
	if got := strange(before, saw(nil)); got != nil {
		t.Errorf("over: %q", got)
	}
}

func TestANodeIsToldTheKeysThatItsPortsAreToHold(t *testing.T) {
	port := func(guid fabric.GUID, key fabric.Key, wanted bool) fabrics.NodePort {
		return fabrics.NodePort{Member: fabrics.Member{GUID: guid, Wanted: wanted}, Key: key}
	}
	got := partitionsOf([]fabrics.NodePort{port(0x2c903000a0b0c, 5, true), port(0x2c903000a0b0d, 6, true),
		port(0x2c903000a0b0e, 7, false)})
	if diff := cmp.Diff(map[string]uint16{"0x0002c903000a0b0c": 5, "0x0002c903000a0b0d": 6}, got); diff != "" {
		t.Error(diff)
	}
	if got := partitionsOf(nil); got != nil {
		t.Errorf("a node without ports: %v", got)
	}
}
