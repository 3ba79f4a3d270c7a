package inspection

import (
	"context"
	"strconv"
	"strings"
	"time"

	"muster/internal/inventory"
)

// PCI classes, as sysfs shows them: base class and subclass (PCI Code and ID Assignment Specification, chapter 1).
const (
	classNVMe        = 0x0108
	classEthernet    = 0x0200
	classInfiniBand  = 0x0207
	classFabric      = 0x0208 // Omni-Path
	classVGA         = 0x0300
	class3D          = 0x0302
	classDisplay     = 0x0380
	classCoprocessor = 0x0b40
	baseStorage      = 0x01
	baseAccelerator  = 0x12
)

// pciDevice is one function in sysfs.
type pciDevice struct {
	address, vendor, id string // vendor and id without 0x
	class               int    // base class and subclass
	driver              string
	numa                int
	virtual             bool // of SR-IOV
	rdma                bool // it has an InfiniBand device, with whatever link layer
}

// pci lists the PCI devices by their addresses.
func (m *machine) pci() []pciDevice {
	const dir = "sys/bus/pci/devices"
	var devices []pciDevice
	for _, address := range m.names(dir) {
		class, err := strconv.ParseUint(m.text(dir, address, "class"), 0, 32)
		if err != nil {
			continue
		}
		devices = append(devices, pciDevice{
			address: address,
			vendor:  strings.TrimPrefix(m.text(dir, address, "vendor"), "0x"),
			id:      strings.TrimPrefix(m.text(dir, address, "device"), "0x"),
			class:   int(class >> 8),
			driver:  m.linked(dir, address, "driver"),
			numa:    int(m.number(-1, dir, address, "numa_node")),
			virtual: m.exists(dir, address, "physfn"),
			rdma:    m.exists(dir, address, "infiniband"),
		})
	}
	return devices
}

// kind is what a cluster may want the device for; "" if nothing.
func (d pciDevice) kind() string {
	switch {
	case d.virtual:
		return ""
	case d.class == class3D, d.class == classDisplay, d.class == classVGA && !d.boardDisplay():
		return "gpu"
	case d.class>>8 == baseAccelerator && (d.vendor == "1002" || d.vendor == "10de"): // AMD's and NVIDIA's newest are here
		return "gpu"
	case d.class == classInfiniBand, d.class == classFabric, d.class == classEthernet && d.rdma && d.vendor == "15b3":
		return "hca"
	case d.class == classNVMe:
		return "nvme"
	case d.class == classCoprocessor, d.class>>8 == baseAccelerator, d.class == classVGA:
		return "other"
	}
	return ""
}

// boardDisplay says that the display is that of a BMC or of a virtual machine, which nobody computes with: ASPEED,
// Matrox, Huawei, Cirrus, QEMU, Red Hat, virtio, VMware, VirtualBox, Hyper-V.
func (d pciDevice) boardDisplay() bool {
	switch d.vendor {
	case "1a03", "102b", "19e5", "1013", "1234", "1b36", "1af4", "15ad", "80ee", "1414":
		return true
	}
	return false
}

// devices are the PCI devices that a cluster may want.
func (m *machine) devices(ctx context.Context) []inventory.Device {
	var devices []inventory.Device
	var names map[string]string
	for _, d := range m.pci() {
		kind := d.kind()
		if kind == "" {
			continue
		}
		if names == nil {
			out, _ := m.run(ctx, 10*time.Second, "lspci", "-Dmm") // without lspci a device has no name
			names = pciNames(string(out))
		}
		devices = append(devices, inventory.Device{
			Kind: kind, PCI: d.address, Vendor: d.vendor, ID: d.id, Name: names[d.address], NUMA: d.numa,
		})
	}
	return devices
}

// pciNames reads lspci -Dmm: an address and quoted words for class, vendor and device (lspci(8), -mm).
func pciNames(text string) map[string]string {
	names := map[string]string{}
	for line := range strings.Lines(text) {
		words := quotedWords(line)
		if len(words) >= 4 {
			names[words[0]] = strings.TrimSpace(words[2] + " " + words[3])
		}
	}
	return names
}

// quotedWords divides a line as a shell would: blanks divide, quotes hold together, a backslash spares the next character.
func quotedWords(line string) []string {
	var words []string
	var word strings.Builder
	started, quoted := false, false
	end := func() {
		if started {
			words = append(words, word.String())
		}
		word.Reset()
		started = false
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			quoted, started = !quoted, true
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			started = true
		case !quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			end()
		default:
			word.WriteByte(c)
			started = true
		}
	}
	end()
	return words
}
