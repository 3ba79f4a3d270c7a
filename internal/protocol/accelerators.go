package protocol

// The most of each that a node tells of.
const (
	MostGPUs  = 64
	MostPorts = 64
	MostPKeys = 16
)

// GPU is a GPU that a node is to have, as all nodes of its cluster hear of it. A node's are in the order of their PCI
// addresses, which is the node's own order too.
type GPU struct {
	Address string `json:"address"` // among all of the site: "r1n1/gpu0"
	Model   string `json:"model,omitempty"`
	CPUs    string `json:"cpus,omitempty"` // the node's that are nearest to it, Linux CPU list; "": all are equally near
}

// GPUFacts are what a node finds one GPU to be.
type GPUFacts struct {
	Address   string `json:"address,omitempty"` // among all of the site; "": the node is not to have it
	PCI       string `json:"pci"`               // as the node counts: a guest's differs from its host's
	Model     string `json:"model,omitempty"`
	Driver    string `json:"driver,omitempty"`
	Lacks     string `json:"lacks,omitempty"`      // the driver that it needs and the image does not have
	Version   string `json:"version,omitempty"`    // of the driver
	Device    string `json:"device,omitempty"`     // "/dev/nvidia0"; "": the driver does not have it
	UUID      string `json:"uuid,omitempty"`       // its maker's
	MemoryMiB int    `json:"memory_mib,omitempty"` // its own
	CPUs      string `json:"cpus,omitempty"`       // nearest to it, Linux CPU list
}

// Port is one port of an adapter that does RDMA.
type Port struct {
	Device string   `json:"device"` // the kernel's: "mlx5_0"
	Port   int      `json:"port"`
	PCI    string   `json:"pci,omitempty"`
	Layer  string   `json:"layer"` // InfiniBand, Ethernet
	State  string   `json:"state"` // as ibstat(8) has it: Active, Init, Down …
	Link   string   `json:"link"`  // of the cable: LinkUp, Polling, Disabled …
	Rate   string   `json:"rate,omitempty"`
	LID    int      `json:"lid,omitempty"`
	GUID   string   `json:"guid,omitempty"`             // the port's
	PKeys  []string `json:"pkeys,omitempty" most:"128"` // "0xffff"
}
