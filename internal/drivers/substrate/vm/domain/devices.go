package domain

import (
	"fmt"
	"slices"

	"libvirt.org/go/libvirtxml"

	"muster/internal/inventory"
)

// mostQueues is how many queues a NIC has at most: beyond it another costs the host's kernel more than it brings.
const mostQueues = 8

// Queues is how many queues the NIC of a guest with so many CPUs has. Its tap needs as many.
func Queues(cpus int) int { return min(max(cpus, 1), mostQueues) }

// devices are the fewest that carry a node. There is nothing to look at, to click at or to plug in.
func (p *plan) devices() *libvirtxml.DomainDeviceList {
	zero := uint(0)
	driver := &libvirtxml.DomainInterfaceDriver{Name: "qemu", Queues: uint(Queues(len(p.cpus)))}
	if p.Vhost {
		driver.Name = "vhost"
	} else {
		p.warn("its packets go through the emulator: the host has no /dev/vhost-net (kernel module vhost_net)")
	}
	if driver.Queues == 1 {
		driver.Queues = 0 // libvirt's way to say so
	}
	controllers, passed := p.passThrough()
	return &libvirtxml.DomainDeviceList{
		Controllers: append([]libvirtxml.DomainController{{Type: "usb", Model: "none"}}, controllers...),
		Disks:       []libvirtxml.DomainDisk{disk(p.Root, "vda"), disk(p.Agent, "vdb")},
		Interfaces: []libvirtxml.DomainInterface{{
			MAC:    &libvirtxml.DomainInterfaceMAC{Address: p.MAC.String()},
			Source: &libvirtxml.DomainInterfaceSource{Ethernet: &libvirtxml.DomainInterfaceSourceEthernet{}},
			Target: &libvirtxml.DomainInterfaceTarget{Dev: p.NIC, Managed: "no"},
			Model:  &libvirtxml.DomainInterfaceModel{Type: "virtio"},
			Driver: driver,
			ROM:    &libvirtxml.DomainROM{Enabled: "no"}, // it boots from no network
		}},
		Serials: []libvirtxml.DomainSerial{{
			Source: &libvirtxml.DomainChardevSource{File: &libvirtxml.DomainChardevSourceFile{Path: p.Console, Append: "on"}},
			Target: &libvirtxml.DomainSerialTarget{Type: "isa-serial", Port: &zero},
		}},
		Hostdevs:   passed,
		MemBalloon: &libvirtxml.DomainMemBalloon{Model: "none"},
		RNGs: []libvirtxml.DomainRNG{{
			Model: "virtio",
			// Without a rate a guest that reads without end keeps its host's kernel at making random bytes.
			Rate: &libvirtxml.DomainRNGRate{Bytes: 1 << 20, Period: 1000},
			Backend: &libvirtxml.DomainRNGBackend{
				Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}},
		}},
	}
}

func disk(d Disk, name string) libvirtxml.DomainDisk {
	thread := uint(1)
	return libvirtxml.DomainDisk{
		Device: "disk", ReadOnly: &libvirtxml.DomainDiskReadOnly{}, Shareable: &libvirtxml.DomainDiskShareable{},
		Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw", IOThread: &thread},
		Source: &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: d.Path}},
		Target: &libvirtxml.DomainDiskTarget{Dev: name, Bus: "virtio"},
		Serial: d.Serial,
	}
}

// passThrough gives the guest its devices, each behind the expander bus of the NUMA node that it is near to. Devices that
// reach each other by one root port of the host's do so in the guest, behind a switch: programs that look for the shortest
// way from a GPU to an adapter find it.
func (p *plan) passThrough() ([]libvirtxml.DomainController, []libvirtxml.DomainHostdev) {
	if len(p.Allocation.Devices) == 0 {
		return nil, nil
	}
	b := &buses{controllers: []libvirtxml.DomainController{pci(0, "pcie-root")}, top: 256}
	var passed []libvirtxml.DomainHostdev
	for i, near := range p.byCell() {
		at := &bus{root: true}
		if i < len(p.cells) && len(near) > 0 {
			at = b.expander(i, near)
		}
		for _, group := range near {
			passed = append(passed, b.plug(at, group)...)
		}
	}
	return b.controllers, passed
}

// byCell groups the devices by NUMA node of the guest, the last being those that are near to none of its nodes, and
// within by the host's root port.
func (p *plan) byCell() [][][]inventory.Device {
	cells := make([][][]inventory.Device, len(p.cells)+1)
	for _, device := range p.given {
		cell := slices.IndexFunc(p.cells, func(c cell) bool { return c.NUMA == device.NUMA })
		if cell < 0 && len(p.Facts.NUMA) == 1 {
			cell = 0
		}
		if cell < 0 {
			cell = len(p.cells)
			p.warn(fmt.Sprintf("device %s is near to none of its NUMA nodes", device.PCI))
		}
		group := slices.IndexFunc(cells[cell], func(g []inventory.Device) bool { return rootPort(g[0]) == rootPort(device) })
		if group < 0 || rootPort(device) == "" {
			cells[cell] = append(cells[cell], nil)
			group = len(cells[cell]) - 1
		}
		cells[cell][group] = append(cells[cell][group], device)
	}
	return cells
}

func rootPort(d inventory.Device) string {
	if len(d.Path) == 0 {
		return ""
	}
	return d.Path[0]
}

// buses are a guest's PCI buses in the making. libvirt numbers the rest of its own accord, behind those that are here.
type buses struct {
	controllers []libvirtxml.DomainController
	top         int // lowest bus number that an expander has taken
}

// bus is one that devices can be plugged into.
type bus struct {
	index uint
	slots uint // that are taken
	root  bool // the machine's own, whose slots libvirt deals out
}

// expander makes the bus of one of the guest's NUMA nodes. Bus numbers beyond its own are for what is behind it.
func (b *buses) expander(cell int, near [][]inventory.Device) *bus {
	b.top--
	for _, group := range near {
		b.top-- // the port
		if len(group) > 1 {
			b.top -= 1 + len(group) // the switch's inner bus, and one for each device
		}
	}
	number, node := uint(b.top), uint(cell)
	c := pci(b.next(), "pcie-expander-bus")
	c.PCI = &libvirtxml.DomainControllerPCI{Target: &libvirtxml.DomainControllerPCITarget{BusNr: &number, NUMANode: &node}}
	b.controllers = append(b.controllers, c)
	return &bus{index: *c.Index}
}

// plug puts devices that belong together behind one root port of a bus.
func (b *buses) plug(at *bus, group []inventory.Device) []libvirtxml.DomainHostdev {
	port := b.bridge("pcie-root-port", at)
	if len(group) == 1 {
		return []libvirtxml.DomainHostdev{hostdev(group[0], port)}
	}
	inner := b.bridge("pcie-switch-upstream-port", port)
	var passed []libvirtxml.DomainHostdev
	for _, device := range group {
		passed = append(passed, hostdev(device, b.bridge("pcie-switch-downstream-port", inner)))
	}
	return passed
}

// bridge makes a port on a bus, and returns the bus behind it.
func (b *buses) bridge(model string, at *bus) *bus {
	c := pci(b.next(), model)
	c.Address = at.take()
	b.controllers = append(b.controllers, c)
	return &bus{index: *c.Index}
}

func (b *buses) next() uint { return uint(len(b.controllers)) }

// take is the address of the next free slot; nil where libvirt chooses it.
func (b *bus) take() *libvirtxml.DomainAddress {
	if b.root {
		return nil
	}
	domain, index, slot, function := uint(0), b.index, b.slots, uint(0)
	b.slots++
	return &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{Domain: &domain, Bus: &index, Slot: &slot,
		Function: &function}}
}

func pci(index uint, model string) libvirtxml.DomainController {
	return libvirtxml.DomainController{Type: "pci", Index: &index, Model: model}
}

// hostdev gives a device of the host's, which is bound to vfio-pci already.
func hostdev(d inventory.Device, at *bus) libvirtxml.DomainHostdev {
	return libvirtxml.DomainHostdev{
		Managed: "no",
		SubsysPCI: &libvirtxml.DomainHostdevSubsysPCI{
			Driver: &libvirtxml.DomainHostdevSubsysPCIDriver{Name: "vfio"},
			Source: &libvirtxml.DomainHostdevSubsysPCISource{Address: address(d.PCI)},
		},
		Address: at.take(),
	}
}

// address reads "0000:3b:00.1"; nil if it is none.
func address(text string) *libvirtxml.DomainAddressPCI {
	var domain, bus, slot, function uint
	if n, _ := fmt.Sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function); n != 4 {
		return nil
	}
	return &libvirtxml.DomainAddressPCI{Domain: &domain, Bus: &bus, Slot: &slot, Function: &function}
}
