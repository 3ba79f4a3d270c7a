package v1

// Summary is what lists say of a machine's facts.
type Summary struct {
	Host      string `json:"host,omitempty" doc:"host name of the machine, or of the host that it is a part of"`
	Arch      string `json:"arch,omitempty" doc:"as Go names it: amd64, arm64"`
	CPUModel  string `json:"cpu_model,omitempty"`
	Vendor    string `json:"vendor,omitempty" doc:"of the machine, as its firmware says"`
	Product   string `json:"product,omitempty" doc:"as its firmware says"`
	CPUs      int    `json:"cpus,omitempty" doc:"hardware threads that a node may use"`
	Cores     int    `json:"cores,omitempty" doc:"physical cores"`
	Sockets   int    `json:"sockets,omitempty"`
	MemoryMiB int    `json:"memory_mib,omitempty"`
	NUMANodes int    `json:"numa_nodes,omitempty"`
	Disks     int    `json:"disks,omitempty"`
	NICs      int    `json:"nics,omitempty"`
	NICMbps   int    `json:"nic_mbps,omitempty" doc:"of the fastest NIC's link, in Mb/s"`
	GPUs      int    `json:"gpus,omitempty"`
	HCAs      int    `json:"hcas,omitempty" doc:"InfiniBand adapters"`
}

// Facts are what an inspection found a machine to be. What is absent is not known.
type Facts struct {
	Host      string     `json:"host,omitempty" doc:"host name of the machine, or of the host that it is a part of"`
	Arch      string     `json:"arch,omitempty" doc:"as Go names it: amd64, arm64"`
	CPUModel  string     `json:"cpu_model,omitempty"`
	CPUs      int        `json:"cpus,omitempty" doc:"hardware threads that a node may use"`
	Cores     int        `json:"cores,omitempty" doc:"physical cores"`
	Sockets   int        `json:"sockets,omitempty"`
	MemoryMiB int        `json:"memory_mib,omitempty"`
	Kernel    string     `json:"kernel,omitempty" doc:"release"`
	NUMA      []NUMANode `json:"numa,omitempty"`
	Layout    string     `json:"layout,omitempty" doc:"cores: a word PACKAGE/NUMA/CACHE:CPUS for those that agree in these three; CPUS are their first hardware threads, then + and their second ones in the same order" example:"0/0/0:0-7+64-71 0/0/8:8-15+72-79"`
	System    System     `json:"system,omitzero"`
	DIMMs     []DIMM     `json:"dimms,omitempty"`
	Disks     []Disk     `json:"disks,omitempty"`
	NICs      []NIC      `json:"nics,omitempty"`
	Devices   []Device   `json:"devices,omitempty" doc:"GPUs, HCAs and other PCI devices that a cluster may want"`
	BMC       []string   `json:"bmc,omitempty" doc:"who may log in at its BMC, a line each"`
	TriadGBs  float64    `json:"triad_gbs,omitempty" doc:"memory bandwidth of the whole machine: STREAM triad, GB/s"`
	CPUMops   float64    `json:"cpu_mops,omitempty" doc:"SHA-256 blocks of 1 KiB on all CPUs, thousands a second"`
}

// NUMANode is one NUMA node with the CPUs beside it.
type NUMANode struct {
	ID        int         `json:"id"`
	CPUs      string      `json:"cpus" example:"0-3,8"`
	MemoryMiB int         `json:"memory_mib"`
	Distances []int       `json:"distances,omitempty" doc:"to every node in the order of their IDs, as the firmware tells them: 10 is near"`
	HugePages []HugePages `json:"huge_pages,omitempty"`
}

// HugePages are a NUMA node's pages of one size.
type HugePages struct {
	KiB   int `json:"kib" doc:"of one page"`
	Total int `json:"total"`
	Free  int `json:"free"`
}

// System is what a machine's firmware says of it (SMBIOS).
type System struct {
	Vendor   string `json:"vendor,omitempty"`
	Product  string `json:"product,omitempty"`
	Serial   string `json:"serial,omitempty"`
	Firmware string `json:"firmware,omitempty" doc:"version and date"`
	UEFI     bool   `json:"uefi,omitempty" doc:"booted by UEFI rather than BIOS"`
}

// DIMM is one memory module.
type DIMM struct {
	Slot    string `json:"slot"`
	SizeMiB int    `json:"size_mib"`
	Speed   string `json:"speed,omitempty" example:"3200 MT/s"`
}

// Disk is a local disk of a machine.
type Disk struct {
	Name    string `json:"name" doc:"the kernel's" example:"nvme0n1"`
	Model   string `json:"model,omitempty"`
	Serial  string `json:"serial,omitempty"`
	SizeGB  int    `json:"size_gb" doc:"10^9 bytes"`
	Kind    string `json:"kind" doc:"nvme, ssd, hdd or virtual"`
	Bus     string `json:"bus,omitempty"`
	Healthy bool   `json:"healthy"`
	Health  string `json:"health,omitempty" example:"SMART passed, 3 % worn"`
}

// NIC is a network interface.
type NIC struct {
	Name      string `json:"name"`
	MAC       string `json:"mac"`
	Driver    string `json:"driver,omitempty"`
	PCI       string `json:"pci,omitempty" doc:"address of the device"`
	SpeedMbps int    `json:"speed_mbps,omitempty" doc:"of the link; absent: it is down, or not known"`
	NUMA      int    `json:"numa" doc:"-1: not known"`
	Up        bool   `json:"up" doc:"it has a carrier"`
}

// Device is a PCI device, or a part of one.
type Device struct {
	Kind   string   `json:"kind" doc:"gpu, hca, nic, nvme, bridge or other"`
	PCI    string   `json:"pci" doc:"address"`
	Vendor string   `json:"vendor" doc:"four hexadecimal digits"`
	ID     string   `json:"id" doc:"four hexadecimal digits"`
	Name   string   `json:"name,omitempty"`
	NUMA   int      `json:"numa" doc:"-1: not known"`
	Driver string   `json:"driver,omitempty"`
	Path   []string `json:"path,omitempty" doc:"the PCI bridges above it, the root port first"`
	Group  string   `json:"iommu_group,omitempty" doc:"what can be given to a virtual machine only together; absent: no IOMMU works"`
	Parent string   `json:"parent,omitempty" doc:"of an SR-IOV virtual function: PCI address of the physical function"`
	VFs    int      `json:"vfs,omitempty" doc:"virtual functions that a physical function can have"`
	MAC    string   `json:"mac,omitempty" doc:"of a NIC"`
	GUID   string   `json:"guid,omitempty" doc:"of an HCA's node"`
	Host   string   `json:"host,omitempty" doc:"what the machine itself needs it for"`
	Lost   string   `json:"lost,omitempty" doc:"why a hypervisor cannot give it to a guest now, though nobody has it"`
}
