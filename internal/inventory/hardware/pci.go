package hardware

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

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
	classHostBridge  = 0x0600
	classISABridge   = 0x0601
	classPCIBridge   = 0x0604
	classCoprocessor = 0x0b40
	classSMBus       = 0x0c05
	baseStorage      = 0x01
	baseAccelerator  = 0x12
)

// Kinds of devices, as inventory.Device has them.
const (
	kindGPU    = "gpu"
	kindHCA    = "hca"
	kindNIC    = "nic"
	kindNVMe   = "nvme"
	kindBridge = "bridge"
	kindOther  = "other"
)

const mellanox = "15b3"

// Function is one PCI function.
type Function struct {
	Address, Vendor, ID string // vendor and ID without 0x
	Class               int    // base class and subclass
	Driver              string
	Parent              string // the physical function, of a virtual one
	numa                int
	group               string
	path                []string // the bridges above it
}

// Functions are the PCI functions by their addresses.
func (t Tree) Functions() []Function {
	const dir = "sys/bus/pci/devices"
	var all []Function
	for _, address := range t.Names(dir) {
		class, err := strconv.ParseUint(t.Text(dir, address, "class"), 0, 32)
		if err != nil {
			continue
		}
		all = append(all, Function{
			Address: address,
			Vendor:  strings.TrimPrefix(t.Text(dir, address, "vendor"), "0x"),
			ID:      strings.TrimPrefix(t.Text(dir, address, "device"), "0x"),
			Class:   int(class >> 8),
			Driver:  t.Linked(dir, address, "driver"),
			Parent:  t.Linked(dir, address, "physfn"),
			numa:    int(t.Number(-1, dir, address, "numa_node")),
			group:   t.group(address),
			path:    bridges(t.Real(dir, address)),
		})
	}
	slices.SortFunc(all, func(a, b Function) int { return strings.Compare(a.Address, b.Address) })
	return all
}

// group is the function's IOMMU group; "" if it has none that keeps it from others: vfio's mode without an IOMMU makes
// groups too (Linux, drivers/vfio/group.c).
func (t Tree) group(address string) string {
	group := t.Linked("sys/bus/pci/devices", address, "iommu_group")
	if t.Text("sys/kernel/iommu_groups", group, "name") == "vfio-noiommu" {
		return ""
	}
	return group
}

// bridges are the PCI functions on a path in sysfs above the last one: the root port first.
func bridges(where string) []string {
	var above []string
	for part := range strings.SplitSeq(path.Dir(where), "/") {
		if isAddress(part) {
			above = append(above, part)
		}
	}
	return above
}

// Address is the last PCI function on a path in sysfs: "0000:3b:00.0".
func Address(where string) string {
	for ; where != "." && where != "/" && where != ""; where = path.Dir(where) {
		if base := path.Base(where); isAddress(base) {
			return base
		}
	}
	return ""
}

// isAddress says whether a text is a PCI function's address: domain, bus, device and function.
func isAddress(text string) bool {
	return len(text) >= len("0000:00:00.0") && strings.Count(text, ":") == 2 && strings.IndexByte(text, '.') == len(text)-2
}

// kind is what a cluster may want the function for; "" if nothing. It does not depend on the driver, which changes when
// the device is given to a guest.
func (f Function) kind() string {
	switch {
	case f.Class == class3D, f.Class == classDisplay, f.Class == classVGA && !f.boardDisplay():
		return kindGPU
	case f.Class>>8 == baseAccelerator && (f.Vendor == "1002" || f.Vendor == "10de"): // AMD's and NVIDIA's newest are here
		return kindGPU
	// Mellanox's do RDMA over Ethernet.
	case f.Class == classInfiniBand, f.Class == classFabric, f.Class == classEthernet && f.Vendor == mellanox:
		return kindHCA
	case f.Class == classEthernet:
		return kindNIC
	case f.Class == classNVMe:
		return kindNVMe
	case f.Class == classCoprocessor, f.Class>>8 == baseAccelerator, f.Class == classVGA:
		return kindOther
	}
	return ""
}

// Storage says that disks may hang on the function.
func (f Function) Storage() bool { return f.Class>>8 == baseStorage }

// boardDisplay says that the display is that of a BMC or of a virtual machine, which is not for computing: ASPEED, Matrox,
// Huawei, Cirrus, QEMU, Red Hat, virtio, VMware, VirtualBox, Hyper-V.
func (f Function) boardDisplay() bool {
	switch f.Vendor {
	case "1a03", "102b", "19e5", "1013", "1234", "1b36", "1af4", "15ad", "80ee", "1414":
		return true
	}
	return false
}

// Devices are the PCI functions that a cluster may want, and those that can be given to a guest only together with one
// of these. They have no names yet.
func (t Tree) Devices() []inventory.Device {
	functions := t.Functions()
	kinds, groups := map[string]string{}, map[string]bool{}
	for _, f := range functions {
		if kind := f.kind(); kind != "" {
			kinds[f.Address] = kind
			groups[f.group] = f.group != ""
		}
	}
	needs, macs := t.needs(), t.macs()
	var devices []inventory.Device
	for _, f := range functions {
		kind := kinds[f.Address]
		if of := kinds[f.Parent]; of != "" {
			kind = of // which its driver's name, and on some adapters its class, do not tell
		}
		switch {
		case kind != "":
		case !groups[f.group]:
			continue
		case f.Class == classPCIBridge, f.Class == classHostBridge:
			kind = kindBridge
		default:
			kind = kindOther
		}
		d := inventory.Device{
			Kind: kind, PCI: f.Address, Vendor: f.Vendor, ID: f.ID, NUMA: f.numa, Driver: f.Driver, Path: f.path, Group: f.group,
			Parent: f.Parent,
			VFs:    t.count("sys/bus/pci/devices", f.Address, "sriov_totalvfs"), MAC: macs[f.Address], GUID: t.guid(f.Address),
			Host: needs[f.Address],
		}
		if d.Host == "" && (f.Class == classISABridge || f.Class == classSMBus) {
			d.Host = needsBoard
		}
		devices = append(devices, d)
	}
	return devices
}

// macs are the addresses of the functions' Ethernet interfaces; of the first where a function has several.
func (t Tree) macs() map[string]string {
	const ethernet = 1 // include/uapi/linux/if_arp.h
	macs := map[string]string{}
	for _, name := range t.Names("sys/class/net") {
		address := Address(t.Real("sys/class/net", name, "device"))
		if address != "" && macs[address] == "" && t.Number(0, "sys/class/net", name, "type") == ethernet {
			own := t.Text("sys/class/net", name, "bonding_slave/perm_hwaddr") // a bond gives all its ports one address
			macs[address] = strings.ToLower(cmp.Or(own, t.Text("sys/class/net", name, "address")))
		}
	}
	return macs
}

// guid is the node's GUID of an adapter with a driver for RDMA.
func (t Tree) guid(address string) string {
	dir := []string{"sys/bus/pci/devices", address, "infiniband"}
	for _, name := range t.Names(dir...) {
		if guid := t.Text(append(dir, name, "node_guid")...); guid != "" {
			return guid
		}
	}
	return ""
}
