package netboot

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/internal/inventory"
	"muster/internal/kit/testall"
	"muster/internal/protocol"
)

const bootMAC = "52:54:00:00:00:01"

// machine is a way in which a QEMU machine boots.
type machine struct {
	name   string
	uefi   bool
	device string // and its parameters
	more   []string
}

// boot switches a machine on, and answers what is on its console so far.
func (s *segment) boot(m machine) func() string {
	s.t.Helper()
	s.run("ip", "tuntap", "add", "tap0", "mode", "tap", "vnet_hdr")
	s.run("ip", "link", "set", "tap0", "master", "br0", "up")
	console := s.t.TempDir() + "/console"
	args := []string{
		program(s.t, "qemu-system-x86_64"), "-M", "q35,graphics=off", "-accel", "tcg", "-cpu", "qemu64", "-m", "512",
		"-nodefaults",
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
	run(s.t, s.ns, append(args, m.more...)...)
	said := func() string { text, _ := os.ReadFile(console); return string(text) }
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("console:\n%s", tail(said(), 4000))
		}
	})
	return said
}

// A machine of the two usual kinds boots until its kernel runs.
func TestAMachineBootsItsKernel(t *testing.T) {
	for _, m := range []machine{
		{name: "BIOS with iPXE in the card", device: "virtio-net-pci"},
		{name: "UEFI by native PXE", uefi: true, device: "virtio-net-pci,romfile="},
	} {
		t.Run(m.name, func(t *testing.T) {
			controller := newController(bootMAC)
			if steps := newSegment(t).bootsKernel(m, inventory.ModeOwn, controller); steps[0] != protocol.StepAddress {
				t.Errorf("the first step is %s", steps[0])
			}
		})
	}
}

// byHTTP keeps a UEFI from everything but HTTP boot over IPv4.
var byHTTP = []string{"-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=n", "-fw_cfg",
	"name=opt/org.tianocore/IPv6PXESupport,string=n", "-fw_cfg", "name=opt/org.tianocore/IPv6Support,string=n"}

// Every other kind of firmware that there is, with our own addresses and with those of the site's server.
func TestEveryFirmwareBootsItsKernel(t *testing.T) {
	testall.Only(t)
	for _, m := range []machine{
		{name: "BIOS e1000", device: "e1000"},
		{name: "BIOS e1000e", device: "e1000e"},
		{name: "UEFI with iPXE in the card", uefi: true, device: "virtio-net-pci"},
		{name: "UEFI e1000 with iPXE in the card", uefi: true, device: "e1000"},
		{name: "UEFI by native PXE", uefi: true, device: "virtio-net-pci,romfile="},
		{name: "UEFI by HTTP boot", uefi: true, device: "virtio-net-pci,romfile=", more: byHTTP},
	} {
		for _, mode := range []inventory.Mode{inventory.ModeOwn, inventory.ModeProxy} {
			t.Run(m.name+" "+string(mode), func(t *testing.T) {
				s := newSegment(t)
				if mode == inventory.ModeProxy {
					s.siteServer(fileOf(t, ""))
				}
				s.bootsKernel(m, mode, newController(bootMAC))
			})
		}
	}
}

// Where the site's own server names everything, it may name the script without a MAC.
func TestTheSitesServerNamesTheScript(t *testing.T) {
	testall.Only(t)
	for _, m := range []machine{{name: "BIOS", device: "virtio-net-pci"}, {name: "UEFI", uefi: true, device: "virtio-net-pci"}} {
		t.Run(m.name, func(t *testing.T) {
			s := newSegment(t)
			s.siteServer(fileOf(t, "option:bootfile-name,http://10.78.0.1:8069%s\n", scriptPath))
			s.bootsKernel(m, inventory.ModeOff, newController(bootMAC))
		})
	}
}

// undionly.kpxe is what a BIOS loads that has no iPXE. The only PXE card there is for QEMU has, so the site's server sends it
// to undionly.kpxe first, and on to its script afterwards.
func TestABIOSLoadsIPXEByTFTP(t *testing.T) {
	testall.Only(t)
	s := newSegment(t)
	options := fileOf(t, "option:bootfile-name,tftp://10.78.0.1/undionly.kpxe\n")
	server := s.siteServer(options)
	go func() {
		for !strings.Contains(server.said(), "DHCPACK") && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		if err := os.WriteFile(options, []byte("option:bootfile-name,http://10.78.0.1:8069"+scriptPath+"\n"), 0o600); err != nil {
			t.Error(err)
		}
		_ = server.Process.Signal(syscall.SIGHUP)
	}()
	s.bootsKernel(machine{device: "virtio-net-pci"}, inventory.ModeOff, newController(bootMAC))
	if strings.Count(server.said(), "DHCPACK(eth0)") < 2 {
		t.Error("iPXE did not ask for its address a second time, from undionly.kpxe")
	}
}

// bootsKernel boots a machine until its kernel runs, and answers the steps that it was seen to reach. The kernel is another
// iPXE, which says so on the console.
func (s *segment) bootsKernel(m machine, mode inventory.Mode, controller *fakeController) []protocol.BootStep {
	t, blobs := s.t, newFolder(s.t)
	kernel, err := os.ReadFile(map[bool]string{false: "/usr/lib/ipxe/ipxe.lkrn", true: "/usr/lib/ipxe/ipxe.efi"}[m.uefi])
	if err != nil {
		t.Fatal(err)
	}
	controller.boot = BootConfig{Kernel: blobs.add(t, kernel), Drivers: blobs.add(t, []byte("drivers")), Token: "one-time"}
	s.serve(mode, controller, blobs, []byte("init"))
	begin, console := time.Now(), s.boot(m)
	var steps []protocol.BootStep
	var last time.Duration
	eventually(t, 5*time.Minute, "the kernel runs", func() bool {
		if now := controller.steps(bootMAC); len(now) > len(steps) {
			at := time.Since(begin)
			// Without an answer to its router solicitation, iPXE waits for 13 s or more before it asks for its script. On a busy
			// host all takes longer, so that what came before is the measure.
			if wait := at - last; now[len(now)-1] == protocol.StepScript && len(steps) > 0 && wait > max(12*time.Second, 2*last) {
				t.Errorf("from its address to its script the machine took %s", wait)
			}
			steps, last = now, at
			t.Logf("%.1f s: %v", at.Seconds(), steps)
		}
		_, after, fetched := strings.Cut(console(), initramfsPath)
		return fetched && strings.Contains(after, "iPXE initialising devices") && slices.Contains(steps, protocol.StepKernel)
	})
	t.Logf("%.1f s: the kernel runs", time.Since(begin).Seconds())
	return steps
}

// bootSector prints a word on the serial line and stops: what a local disk does in these tests.
func bootSector() []byte {
	var code []byte
	for _, c := range []byte("muster-disk") {
		code = append(code, 0xba, 0xf8, 0x03, 0xb0, c, 0xee) // mov dx, 0x3f8; mov al, c; out dx, al
	}
	code = append(code, 0xf4, 0xeb, 0xfd) // hlt; jmp to it
	sector := make([]byte, 1<<20)
	copy(sector, code)
	sector[510], sector[511] = 0x55, 0xaa
	return sector
}

// A machine that has nothing to boot from the network goes on to its own disk, and a UEFI to its next boot option.
func TestAMachineWithNothingToBootGoesOnToItsDisk(t *testing.T) {
	disk := []string{"-drive", "if=none,id=d0,format=raw,file=" + fileOf(t, "%s", bootSector()), "-device",
		"virtio-blk-pci,drive=d0,bootindex=2"}
	for _, c := range []struct {
		machine
		wants string
	}{
		{machine{name: "BIOS", device: "virtio-net-pci", more: disk}, "muster-disk"},
		{machine{name: "UEFI", uefi: true, device: "virtio-net-pci", more: disk}, "BdsDxe: failed to"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.uefi {
				testall.Only(t)
			}
			s, controller := newSegment(t), newController(bootMAC)
			controller.known[bootMAC] = false
			s.serve(inventory.ModeOwn, controller, newFolder(t), nil)
			console := s.boot(c.machine)
			eventually(t, 5*time.Minute, "the console says "+c.wants, func() bool {
				return strings.Contains(console(), c.wants)
			})
			if steps := controller.steps(bootMAC); slices.Contains(steps, protocol.StepScript) {
				t.Errorf("steps %v: nothing was booted", steps)
			}
		})
	}
}
