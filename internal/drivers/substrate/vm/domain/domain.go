// Package domain says in libvirt's words what a guest is: which of its host's cores, memory and devices it gets, and what
// it sees of them.
//
// What enters: the host's facts, what the guest has of it, and where its files are. What leaves: a domain's XML, and what
// could not be had. No input or output.
//
// The guest sees the truth. Its NUMA nodes are the holding's cells with the host's distances, its cores have the
// threads and caches that they have, its virtual CPUs are pinned one to one, and its devices are behind an expander bus
// of the NUMA node that they are near to. What runs the machine beside its CPUs (emulator, disks) stays off them.
package domain

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"libvirt.org/go/libvirtxml"

	"muster/internal/inventory"
	"muster/internal/place"
)

// Guest is what a domain is made of. Paths are as QEMU sees them.
type Guest struct {
	Name       string
	User       int             // whom QEMU runs as
	Facts      inventory.Facts // of the host
	Allocation place.Allocation
	KVM        bool // the host's CPUs run the guest; else they are emulated
	Vhost      bool // the host's kernel moves the packets

	Kernel, Initramfs, CommandLine string
	Root, Agent                    Disk
	Console                        string // a file
	NIC                            string // a tap
	MAC                            net.HardwareAddr
}

// Disk is a file that many guests may read.
type Disk struct{ Path, Serial string }

// Domain is a guest for libvirt.
type Domain struct {
	XML      string
	Pins     [][]int  // by virtual CPU: the host's CPUs that it may run on
	Besides  []int    // the host's CPUs for all else that works for the guest
	Warnings []string // what is less than a tuned guest has, for an operator
}

// Describe says what a guest is. An error says that the holding is not of such a host.
func Describe(g Guest) (Domain, error) {
	p, err := newPlan(g)
	if err != nil {
		return Domain{}, fmt.Errorf("guest %s: %w", g.Name, err)
	}
	d := &libvirtxml.Domain{
		Type:          "qemu",
		Name:          g.Name,
		Memory:        &libvirtxml.DomainMemory{Value: uint(p.memoryMiB()), Unit: "MiB"},
		VCPU:          &libvirtxml.DomainVCPU{Placement: "static", Value: uint(len(p.cpus))},
		IOThreads:     1,
		CPU:           p.cpu(),
		CPUTune:       p.pinning(),
		NUMATune:      p.binding(),
		MemoryBacking: p.backing(),
		OS: &libvirtxml.DomainOS{
			Type:   &libvirtxml.DomainOSType{Arch: arch(g.Facts.Arch), Machine: "q35", Type: "hvm"},
			Kernel: g.Kernel, Initrd: g.Initramfs, Cmdline: g.CommandLine,
		},
		Features: &libvirtxml.DomainFeatureList{
			ACPI: &libvirtxml.DomainFeature{}, APIC: &libvirtxml.DomainFeatureAPIC{},
			VMPort: &libvirtxml.DomainFeatureState{State: "off"},
		},
		SecLabel: []libvirtxml.DomainSecLabel{{Type: "static", Model: "dac", Relabel: "no",
			Label: fmt.Sprintf("+%d:+%d", g.User, g.User)}},
		Clock: &libvirtxml.DomainClock{Offset: "utc", Timer: []libvirtxml.DomainTimer{{Name: "hpet", Present: "no"}}},
		// Its token is used up and its memory was all it had: a guest that restarts has nothing to start from.
		OnPoweroff: "destroy", OnReboot: "destroy", OnCrash: "destroy",
		Devices: p.devices(),
	}
	if g.KVM {
		d.Type = "kvm"
		if g.Allocation.Share <= 1 { // then no virtual CPU ever waits for a real one, and the guest may count on it
			d.Features.KVM = &libvirtxml.DomainFeatureKVM{HintDedicated: &libvirtxml.DomainFeatureState{State: "on"}}
		}
	} else {
		p.warn("its CPUs are emulated, which is slow: KVM does not work on this host")
	}
	xml, err := d.Marshal()
	if err != nil {
		return Domain{}, fmt.Errorf("guest %s: %w", g.Name, err)
	}
	return Domain{XML: xml + "\n", Pins: p.pins(), Besides: p.besides(), Warnings: p.warnings}, nil
}

// arch is a processor's name in libvirt's words.
func arch(name string) string {
	switch name {
	case "arm64":
		return "aarch64"
	}
	return "x86_64"
}

// plan is a guest with its holding looked up in the host's facts.
type plan struct {
	Guest
	cores    []inventory.Core // all of the guest's, cell by cell
	cpus     []int            // by virtual CPU: the host's
	cells    []cell
	given    []inventory.Device
	warnings []string
}

// cell is one of the guest's NUMA nodes.
type cell struct {
	place.Cell
	node       inventory.NUMANode
	first, end int // its virtual CPUs
}

func newPlan(g Guest) (*plan, error) {
	p := &plan{Guest: g}
	for _, c := range g.Allocation.Cells {
		node := slices.IndexFunc(g.Facts.NUMA, func(n inventory.NUMANode) bool { return n.ID == c.NUMA })
		if node < 0 {
			return nil, fmt.Errorf("the host has no NUMA node %d", c.NUMA)
		}
		next := cell{Cell: c, node: g.Facts.NUMA[node], first: len(p.cpus)}
		for _, id := range c.Cores {
			core := slices.IndexFunc(g.Facts.Layout, func(o inventory.Core) bool { return o.ID == id })
			if core < 0 {
				return nil, fmt.Errorf("the host has no core %d", id)
			}
			p.cores = append(p.cores, g.Facts.Layout[core])
			p.cpus = append(p.cpus, g.Facts.Layout[core].CPUs...)
		}
		next.end = len(p.cpus)
		p.cells = append(p.cells, next)
	}
	if len(p.cpus) == 0 {
		return nil, errors.New("it has no cores")
	}
	for _, name := range g.Allocation.Devices {
		device := slices.IndexFunc(g.Facts.Devices, func(d inventory.Device) bool { return d.PCI == name })
		if device < 0 || address(name) == nil {
			return nil, fmt.Errorf("the host has no device %s", name)
		}
		p.given = append(p.given, g.Facts.Devices[device])
	}
	return p, nil
}

func (p *plan) warn(text string) { p.warnings = append(p.warnings, text) }

func (p *plan) memoryMiB() int {
	total := 0
	for _, c := range p.cells {
		total += c.MemoryMiB
	}
	return total
}
