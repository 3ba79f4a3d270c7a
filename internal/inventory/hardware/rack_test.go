package hardware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/internal/inventory"
	"muster/internal/kit/testall"
)

// TestMain is the first process of the QEMU machine too.
func TestMain(m *testing.M) {
	if os.Getpid() == 1 {
		inside()
	}
	os.Exit(m.Run())
}

// inside tells what the machine is, after it has taken some huge pages and switched a CPU off, and switches it off.
func inside() {
	for path, kind := range map[string]string{"/proc": "proc", "/sys": "sysfs"} {
		err := errors.Join(os.Mkdir(path, 0o755), syscall.Mount(kind, path, kind, 0, ""))
		fmt.Println("mount", path, err)
	}
	err := errors.Join(
		os.WriteFile("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", []byte("16"), 0),
		os.WriteFile("/sys/devices/system/cpu/cpu3/online", []byte("0"), 0))
	text, unwritten := json.Marshal(Read("/"))
	fmt.Printf("%v %v\nFACTS %s\n", err, unwritten, text)
	_ = syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

// TestAKernelsOwnTreeIsUnderstood boots a machine with two sockets, three NUMA nodes, an IOMMU, a disk with virtual
// functions, and a PCIe switch without ACS, so that its ports share the groups of what is below them.
func TestAKernelsOwnTreeIsUnderstood(t *testing.T) {
	testall.Only(t)
	dir, kernel := t.TempDir(), os.Getenv("MUSTER_TEST_KERNEL")
	if _, err := os.Stat(kernel); err != nil {
		t.Skip("no machine is booted: MUSTER_TEST_KERNEL names no unpacked kernel package; `make test-all` fetches one")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	run := func(script string, arguments ...string) {
		out, err := exec.CommandContext(ctx, "bash", append([]string{"-euc", script}, arguments...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	run(`CGO_ENABLED=0 go test -c -o "$0/root/init" .; truncate -s 16M "$0/disk"; cd "$0/root"; echo init | cpio --quiet -o -H newc >../initramfs`, dir)
	vmlinuz, err := filepath.Glob(filepath.Join(kernel, "boot/vmlinuz-*"))
	must(t, err)
	disk := "if=none,format=raw,snapshot=on,file=" + filepath.Join(dir, "disk") + ",id="
	out, err := exec.CommandContext(ctx, "qemu-system-x86_64", "-M", "q35,kernel-irqchip=split,sata=off", "-accel", "tcg",
		"-cpu", "qemu64,vendor=GenuineIntel", "-smp", "8,sockets=2,cores=2,threads=2", "-m", "768",
		"-object", "memory-backend-ram,id=m0,size=384M", "-object", "memory-backend-ram,id=m1,size=256M", "-object",
		"memory-backend-ram,id=m2,size=128M",
		"-numa", "node,nodeid=0,cpus=0-3,memdev=m0", "-numa", "node,nodeid=1,cpus=4-7,memdev=m1", "-numa",
		"node,nodeid=2,memdev=m2",
		"-numa", "dist,src=0,dst=1,val=21", "-numa", "dist,src=0,dst=2,val=14", "-numa", "dist,src=1,dst=2,val=24",
		"-nodefaults", "-display", "none", "-vga", "none", "-serial", "stdio", "-no-reboot",
		"-device", "intel-iommu,intremap=on,caching-mode=on", "-device", "pxb-pcie,id=second,bus_nr=64,numa_node=1,bus=pcie.0",
		"-device", "pcie-root-port,id=port0,bus=second,chassis=1,slot=1", "-device",
		"pcie-root-port,id=port1,bus=second,chassis=2,slot=2",
		"-device", "nvme-subsys,id=subsystem", "-device",
		"nvme,serial=N1,bus=port0,subsys=subsystem,sriov_max_vfs=4,sriov_vq_flexible=8,sriov_vi_flexible=4,max_ioqpairs=18,msix_qsize=20",
		"-device", "x3130-upstream,id=switch,bus=port1", "-device", "xio3130-downstream,id=down,bus=switch,chassis=3,slot=0",
		"-drive", disk+"d2", "-device", "nvme,serial=N2,drive=d2,bus=down",
		"-netdev", "user,id=n0,restrict=on", "-device", "virtio-net-pci,netdev=n0,bus=pcie.0,addr=5",
		"-kernel", vmlinuz[0], "-initrd", filepath.Join(dir, "initramfs"), "-append",
		"console=ttyS0 quiet panic=-1 no_timer_check intel_iommu=on nokaslr").CombinedOutput()
	found := regexp.MustCompile(`(?m)^FACTS (.*?)\r?$`).FindSubmatch(out)
	if err != nil || found == nil {
		t.Fatalf("%v: %s", err, out)
	}
	var f inventory.Facts
	must(t, json.Unmarshal(found[1], &f))
	layout, err := f.Layout.MarshalText()
	must(t, err)
	if want := "0/0/0:0+1 0/0/0:2 1/1/4:4,6+5,7"; string(layout) != want {
		t.Errorf("layout %s, want %s", layout, want)
	}
	nodes := []inventory.NUMANode{
		{ID: 0, CPUs: "0-2", Distances: []int{10, 21, 14}},
		{ID: 1, CPUs: "4-7", Distances: []int{21, 10, 24}, HugePages: []inventory.HugePages{{KiB: 2048, Total: 16, Free: 16}}},
		{ID: 2, Distances: []int{14, 24, 10}},
	}
	for i := range f.NUMA {
		if f.NUMA[i].MemoryMiB < 100 {
			t.Errorf("NUMA node %d has %d MiB", i, f.NUMA[i].MemoryMiB)
		}
		f.NUMA[i].MemoryMiB = 0 // the kernel keeps what it likes of each; by itself (nokaslr) it lies in the first
	}
	if diff := cmp.Diff(nodes, f.NUMA); diff != "" {
		t.Error(diff)
	}
	groups := map[string][]string{}
	for i := range f.Devices {
		d := &f.Devices[i]
		groups[d.Group] = append(groups[d.Group], d.Kind+" "+d.PCI)
		d.Group, d.Driver = "", ""
	}
	devices := []inventory.Device{
		{Kind: "nic", PCI: "0000:00:05.0", Vendor: "1af4", ID: "1000", NUMA: -1},
		{Kind: "nvme", PCI: "0000:41:00.0", Vendor: "1b36", ID: "0010", NUMA: 1, Path: []string{"0000:40:00.0"}, VFs: 4},
		{Kind: "bridge", PCI: "0000:43:00.0", Vendor: "104c", ID: "8233", NUMA: 1,
			Path: []string{"0000:40:01.0", "0000:42:00.0"}},
		{Kind: "nvme", PCI: "0000:44:00.0", Vendor: "1b36", ID: "0010", NUMA: 1,
			Path: []string{"0000:40:01.0", "0000:42:00.0", "0000:43:00.0"}},
	}
	if diff := cmp.Diff(devices, f.Devices); diff != "" {
		t.Error(diff)
	}
	for group, members := range groups {
		alone := len(members) == 1 && !strings.HasSuffix(members[0], "43:00.0") && !strings.HasSuffix(members[0], "44:00.0")
		pair := strings.Join(members, ", ") == "bridge 0000:43:00.0, nvme 0000:44:00.0"
		if group == "" || !alone && !pair {
			t.Errorf("group %q: %v", group, members)
		}
	}
}
