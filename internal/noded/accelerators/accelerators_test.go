package accelerators

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/inventory"
	"muster/internal/inventory/hardware"
	"muster/internal/inventory/shapes"
	"muster/internal/protocol"
)

// put writes a file of a tree.
func put(t *testing.T, root, path, content string) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// driven is a shape whose GPUs have a driver. It has few of its cores: each is a folder of files, which is not looked at here.
func driven(t *testing.T, shape, driver string) (root string, gpus []inventory.Device) {
	t.Helper()
	f := shapes.Named(shape)
	for i := range f.Devices {
		if f.Devices[i].Kind == "gpu" {
			f.Devices[i].Driver = driver
		}
	}
	f.Layout = slices.DeleteFunc(slices.Clone(f.Layout), func(c inventory.Core) bool { return c.ID%16 > 0 })
	root = t.TempDir()
	if err := shapes.Write(root, f); err != nil {
		t.Fatal(err)
	}
	return root, f.GPUs()
}

// information is NVIDIA's file of one GPU, of driver 550.
func information(minor int, address string) string {
	return fmt.Sprintf("Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 253\nGPU UUID: \t "+
		"GPU-4f1a2c33-0000-0000-0000-00000000000%d\nVideo BIOS: \t 96.00.89.00.01\nBus Type: \t PCIe\nDMA Size: \t 52 "+
		"bits\nDMA Mask: \t 0xfffffffffffff\nBus Location: \t %s\nDevice Minor: \t %d\nGPU Firmware: \t 550.127.05\nGPU "+
		"Excluded:\t No\n", minor, address, minor)
}

func TestNVIDIAsGPUsAreFoundWithTheirDevices(t *testing.T) {
	root, devices := driven(t, "dgx-h100", "nvidia")
	put(t, root, "sys/module/nvidia/version", "550.127.05\n")
	for i, d := range devices {
		put(t, root, filepath.Join(nvidiaDir, d.PCI, "information"), information(i, d.PCI))
	}
	found := GPUs(hardware.Tree(root))
	if len(found) != 8 {
		t.Fatalf("%d GPUs: %+v", len(found), found)
	}
	numa := hardware.Read(hardware.Tree(root)).NUMA
	for i, g := range found {
		want := protocol.GPUFacts{PCI: devices[i].PCI, Driver: "nvidia", Model: "NVIDIA H100 80GB HBM3", Version: "550.127.05",
			Device: fmt.Sprintf("/dev/nvidia%d", i),
			UUID:   fmt.Sprintf("GPU-4f1a2c33-0000-0000-0000-00000000000%d", i)}
		for _, n := range numa {
			if n.ID == devices[i].NUMA {
				want.CPUs = n.CPUs
			}
		}
		if diff := cmp.Diff(want, g); diff != "" {
			t.Errorf("gpu%d: %s", i, diff)
		}
	}
	if found[0].CPUs == found[7].CPUs {
		t.Error("GPUs of two sockets are near the same CPUs")
	}
}

func TestAMDsGPUsAreFoundWithTheirDevices(t *testing.T) {
	root, devices := driven(t, "dgx-h100", "amdgpu")
	for i, d := range devices {
		at := filepath.Join(pciDir, d.PCI)
		put(t, root, filepath.Join(at, "product_name"), "AMD Instinct MI300X OAM\n")
		put(t, root, filepath.Join(at, "unique_id"), "b0f7e4a7f5d4a5c1\n")
		put(t, root, filepath.Join(at, "mem_info_vram_total"), "206141652992\n")
		put(t, root, filepath.Join(at, "drm", fmt.Sprintf("renderD%d", 128+i), "dev"), "226:128\n")
		put(t, root, filepath.Join(at, "drm/card1/dev"), "226:1\n")
	}
	put(t, root, "sys/module/amdgpu/version", "6.8.5\n")
	for i, g := range GPUs(hardware.Tree(root)) {
		if g.Device != fmt.Sprintf("/dev/dri/renderD%d", 128+i) || g.Model != "AMD Instinct MI300X OAM" ||
			g.MemoryMiB != 196592 || g.Version != "6.8.5" || g.UUID == "" {
			t.Errorf("gpu%d: %+v", i, g)
		}
	}
}

func TestAMissingGPUIsSaidInWords(t *testing.T) {
	expected := []protocol.GPU{{Address: "r1/gpu0"}, {Address: "r1/gpu1"}}
	both := []protocol.GPUFacts{{PCI: "0000:17:00.0", Driver: "nvidia", Device: "/dev/nvidia0"},
		{PCI: "0000:5d:00.0", Driver: "nvidia", Device: "/dev/nvidia1", Model: "NVIDIA A40"}}
	for _, c := range []struct {
		found []protocol.GPUFacts
		want  string
	}{
		{both, ""},
		{nil, "the machine has 2 GPUs and none is on the PCI bus"},
		{both[:1], "the machine has 2 GPUs and only 1 is on the PCI bus"},
		{[]protocol.GPUFacts{both[0], {PCI: "0000:5d:00.0"}}, "gpu1 (0000:5d:00.0) has no driver"},
		{[]protocol.GPUFacts{both[0], {PCI: "0000:5d:00.0", Driver: "nvidia"}},
			"the driver nvidia does not have gpu1 (0000:5d:00.0)"},
	} {
		got := ""
		if err := Missing(c.found, expected); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v:\n%q, want\n%q", c.found, got, c.want)
		}
	}
	if err := Silent(both, map[string]int{"0000:17:00.0": 46068}); err == nil ||
		err.Error() != "gpu1 (0000:5d:00.0, NVIDIA A40) does not answer its driver" {
		t.Error(err)
	}
	other := []protocol.GPUFacts{{CPUs: "0-3"}, {CPUs: "4-7"}}
	if Name(other, []protocol.GPU{{Address: "r1/gpu0", CPUs: "4-7"}, {Address: "r1/gpu1", CPUs: "0-3"}}); other[0].Address != "" {
		t.Errorf("a GPU got the address of one that is elsewhere: %+v", other)
	}
	Name(both, expected)
	if both[1].Address != "r1/gpu1" {
		t.Errorf("%+v", both)
	}
}

func TestAGPUWithoutADriverIsMissedOnlyIfTheImageHasOne(t *testing.T) {
	for name, c := range map[string]struct {
		driver, modules string
		lacks, wrong    string // of the first of eight
	}{
		"an image without any":         {"", "", "nvidia", ""},
		"an image that shows pictures": {"nouveau", "kernel/drivers/gpu/drm/nouveau/nouveau.ko:\n", "nvidia", ""},
		"a driver that did not start":  {"", "updates/nvidia.ko:\nupdates/nvidia-uvm.ko:\n", "", "gpu0 ("},
	} {
		root, devices := driven(t, "dgx-h100", c.driver)
		put(t, root, "lib/modules/"+shapes.Named("dgx-h100").Kernel+"/modules.dep", c.modules)
		found := GPUs(hardware.Tree(root))
		if len(found) != len(devices) || found[0].Lacks != c.lacks {
			t.Errorf("%s: %d GPUs, %+v", name, len(found), found[0])
		}
		err := Missing(found, make([]protocol.GPU, len(devices)))
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.HasPrefix(err.Error(), c.wrong)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPortsOfAdaptersAreReadFromSysfs(t *testing.T) {
	root := t.TempDir()
	at := "sys/class/infiniband/mlx5_0/ports/1/"
	for name, content := range map[string]string{
		"link_layer": "InfiniBand", "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "lid": "0x1a",
		"gids/0": "fe80:0000:0000:0000:b83f:d203:00c4:98b4", "pkeys/0": "0xffff", "pkeys/1": "0x8001", "pkeys/2": "0x0000",
		"pkeys/10": "0x0002",
	} {
		put(t, root, at+name, content+"\n")
	}
	for name, content := range map[string]string{"link_layer": "Ethernet", "state": "1: DOWN", "phys_state": "3: Disabled",
		"rate": "40 Gb/sec (4X QDR)", "lid": "0x0"} {
		put(t, root, "sys/class/infiniband/mlx5_1/ports/1/"+name, content+"\n")
	}
	want := []protocol.Port{
		{Device: "mlx5_0", Port: 1, Layer: "InfiniBand", State: "Active", Link: "LinkUp", Rate: "400 Gb/sec (4X NDR)", LID: 26,
			GUID: "b83f:d203:00c4:98b4", PKeys: []string{"0xffff", "0x8001", "0x0002"}},
		{Device: "mlx5_1", Port: 1, Layer: "Ethernet", State: "Down", Link: "Disabled", Rate: "40 Gb/sec (4X QDR)"},
	}
	if diff := cmp.Diff(want, Ports(hardware.Tree(root))); diff != "" {
		t.Error(diff)
	}
}

func TestNvidiaSmiIsReadInItsOwnFormats(t *testing.T) {
	for file, want := range map[string]map[string]int{
		"a40x4.csv":    {"0000:4f:00.0": 46068, "0000:52:00.0": 46068, "0000:53:00.0": 46068, "0000:56:00.0": 46068},
		"domain.csv":   {"0009:01:00.0": 97871, "10000:01:00.0": 0},
		"lost.txt":     nil,
		"nodriver.txt": nil,
	} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseMemory(string(text))
		if (err != nil) != (want == nil) {
			t.Errorf("%s: %v %v", file, got, err)
		}
		if want != nil {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", file, diff)
			}
		} else if !strings.HasPrefix(err.Error(), "nvidia-smi: ") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func FuzzParseMemory(f *testing.F) {
	for _, file := range []string{"a40x4.csv", "domain.csv", "lost.txt", "nodriver.txt"} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseMemory(text)
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		for address, mib := range all {
			if len(address) < len("0000:00:00.0") || mib < 0 {
				t.Errorf("%q: %d MiB", address, mib)
			}
		}
	})
}

func FuzzFilesOfTheKernel(f *testing.F) {
	f.Add(information(3, "0000:5d:00.0"), "4: ACTIVE", "0x1a", "fe80:0000:0000:0000:b83f:d203:00c4:98b4")
	f.Add("Device Minor: 999", "ACTIVE", "-1", "::")
	f.Fuzz(func(t *testing.T, info, word, number, gid string) {
		for _, value := range parseInformation(info) {
			if len(short(value)) > mostText {
				t.Errorf("%q is too long", value)
			}
		}
		if len(capital(state(word))) > mostText || lid(number) < 0 || len(guid(gid)) > mostText {
			t.Errorf("%q %q %q", word, number, gid)
		}
	})
}

func TestAPortWithoutItsPartitionOrWithAnothersSaysSo(t *testing.T) {
	port := func(keys ...string) protocol.Port {
		return protocol.Port{Device: "mlx5_0", Port: 1, Layer: "InfiniBand", State: "Active", GUID: "b83f:d203:00c4:98b4",
			PKeys: keys}
	}
	down, ethernet := port("0x8002"), port("0xffff")
	down.State, ethernet.Layer = "Down", "Ethernet"
	unnamed := port("0x8005") // on a fabric that is not Muster's
	unnamed.GUID = "b83f:d203:00c4:98b5"
	for _, c := range []struct {
		ports []protocol.Port
		want  string
	}{
		{nil, ""},
		{[]protocol.Port{port("0x7fff", "0x8001"), down, ethernet, unnamed}, ""},
		{[]protocol.Port{port("0x8001", "0x7009", "0xffff")}, ""}, // not ours to judge
		{[]protocol.Port{port("0x8009")},
			"mlx5_0 port 1 is not in its cluster's partition 0x0001; mlx5_0 port 1 holds 0x8009, which is not its cluster's"},
		{[]protocol.Port{port("0x7fff")}, "mlx5_0 port 1 is not in its cluster's partition 0x0001"},
		{[]protocol.Port{port("0x7fff", "0x8001", "0x8002", "0x0003")},
			"mlx5_0 port 1 holds 0x8002, 0x0003, which is not its cluster's"},
		{[]protocol.Port{port("0x7fff", "0x8001", "what")}, "mlx5_0 port 1 holds what, which is not its cluster's"},
	} {
		got := ""
		if err := Partitions(c.ports, map[string]uint16{"0xb83fd20300c498b4": 1}); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v:\n%q, want\n%q", c.ports, got, c.want)
		}
	}
}
