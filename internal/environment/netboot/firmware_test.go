package netboot

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/agent/protocol"
	"muster/internal/inventory"
)

const bootMAC = "52:54:00:00:00:01"

// machine is a way in which a QEMU machine boots.
type machine struct {
	name   string
	uefi   bool
	device string // and its parameters
	more   []string
	wants  []string // what it has to fetch by the way
}

// boot switches a machine on.
func (s *segment) boot(m machine) *strings.Builder {
	s.t.Helper()
	s.run("ip", "tuntap", "add", "tap0", "mode", "tap", "vnet_hdr")
	s.run("ip", "link", "set", "tap0", "master", "br0", "up")
	console := s.t.TempDir() + "/console"
	args := []string{
		program(s.t, "qemu-system-x86_64"), "-M", "q35,graphics=off", "-accel", "tcg", "-cpu", "qemu64", "-m", "512", "-nodefaults",
		"-display", "none", "-vga", "none", "-serial", "file:" + console, "-device", "virtio-rng-pci", "-no-reboot",
		"-netdev", "tap,id=n0,ifname=tap0,script=no,downscript=no", "-device", m.device + ",netdev=n0,bootindex=1,mac=" + bootMAC,
	}
	if m.uefi {
		vars, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd")
		if err != nil {
			s.t.Fatalf("%v: scripts/setup.sh test installs it", err)
		}
		args = append(args, "-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd",
			"-drive", "if=pflash,unit=1,format=raw,file="+fileOf(s.t, "%s", vars))
	}
	daemon(s.t, s.ns, append(args, m.more...)...)
	said := &strings.Builder{}
	s.t.Cleanup(func() {
		text, _ := os.ReadFile(console)
		said.Write(text)
		if s.t.Failed() {
			s.t.Logf("console:\n%s", tail(string(text), 4000))
		}
	})
	return said
}

// TestAMachineReachesItsKernel boots firmware of every kind as far as the kernel.
func TestAMachineReachesItsKernel(t *testing.T) {
	for _, m := range []machine{
		{name: "BIOS with iPXE in the card", device: "virtio-net-pci"},
		{name: "UEFI by native PXE", uefi: true, device: "virtio-net-pci,romfile="},
	} {
		t.Run(m.name, func(t *testing.T) { reachesKernel(t, m, inventory.ModeOwn) })
	}
}

func reachesKernel(t *testing.T, m machine, mode inventory.Mode) {
	s := newSegment(t)
	house, blobs := newHouse(bootMAC), newFolder(t)
	kernel, err := os.ReadFile(map[bool]string{false: "/usr/lib/ipxe/ipxe.lkrn", true: "/usr/lib/ipxe/ipxe.efi"}[m.uefi])
	if err != nil {
		t.Fatal(err)
	}
	init := fmt.Appendf(nil, "#!ipxe\n")
	house.boot = Boot{Kernel: blobs.add(t, kernel), Drivers: blobs.add(t, []byte("drivers")), Token: "one-time"}
	s.serve(mode, house, blobs, init)
	begin := time.Now()
	s.boot(m)
	want := []protocol.BootStep{protocol.StepAddress, protocol.StepScript, protocol.StepKernel}
	var steps []protocol.BootStep
	eventually(t, time.Minute, "kernel and initramfs are fetched", func() bool {
		if now := house.steps(bootMAC); len(now) > len(steps) {
			steps = now
			t.Logf("%.1f s: %v", time.Since(begin).Seconds(), steps)
		}
		return slices.Contains(steps, protocol.StepKernel)
	})
	_ = want
}
