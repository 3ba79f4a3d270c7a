// Package inventory has the types of what a site owns: machines and their facts, classes, what it charges, and which machine fits
// which class.
//
// What enters: facts as inspection found them, and the site's catalogue. What leaves: types and pure judgements. No I/O
// but the reading of the site file.
package inventory

import "muster/internal/kit/printable"

// Machine is one physical host, or one that is simulated.
type Machine struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Substrate string   `json:"substrate"`         // local, metal or vm
	Hosts     bool     `json:"hosts,omitempty"`   // a hypervisor: it holds guests instead of a node
	Host      string   `json:"host,omitempty"`    // ID of the machine that it is a guest of; "" of any other
	Network   string   `json:"network,omitempty"` // metal: name of the Network that it boots from
	MACs      []string `json:"macs,omitempty"`    // metal: of its NICs on that network, lower case with colons
	Ports     []string `json:"ports,omitempty"`   // metal: of the network's switch, one for each of MACs; empty: not known
	Power     Power    `json:"power,omitzero"`    // metal
	Facts     Facts    `json:"facts"`
	Location  Location `json:"location,omitzero"`
}

// IsGuest says that the machine is a part of a hypervisor.
func (m Machine) IsGuest() bool { return m.Host != "" }

// BootsFromNetwork says that the machine stands by itself on a network, boots from there, and calls from its address there.
func (m Machine) BootsFromNetwork() bool { return m.Network != "" }

// Power says how a machine is switched; drivers/power reads it.
type Power struct {
	// Control begins with a driver's scheme, which says how it goes on. It holds no secret.
	Control string `json:"control,omitempty"`
	// Credentials says where "user:password" is found: "secret:NAME" or "env:BMC…".
	Credentials string `json:"credentials,omitempty"`
}

// Facts are what inspection found. The zero value of a field means that it is not known.
type Facts struct {
	Host      string     `json:"host,omitempty"` // host name of the machine, or of the host that it is a part of
	Arch      string     `json:"arch,omitempty"` // as Go names it: amd64, arm64
	CPUModel  string     `json:"cpu_model,omitempty"`
	CPUs      int        `json:"cpus,omitempty"`    // hardware threads that a node may use
	Cores     int        `json:"cores,omitempty"`   // physical cores
	Sockets   int        `json:"sockets,omitempty"` // physical packages
	MemoryMiB int        `json:"memory_mib,omitempty"`
	Kernel    string     `json:"kernel,omitempty"`
	NUMA      []NUMANode `json:"numa,omitempty"`
	Layout    Layout     `json:"layout,omitempty"`
	System    System     `json:"system,omitzero"`
	DIMMs     []DIMM     `json:"dimms,omitempty"` // those that are there
	Disks     []Disk     `json:"disks,omitempty"`
	NICs      []NIC      `json:"nics,omitempty"`
	Devices   []Device   `json:"devices,omitempty"` // GPUs, HCAs and other PCI devices that a cluster may want
	// BMC is who may log in at its BMC, a line each, as the BMC told at the last inspection that passed. Empty: it tells nothing.
	BMC []string `json:"bmc,omitempty"`
	// Measured by the inspection, on the whole machine.
	TriadGBs float64 `json:"triad_gbs,omitempty"` // memory bandwidth, STREAM triad, GB/s (10^9)
	CPUMops  float64 `json:"cpu_mops,omitempty"`  // SHA-256 blocks of 1 KiB on all CPUs, thousands a second
}

// Bound cuts each text to 256 bytes: a machine says of itself what it likes.
func (f *Facts) Bound() { printable.Bound(f, 256) }

// NUMANode is one NUMA node with the CPUs beside it.
type NUMANode struct {
	ID        int    `json:"id"`
	CPUs      string `json:"cpus"` // Linux CPU list: "0-3,8"
	MemoryMiB int    `json:"memory_mib"`
	// Distances to every node in the order of their IDs, itself included, as the firmware tells them: 10 is near (ACPI
	// specification, SLIT).
	Distances []int       `json:"distances,omitempty"`
	HugePages []HugePages `json:"huge_pages,omitempty"`
}

// System is what the machine's firmware says of it (SMBIOS).
type System struct {
	Vendor   string `json:"vendor,omitempty"`
	Product  string `json:"product,omitempty"`
	Serial   string `json:"serial,omitempty"`
	Firmware string `json:"firmware,omitempty"` // version and date
	UEFI     bool   `json:"uefi,omitempty"`     // booted by UEFI rather than BIOS
}

// DIMM is one memory module.
type DIMM struct {
	Slot    string `json:"slot"`
	SizeMiB int    `json:"size_mib"`
	Speed   string `json:"speed,omitempty"` // "3200 MT/s"
}

// Disk is a local disk of a machine.
type Disk struct {
	Name    string `json:"name"` // the kernel's: sda, nvme0n1, vda
	Model   string `json:"model,omitempty"`
	Serial  string `json:"serial,omitempty"`
	SizeGB  int    `json:"size_gb"` // 10^9 bytes
	Kind    string `json:"kind"`    // nvme, ssd, hdd, virtual
	Bus     string `json:"bus,omitempty"`
	Healthy bool   `json:"healthy"`
	Health  string `json:"health,omitempty"` // in words: "SMART passed, 3 % worn"
}

// Local says that the disk is the machine's own, and not on a storage network.
func (d Disk) Local() bool { return d.Bus != "fc" && d.Bus != "iscsi" && d.Bus != "nvme-of" }

// NIC is a network interface.
type NIC struct {
	Name      string `json:"name"`
	MAC       string `json:"mac"`
	Driver    string `json:"driver,omitempty"`
	PCI       string `json:"pci,omitempty"`        // address of the device
	SpeedMbps int    `json:"speed_mbps,omitempty"` // of the link; 0: down or not known
	NUMA      int    `json:"numa"`                 // -1: not known
	Up        bool   `json:"up"`                   // has a carrier
}

// Device is a PCI device, or a part of one.
type Device struct {
	Kind   string `json:"kind"` // gpu, hca, nic, nvme, bridge (which no guest is given, but which shares a group), other
	PCI    string `json:"pci"`
	Vendor string `json:"vendor"` // four hex digits
	ID     string `json:"id"`     // four hex digits
	Name   string `json:"name,omitempty"`
	NUMA   int    `json:"numa"` // -1: not known
	Driver string `json:"driver,omitempty"`
	// Path is the PCI bridges above it, the root port first. Devices whose paths begin alike reach each other without the
	// root complex.
	Path []string `json:"path,omitempty"`
	// Group is its IOMMU group: what can be given to a virtual machine only together. "": the machine has no IOMMU that works.
	Group  string `json:"iommu_group,omitempty"`
	Parent string `json:"parent,omitempty"` // PCI address of the physical function, of an SR-IOV virtual function
	VFs    int    `json:"vfs,omitempty"`    // virtual functions that a physical function can have
	MAC    string `json:"mac,omitempty"`    // of a NIC
	GUID   string `json:"guid,omitempty"`   // of an HCA's node: "0011:2233:4455:6677"
	// Host is what the machine itself needs it for: "root file system", "its link to the controller". "": nothing.
	Host string `json:"host,omitempty"`
	// Lost is why a hypervisor's device cannot be given to a guest now, though no guest has it: it did not come back from its
	// last guest as it was before. "": it can.
	Lost string `json:"lost,omitempty"`
}
