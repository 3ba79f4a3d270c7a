package v1

import "time"

// Node is a member of a cluster.
type Node struct {
	ID        string      `json:"id"`
	Name      string      `json:"name"`
	Role      NodeRole    `json:"role"`
	Queue     string      `json:"queue,omitempty"`
	Class     string      `json:"class"`
	Machine   string      `json:"machine"`
	Leaf      string      `json:"leaf,omitempty" doc:"the leaf switch of its machine, as known when it was chosen"`
	Part      *Part       `json:"part,omitempty" doc:"of a guest: the part of its host that it has"`
	Address   string      `json:"address" doc:"on the cluster's own network"`
	Phase     Phase       `json:"phase" words:"node phases"`
	Reason    string      `json:"reason,omitempty"`
	Since     time.Time   `json:"since"`
	Seen      time.Time   `json:"seen,omitzero" doc:"last report of its agent"`
	Checks    []Check     `json:"checks,omitempty"`
	Unapplied []Unapplied `json:"unapplied,omitempty" doc:"of a head: what it could not do for users yet, and tries again"`
	Facts     NodeFacts   `json:"facts" doc:"what the node reports about itself"`
	Scheduler *NodeState  `json:"scheduler,omitempty" doc:"what the cluster's scheduler says of it"`
}

// Part is what a guest holds of its host.
type Part struct {
	Host    string   `json:"host"`
	Cells   []Cell   `json:"cells" doc:"by NUMA node of the host"`
	Devices []string `json:"devices,omitempty" doc:"PCI addresses on the host"`
	Share   int      `json:"share" doc:"number of guests that may share its cores, including itself"`
	MovesTo string   `json:"moves_to,omitempty" doc:"the host that it is being moved to"`
}

// Cell is what a guest has of one NUMA node of its host.
type Cell struct {
	NUMA      int   `json:"numa"`
	Cores     []int `json:"cores" doc:"numbers of the host's cores"`
	MemoryMiB int   `json:"memory_mib"`
}

// Check is the latest result of something that a node or a controller looks at.
type Check struct {
	Name  string  `json:"name"`
	OK    bool    `json:"ok"`
	Text  string  `json:"text,omitempty" doc:"why not"`
	Limit string  `json:"limit,omitempty" doc:"of the site's own checks: what is asked for, in words"`
	Found bool    `json:"found,omitempty" doc:"such a check has found a value"`
	Value float64 `json:"value,omitempty" doc:"the last that was found"`
	Unit  string  `json:"unit,omitempty" doc:"of the value"`
}

// Unapplied is what a head could not do for a user, or for all.
type Unapplied struct {
	User string `json:"user" doc:"for whom; empty: for everybody"`
	Text string `json:"text" doc:"what, and why"`
}

// NodeFacts are what a node finds itself to be.
type NodeFacts struct {
	Arch      string `json:"arch,omitempty"`
	Kernel    string `json:"kernel,omitempty" doc:"release"`
	CPUs      int    `json:"cpus,omitempty" doc:"that programs may run on"`
	MemoryMiB int    `json:"memory_mib,omitempty" doc:"that the kernel shows; a limit may be lower"`
	Virtual   bool   `json:"virtual,omitempty" doc:"a hypervisor is below"`

	GPUs  []GPUFacts `json:"gpus,omitempty"`
	Ports []Port     `json:"ports,omitempty" doc:"of adapters that do RDMA"`
}

// GPUFacts are what a node finds one of its GPUs to be.
type GPUFacts struct {
	Address   string `json:"address,omitempty" doc:"among all of the site; absent: the node is not to have it"`
	PCI       string `json:"pci" doc:"address as the node counts"`
	Model     string `json:"model,omitempty"`
	Driver    string `json:"driver,omitempty"`
	Lacks     string `json:"lacks,omitempty" doc:"the driver that it needs and the image does not have"`
	Version   string `json:"version,omitempty" doc:"of the driver"`
	Device    string `json:"device,omitempty" example:"/dev/nvidia0"`
	UUID      string `json:"uuid,omitempty"`
	MemoryMiB int    `json:"memory_mib,omitempty" doc:"its own"`
	CPUs      string `json:"cpus,omitempty" doc:"those nearest to it" example:"0-15"`
}

// Port is a port of one of a node's adapters.
type Port struct {
	Device string   `json:"device" doc:"the kernel's name" example:"mlx5_0"`
	Port   int      `json:"port"`
	PCI    string   `json:"pci,omitempty"`
	Layer  string   `json:"layer" doc:"InfiniBand or Ethernet"`
	State  string   `json:"state" doc:"as ibstat(8) has it" example:"Active"`
	Link   string   `json:"link" doc:"of the cable" example:"LinkUp"`
	Rate   string   `json:"rate,omitempty"`
	LID    int      `json:"lid,omitempty"`
	GUID   string   `json:"guid,omitempty"`
	PKeys  []string `json:"pkeys,omitempty"`
}

// NodeState is what a scheduler says of a compute node.
type NodeState struct {
	Name       string         `json:"name"`
	State      SchedulerState `json:"state"`
	Responding bool           `json:"responding" doc:"the scheduler has recently heard from it"`
	Jobs       int            `json:"jobs" doc:"number of jobs that run on it"`
	LastBusy   string         `json:"last_busy,omitempty" doc:"when its last job ended, in the scheduler's own format: only compare it with earlier values"`
	Reason     string         `json:"reason,omitempty" doc:"why it is drained or down, as the scheduler says"`
	Raw        string         `json:"raw" doc:"the scheduler's own word for its state"`
	Reboots    bool           `json:"reboots,omitempty" doc:"somebody has told the scheduler to reboot it, and its jobs have ended"`
	Size       Size           `json:"size,omitzero" doc:"what its jobs may use together, as the scheduler counts it"`
}

// Size is what the jobs of a node may use together.
type Size struct {
	CPUs    int `json:"cpus,omitempty"`
	Threads int `json:"threads,omitempty" doc:"CPUs of one core, which no two jobs share"`
	Memory  int `json:"memory_mib,omitempty"`
	Tmp     int `json:"tmp_mib,omitempty" doc:"size of /tmp"`
	GPUs    int `json:"gpus,omitempty"`
}
