package inspection

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/inventory"
)

var update = flag.Bool("update", false, "write testdata/*.json again")

func TestFactsOfAMachine(t *testing.T) {
	for _, name := range []string{"qemu", "server", "minimal"} {
		t.Run(name, func(t *testing.T) {
			m := quiet(t, name)
			facts := m.facts(t.Context(), m.disks(t.Context()))
			again := m.facts(t.Context(), m.disks(t.Context()))
			if d := cmp.Diff(facts, again); d != "" {
				t.Errorf("a second look at the same machine differs:\n%s", d)
			}
			facts.Kernel, facts.Arch = "", "" // of the machine that the test runs on
			golden := filepath.Join("testdata", name+".json")
			if *update {
				text, err := json.MarshalIndent(facts, "", "  ")
				must(t, err)
				must(t, os.WriteFile(golden, append(text, '\n'), 0o644))
			}
			text, err := os.ReadFile(golden)
			must(t, err)
			var want inventory.Facts
			must(t, json.Unmarshal(text, &want))
			if d := cmp.Diff(want, facts); d != "" {
				t.Errorf("facts differ from %s:\n%s", golden, d)
			}
		})
	}
}

func TestDisksOfAStorageNetworkAreNotTheMachinesOwn(t *testing.T) {
	m := quiet(t, "server")
	remote := map[string]bool{}
	for _, d := range m.disks(t.Context()) {
		remote[d.Name] = d.remote
	}
	want := map[string]bool{"nvme0n1": false, "nvme1n1": false, "sda": false, "sdb": true, "sdd": false}
	if d := cmp.Diff(want, remote); d != "" {
		t.Error(d)
	}
	m.open = func(d disk, _ bool) (device, error) {
		if d.Name == "sdb" {
			t.Error("a disk on a storage network was opened to be erased")
		}
		return nil, errDisk
	}
	for _, r := range m.erase(t.Context(), m.disks(t.Context()), newProgress()) {
		if r.OK || r.Disk == "sdb" {
			t.Errorf("receipt %+v", r)
		}
	}
}

func TestNVMeNamespacesOfOneSubsystemAreErasedOneAfterTheOther(t *testing.T) {
	for _, c := range []struct {
		a, b     string
		together bool
	}{
		{"devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1", "devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n2", false},
		{"devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1", "devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n2", false},
		{"devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1", "devices/pci0000:00/0000:02:00.0/nvme/nvme1/nvme1n1", true},
		{"devices/pci0000:00/ata1/host0/block/sda", "devices/pci0000:00/ata1/host0/block/sdb", true},
	} {
		a, b := controllerOf(filepath.Base(c.a), c.a), controllerOf(filepath.Base(c.b), c.b)
		if (a != b) != c.together {
			t.Errorf("%s and %s: controllers %q and %q", c.a, c.b, a, b)
		}
	}
}

func TestAStorageControllerWithoutADriverIsSeen(t *testing.T) {
	m := quiet(t, "qemu")
	if found := m.undriven(); len(found) != 0 {
		t.Errorf("without a driver: %v", found)
	}
	must(t, os.Remove(m.Path("sys/devices/pci0000:00/0000:00:03.0/virtio1/driver")))
	must(t, os.Remove(m.Path("sys/block/vda")))
	check := m.checkDisks(t.Context(), m.disks(t.Context()), readMost)
	want := "storage controller virtio1 has no driver: its disks can't be seen; add its module to the image; no disks"
	if check.OK || check.Text != want {
		t.Errorf("check %v %q, want %q", check.OK, check.Text, want)
	}
}

// smbiosTable puts structures together: fields after the head, then strings.
func smbiosTable(structures ...[]byte) []byte {
	var table []byte
	for _, s := range structures {
		table = append(table, s...)
	}
	return table
}

func smbiosStructure(kind byte, length int, set map[int]int, strings ...string) []byte {
	fields := make([]byte, length)
	fields[0], fields[1] = kind, byte(length)
	for at, value := range set {
		switch {
		case value > 0xffff:
			binary.LittleEndian.PutUint32(fields[at:], uint32(value))
		case value > 0xff:
			binary.LittleEndian.PutUint16(fields[at:], uint16(value))
		default:
			fields[at] = byte(value)
		}
	}
	for _, s := range strings {
		fields = append(append(fields, s...), 0)
	}
	if len(strings) == 0 {
		fields = append(fields, 0)
	}
	return append(fields, 0)
}

func serverSMBIOS() []byte {
	return smbiosTable(
		smbiosStructure(0, 0x18, map[int]int{4: 1, 5: 2, 8: 3}, "American Megatrends", "2.4", "01/15/2024"),
		smbiosStructure(1, 0x1b, map[int]int{4: 1, 5: 2, 7: 3}, "Supermicro", "AS-1114S", "To Be Filled By O.E.M."),
		smbiosStructure(4, 0x30, map[int]int{0x10: 1}, "Neoverse-N1  "),
		smbiosStructure(32, 0x0b, nil),
		smbiosStructure(17, 0x5c, map[int]int{0x0c: 0x7fff, 0x1c: 131072, 0x10: 1, 0x11: 2, 0x15: 3200, 0x20: 2933}, "DIMMA1",
			"P0_Node0"),
		smbiosStructure(17, 0x5c, map[int]int{0x10: 1, 0x11: 2}, "DIMMA2", "P0_Node0"),
		smbiosStructure(17, 0x28, map[int]int{0x0c: 16384, 0x10: 1, 0x15: 2400}, "DIMMB1"),
		smbiosStructure(17, 0x5c, map[int]int{0x0c: 0x7fff, 0x1c: 262144, 0x10: 1, 0x20: 0xffff, 0x58: 70400}, "DIMMC1"),
		smbiosStructure(127, 4, nil),
		smbiosStructure(17, 0x28, map[int]int{0x0c: 16384, 0x10: 1}, "after the end"),
	)
}

func TestSMBIOSTellsSystemAndModules(t *testing.T) {
	f := parseSMBIOS(serverSMBIOS())
	want := firmware{
		system:    inventory.System{Vendor: "Supermicro", Product: "AS-1114S", Firmware: "2.4 01/15/2024"},
		processor: "Neoverse-N1",
		dimms: []inventory.DIMM{
			{Slot: "P0_Node0 DIMMA1", SizeMiB: 131072, Speed: "2933 MT/s"},
			{Slot: "DIMMB1", SizeMiB: 16384, Speed: "2400 MT/s"},
			{Slot: "DIMMC1", SizeMiB: 262144, Speed: "70400 MT/s"},
		},
	}
	if d := cmp.Diff(want, f, cmp.AllowUnexported(firmware{})); d != "" {
		t.Error(d)
	}
}

func TestVerdictOfSMART(t *testing.T) {
	for _, c := range []struct {
		name, json string
		healthy    bool
		words      string
	}{
		{"no SMART", `{"smartctl":{"exit_status":1}}`, true, "no SMART"},
		{"ATA that fails", `{"smart_status":{"passed":false},"ata_smart_attributes":{"table":[{"id":5,"raw":{"value":9}}]}}`,
			false, "SMART failed, 9 reallocated sectors"},
		{"NVMe that is only hot", `{"smart_status":{"passed":false},"nvme_smart_health_information_log":{"critical_warning":2}}`,
			true, "SMART passed"},
		{"NVMe without spare blocks", `{"smart_status":{"passed":false},"nvme_smart_health_information_log":{"critical_warning":1,"percentage_used":104}}`, false, "SMART failed, critical warning 0x01, 104 % worn"},
		{"SAS", `{"smart_status":{"passed":true},"scsi_grown_defect_list":4,"endurance_used":{"current_percent":7}}`, true,
			"SMART passed, 7 % worn, 4 grown defects"},
	} {
		s, err := parseSMART([]byte(c.json))
		must(t, err)
		if healthy, words := s.verdict(); healthy != c.healthy || words != c.words {
			t.Errorf("%s: %v %q, want %v %q", c.name, healthy, words, c.healthy, c.words)
		}
	}
}

func FuzzSMBIOS(f *testing.F) {
	qemu, err := os.ReadFile("testdata/qemu.dmi")
	must(f, err)
	f.Add(qemu)
	f.Add(serverSMBIOS())
	f.Add([]byte{17, 4, 0, 0, 0, 0, 1, 3, 0, 0})
	f.Fuzz(func(t *testing.T, table []byte) {
		found := parseSMBIOS(table)
		if len(found.dimms) > len(table)/4 {
			t.Errorf("%d modules in %d bytes", len(found.dimms), len(table))
		}
		for _, d := range found.dimms {
			if d.SizeMiB < 0 {
				t.Errorf("module of %d MiB", d.SizeMiB)
			}
		}
	})
}

func FuzzSMART(f *testing.F) {
	f.Add([]byte(`{"smart_status":{"passed":true},"nvme_smart_health_information_log":{"critical_warning":0,"percentage_used":3}}`))
	f.Add([]byte(`{"ata_smart_attributes":{"table":[{"id":197,"raw":{"value":8,"string":"8"}}]},"smart_status":{"passed":false}}`))
	f.Add([]byte(`{"json_format_version":[1,0],"smartctl":{"exit_status":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseSMART(text)
		if err != nil {
			return
		}
		if healthy, words := s.verdict(); words == "" || !healthy && words == "SMART passed" {
			t.Errorf("%v %q", healthy, words)
		}
	})
}

// FuzzPrograms feeds the parsers of what programs say.
func FuzzPrograms(f *testing.F) {
	f.Add("MCE:   1   2  Machine check exceptions\n")
	f.Add("Supported link modes: 1000baseT/Full 25000baseCR/Full\n")
	f.Add("0000:00:02.0 \"VGA \\\"x\\\" controller\" \"Red Hat\" \"QXL\" -r01 \"\" \"\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		if interruptCount(text, "MCE") < 0 || parseEthtool(text) < 0 {
			t.Error("less than nothing")
		}
		_ = pciNames(text)
		_ = busOf(text, text)
	})
}
