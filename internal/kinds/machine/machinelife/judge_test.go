package machinelife

import (
	"strings"
	"testing"

	"muster/internal/drivers"
	"muster/internal/drivers/power"
	"muster/internal/drivers/substrate"
	"muster/internal/inventory"
	"muster/internal/kinds/machine"
	"muster/internal/protocol"
)

// TestAMachineThatErasedNothingIsNotClean: a machine that comes back from a tenant shows of every disk that it had that it
// was erased, or is set apart.
func TestAMachineThatErasedNothingIsNotClean(t *testing.T) {
	sda, sdb := inventory.Disk{Name: "sda", Serial: "S1", Bus: "sata"}, inventory.Disk{Name: "sdb", Serial: "S2", Bus: "sata"}
	nameless := inventory.Disk{Name: "vda", Bus: "virtio"}
	afar := inventory.Disk{Name: "sdc", Serial: "S3", Bus: "fc"}
	receipt := func(d inventory.Disk) protocol.Erased {
		return protocol.Erased{Disk: d.Name, Serial: d.Serial, OK: true}
	}
	for _, c := range []struct {
		name     string
		had, has []inventory.Disk
		erased   []protocol.Erased
		notDirty bool
		apart    string // part of the reason; "" is available
	}{
		{"every disk", []inventory.Disk{sda, sdb}, []inventory.Disk{sda, sdb}, []protocol.Erased{receipt(sda), receipt(sdb)},
			false, ""},
		{"no disk at all", []inventory.Disk{sda}, nil, nil, false,
			"disk sda S1, which it had at its last inspection, is missing"},
		{"one is missing", []inventory.Disk{sda, sdb}, []inventory.Disk{sda}, []protocol.Erased{receipt(sda)}, false,
			"disk sdb S2, which"},
		{"one is there and was not erased", []inventory.Disk{sda, sdb}, []inventory.Disk{sda, sdb},
			[]protocol.Erased{receipt(sda)}, false, "disk sdb S2 was not erased"},
		{"one was replaced", []inventory.Disk{sda}, []inventory.Disk{sdb}, []protocol.Erased{receipt(sdb)}, false,
			"disk sda S1, which"},
		{"names have changed", []inventory.Disk{sda, sdb},
			[]inventory.Disk{{Name: "sda", Serial: "S2"}, {Name: "sdb", Serial: "S1"}},
			[]protocol.Erased{{Disk: "sda", Serial: "S2", OK: true}, {Disk: "sdb", Serial: "S1", OK: true}}, false, ""},
		{"without serial numbers", []inventory.Disk{nameless}, []inventory.Disk{nameless}, []protocol.Erased{receipt(nameless)},
			false, ""},
		{"without serial numbers, missing", []inventory.Disk{nameless}, nil, nil, false, "disk vda, which"},
		{"diskless before and after", nil, nil, nil, false, ""},
		{"one was added", []inventory.Disk{sda}, []inventory.Disk{sda, sdb}, []protocol.Erased{receipt(sda), receipt(sdb)}, false,
			""},
		{"one of a storage network is gone", []inventory.Disk{sda, afar}, []inventory.Disk{sda}, []protocol.Erased{receipt(sda)},
			false, ""},
		{"nobody had it meanwhile", []inventory.Disk{sda, sdb}, []inventory.Disk{sda}, nil, true, ""},
	} {
		m := machineView{holder: "m1/n1"}
		m.Machine = machine.Machine{Machine: inventory.Machine{ID: "m", Name: "r1", Network: "boot",
			Facts: inventory.Facts{Disks: c.had}}, Dirty: !c.notDirty}
		o := m.judge(substrate.Inspected{Done: true, Facts: inventory.Facts{Disks: c.has}, Erased: c.erased},
			power.Capabilities{})
		want := machine.Available
		if c.apart != "" {
			want = machine.Quarantined
		}
		if o.Phase != want || !strings.Contains(o.Text, c.apart) || c.apart != "" && strings.Contains(c.apart, "which") &&
			!strings.Contains(o.Text, "muster machines remove r1") {
			t.Errorf("%s: %s: %s", c.name, o.Phase, o.Text)
		}
	}
}

// TestAReceiptSaysWhatSwitchedTheMachineOff, which is not the same proof for every power control.
func TestAReceiptSaysWhatSwitchedTheMachineOff(t *testing.T) {
	cut, itself := "switched off and seen off, before and after",
		"switched itself off and was silent on its network, before and after"
	for control, want := range map[string]string{"": cut, "wol": itself, "ipmi://bmc": cut, "redfish://bmc": cut,
		"command:pdu": cut} {
		m := machineView{Machine: machine.Machine{Machine: inventory.Machine{Power: inventory.Power{Control: control}}}}
		if got := m.powerCycle(drivers.Power().Capabilities(control)); got != want {
			t.Errorf("%q: %s", control, got)
		}
	}
}
