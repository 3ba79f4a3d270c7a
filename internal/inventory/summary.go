package inventory

// Summary is what lists of machines show of Facts, and what classes select machines by: values alone, a few hundred bytes, where
// facts are kilobytes.
type Summary struct {
	Host      string `json:"host,omitempty"` // host name of the machine, or of the host that it is a part of
	Arch      string `json:"arch,omitempty"` // as Go names it: amd64, arm64
	CPUModel  string `json:"cpu_model,omitempty"`
	Vendor    string `json:"vendor,omitempty"`  // of the machine, as its firmware says
	Product   string `json:"product,omitempty"` // as its firmware says
	CPUs      int    `json:"cpus,omitempty"`    // hardware threads that a node may use
	Cores     int    `json:"cores,omitempty"`   // physical cores
	Sockets   int    `json:"sockets,omitempty"`
	MemoryMiB int    `json:"memory_mib,omitempty"`
	NUMANodes int    `json:"numa_nodes,omitempty"`
	Disks     int    `json:"disks,omitempty"`
	NICs      int    `json:"nics,omitempty"`
	NICMbps   int    `json:"nic_mbps,omitempty"` // of the fastest NIC's link, in Mb/s
	GPUs      int    `json:"gpus,omitempty"`
	HCAs      int    `json:"hcas,omitempty"` // InfiniBand adapters
}

// Summary is the summary of these facts.
func (f Facts) Summary() Summary {
	s := Summary{Host: f.Host, Arch: f.Arch, CPUModel: f.CPUModel, Vendor: f.System.Vendor, Product: f.System.Product,
		CPUs: f.CPUs, Cores: f.Cores, Sockets: f.Sockets, MemoryMiB: f.MemoryMiB, NUMANodes: len(f.NUMA), Disks: len(f.Disks),
		NICs: len(f.NICs), GPUs: f.Count("gpu"), HCAs: f.Count("hca")}
	for _, n := range f.NICs {
		s.NICMbps = max(s.NICMbps, n.SpeedMbps)
	}
	return s
}
