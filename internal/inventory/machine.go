// Package inventory knows what exists: machines and their facts, the site's classes, and what fits what.
//
// What enters: facts as inspection found them, and the site's catalogue. What leaves: types and pure judgements. No I/O
// but the reading of the site file.
package inventory

// Machine is one physical host, or one that is simulated.
type Machine struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Substrate string `json:"substrate"` // local; later metal, vm
	Facts     Facts  `json:"facts"`
}

// Facts are what inspection found. The zero value of a field means that it is not known.
type Facts struct {
	Host      string     `json:"host,omitempty"` // host name of the machine, or of the host that it is a part of
	Arch      string     `json:"arch,omitempty"` // as Go names it: amd64, arm64
	CPUModel  string     `json:"cpu_model,omitempty"`
	CPUs      int        `json:"cpus,omitempty"`  // hardware threads that a node may use
	Cores     int        `json:"cores,omitempty"` // physical cores
	MemoryMiB int        `json:"memory_mib,omitempty"`
	Kernel    string     `json:"kernel,omitempty"`
	NUMA      []NUMANode `json:"numa,omitempty"`
}

// NUMANode is one memory node with the CPUs beside it.
type NUMANode struct {
	ID        int    `json:"id"`
	CPUs      string `json:"cpus"` // Linux CPU list: "0-3,8"
	MemoryMiB int    `json:"memory_mib"`
}
