package vm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// procOf lays files out as /proc has them.
func procOf(t *testing.T, files map[string]string) string {
	t.Helper()
	proc := t.TempDir()
	for name, content := range files {
		path := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return proc
}

func TestInterruptsOfAGuestsDevicesGoToTheCPUsBesideIt(t *testing.T) {
	proc := procOf(t, map[string]string{
		"interrupts": `           CPU0       CPU1       CPU2       CPU3
  9:          0          4          0          0   IO-APIC    9-fasteoi   acpi
 45:       1187          0          0          0  IR-PCI-MSIX-0000:3b:00.1    0-edge      vfio-msix[0](0000:3b:00.1)
 46:          0          0       2291          0  IR-PCI-MSIX-0000:3b:00.1    1-edge      vfio-msix[1](0000:3b:00.1)
 47:          0          0          0          7  IR-PCI-MSIX-0000:3b:00.2    0-edge      vfio-msix[0](0000:3b:00.2)
 48:          0          0          0          0  IR-PCI-MSI-0000:17:00.0    0-edge      vfio-msi[0](0000:17:00.0)
 49:          0          0          0          0  IR-PCI-MSIX-0000:3b:00.0    0-edge      mlx5_async0@pci:0000:3b:00.0
 50:          0          0          0          0  IR-PCI-MSIX-0000:17:00.0    2-edge      vfio-msix[2](0000:17:00.0)
NMI:          0          0          0          0   Non-maskable interrupts
ERR:          0
`,
		"irq/45/smp_affinity_list": "0-3\n", "irq/46/smp_affinity_list": "1\n", "irq/47/smp_affinity_list": "0-3\n",
		"irq/48/smp_affinity_list": "0-3\n", "irq/49/smp_affinity_list": "0-3\n", // 50 is given up meanwhile
	})
	for range 2 {
		if err := steer(proc, []string{"0000:3b:00.1", "0000:17:00.0"}, "1"); err != nil {
			t.Fatal(err)
		}
	}
	for number, want := range map[string]string{"45": "1", "46": "1", "47": "0-3", "48": "1", "49": "0-3"} {
		got, _ := os.ReadFile(filepath.Join(proc, "irq", number, "smp_affinity_list"))
		if strings.TrimSpace(string(got)) != want {
			t.Errorf("interrupt %s is handled on %s, want %s", number, got, want)
		}
	}
	if err := os.Remove(filepath.Join(proc, "irq/45/smp_affinity_list")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(proc, "irq/45/smp_affinity_list"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := steer(proc, []string{"0000:3b:00.1"}, "1"); err == nil || !strings.Contains(err.Error(), "interrupt 45") {
		t.Errorf("an interrupt that cannot be steered: %v", err)
	}
	if err := steer("/nonexistent", nil, "1"); err != nil {
		t.Errorf("a guest without devices: %v", err)
	}
}

func TestThreadsOfAGuestAreKnownByTheirNames(t *testing.T) {
	proc := procOf(t, map[string]string{
		"70/comm": "qemu-system-x86\n", "70/task/70/comm": "qemu-system-x86\n", "70/task/71/comm": "IO mon_iothread\n",
		"70/task/72/comm": "CPU 0/KVM\n", "70/task/73/comm": "CPU 1/KVM\n", "70/task/74/comm": "worker\n",
		"80/comm": "vhost-70\n", "81/comm": "vhost-70\n", "82/comm": "vhost-700\n", "83/comm": "CPU 0/KVM\n",
	})
	all, err := threadsOf(proc, 70)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	for _, thread := range all {
		ids = append(ids, thread.id)
	}
	if want := []int{70, 71, 72, 73, 74, 80, 81}; !slices.Equal(ids, want) {
		t.Errorf("found %v, want %v", ids, want)
	}
	if got, want := all.cpus(3), []int{72, 73, 0}; !slices.Equal(got, want) {
		t.Errorf("virtual CPUs are the threads %v, want %v", got, want)
	}
}

func TestHugePagesAreNoRoomForQEMUItself(t *testing.T) {
	const guest = 64 << 10
	for _, c := range []struct {
		pageKiB int
		kvm     bool
		want    int
	}{
		{plain, true, guest + 1024 + 512}, {2 << 10, true, 1024 + 512}, {1 << 20, true, 1024 + 512},
		{plain, false, guest + 1024 + 512 + 1024}, {2 << 10, false, 1024 + 512 + 1024},
	} {
		if got := boundMiB(guest, c.pageKiB, c.kvm); got != c.want {
			t.Errorf("pages of %d KiB, KVM %v: it may take %d MiB, want %d", c.pageKiB, c.kvm, got, c.want)
		}
	}
}
