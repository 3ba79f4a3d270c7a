package v1

import "time"

// NewMachine is a whole machine to enrol.
type NewMachine struct {
	Name        string    `json:"name" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$" maxLength:"63"`
	MACs        []string  `json:"macs" minItems:"1" maxItems:"16" doc:"of its NICs on the network that it boots from"`
	Ports       []string  `json:"ports,omitempty" maxItems:"16" doc:"ports of the network's switch, one for each of macs in their order; required if the network has a switch"`
	Network     string    `json:"network" maxLength:"63" doc:"the network that it boots from"`
	Power       string    `json:"power" maxLength:"1000"`
	Credentials string    `json:"credentials,omitempty" maxLength:"1000" doc:"where user:password is found on the controller's host: secret:NAME, a file in secrets.d of its data directory, or env:BMC…, a variable"`
	Location    *Location `json:"location,omitempty" doc:"where it stands"`
}

// Location is where a machine stands.
type Location struct {
	Rack   string `json:"rack" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]*$" maxLength:"32" doc:"name of its rack"`
	Unit   int    `json:"unit" minimum:"1" maximum:"99" doc:"the lowest unit that it fills, from the floor"`
	Height int    `json:"height,omitempty" minimum:"1" maximum:"60" default:"1" doc:"units that it fills"`
	Slot   int    `json:"slot,omitempty" minimum:"0" maximum:"20" doc:"of a chassis that fills these units; 0: it does so itself"`
}

// PlaceMachineInput is what PlaceMachine takes.
type PlaceMachineInput struct {
	Machine string `path:"machine" doc:"name" maxLength:"63"`
	Body    PlaceMachineBody
}

// PlaceMachineBody is the body of a PlaceMachineInput.
type PlaceMachineBody struct {
	Location *Location `json:"location,omitempty" doc:"absent: it stands in no rack that is known"`
}

// AddMachinesInput is what AddMachines takes.
type AddMachinesInput struct {
	Body AddMachinesBody
}

// AddMachinesBody is the body of a AddMachinesInput.
type AddMachinesBody struct {
	Substrate string       `json:"substrate" words:"enrolled substrates"`
	Name      string       `json:"name,omitempty" doc:"of the only local machine; empty: local-1, local-2 …" pattern:"^([a-z0-9]([a-z0-9-]*[a-z0-9])?)?$" maxLength:"63"`
	Count     int          `json:"count,omitempty" minimum:"1" maximum:"1000" default:"1" doc:"local machines"`
	CPUs      int          `json:"cpus,omitempty" minimum:"0" maximum:"4096" doc:"CPUs that a node on a local machine may use; 0: all of the host's"`
	MemoryMiB int          `json:"memory_mib,omitempty" minimum:"0" maximum:"67108864" doc:"MiB of memory that a node on a local machine may use; 0: 4096, or the host's if that is less"`
	Machines  []NewMachine `json:"machines,omitempty" maxItems:"10000" doc:"whole machines: all are enrolled, or none"`
}

// MachinePort is a port of a machine on a fabric.
type MachinePort struct {
	Fabric   string   `json:"fabric"`
	Port     string   `json:"port"`
	Answers  bool     `json:"answers"`
	Entries  []string `json:"entries" doc:"of its partition table, as it last answered"`
	Capacity int      `json:"capacity,omitempty"`
}

// ListMachinesInput is what ListMachines takes.
type ListMachinesInput struct {
	Page
	Phase   Phase  `query:"phase" enum:"enrolled,inspecting,available,reserved,in-use,releasing,maintenance,quarantined" doc:"only those in this phase"`
	Class   string `query:"class" doc:"only those of this class" maxLength:"63"`
	Network string `query:"network" doc:"only those that boot from this network" maxLength:"63"`
	Rack    string `query:"rack" doc:"only those that stand in this rack, or whose hosts do" maxLength:"32"`
	Cluster string `query:"cluster" doc:"only those that nodes of this cluster have: its name, PROJECT/NAME, or ID" maxLength:"127"`
}

// MachineRef is a machine in a path.
type MachineRef struct {
	Machine string `path:"machine" doc:"name" maxLength:"63"`
}

// QuarantineMachineInput is what QuarantineMachine takes.
type QuarantineMachineInput struct {
	Machine string `path:"machine" doc:"name" maxLength:"63"`
	Body    QuarantineMachineBody
}

// QuarantineMachineBody is the body of a QuarantineMachineInput.
type QuarantineMachineBody struct {
	Reason string `json:"reason,omitempty" maxLength:"200" doc:"why, for the site's operators"`
}

// UnknownMachine asked to boot and is not enrolled. Nothing of what it says is proved.
type UnknownMachine struct {
	MAC       string    `json:"mac" doc:"the MAC that asked to boot"`
	Network   string    `json:"network"`
	MACs      []string  `json:"macs" doc:"all that it reports"`
	Facts     Facts     `json:"facts" doc:"what it reports about itself"`
	FirstSeen time.Time `json:"first_seen"`
	LastSeen  time.Time `json:"last_seen"`
}

// TestResult is one test of a node before it was handed over, beside what its like measured.
type TestResult struct {
	At              time.Time `json:"at"`
	Machine         string    `json:"machine"`
	Class           string    `json:"class"`
	ComparisonGroup string    `json:"comparison_group" doc:"what machines of the class must have in common to be compared"`
	Cluster         string    `json:"cluster"`
	Node            string    `json:"node"`
	Boot            int64     `json:"boot" doc:"of the node"`
	Number          int64     `json:"number" doc:"number of the test in this boot; a slow node is measured again"`
	Image           string    `json:"image" doc:"digest"`
	Seconds         float64   `json:"seconds" doc:"seconds that the test took, without waiting"`
	Verdict         Verdict   `json:"verdict" enum:"passed,again,slow"`
	Text            string    `json:"text" doc:"why"`
	Results         []Result  `json:"results"`
}

// Result is one measured quantity.
type Result struct {
	Quantity Quantity `json:"quantity"`
	Name     string   `json:"name" doc:"what it is, in words"`
	Unit     string   `json:"unit"`
	Lower    bool     `json:"lower,omitempty" doc:"lower is better"`
	Value    float64  `json:"value,omitempty" doc:"absent if it was not measured"`
	With     string   `json:"with,omitempty" doc:"the node at the other end"`
	Why      string   `json:"reason,omitempty" doc:"why it was not measured"`
	Median   float64  `json:"median,omitempty" doc:"median of the newest passes of similar nodes"`
	Of       int      `json:"of,omitempty" doc:"number of passes that the median is calculated from"`
}

// Machine is one physical or simulated host.
type Machine struct {
	Name        string        `json:"name"`
	Substrate   string        `json:"substrate"`
	Network     string        `json:"network,omitempty" doc:"the network that it boots from"`
	MACs        []string      `json:"macs,omitempty"`
	SwitchPorts []string      `json:"switch_ports,omitempty" doc:"ports of the network's switch, one for each of macs"`
	Power       string        `json:"power,omitempty" doc:"its power control, such as ipmi://HOST"`
	Release     *Release      `json:"release,omitempty" doc:"receipt of the last time that it was released; only for a single machine, not in lists"`
	Desired     Desired       `json:"desired" enum:"service,maintenance,removed" doc:"what is wanted of it when it is free"`
	Phase       Phase         `json:"phase" words:"machine phases"`
	Reason      string        `json:"reason,omitempty"`
	Since       time.Time     `json:"since"`
	Node        string        `json:"node,omitempty" doc:"cluster/node that has it"`
	Classes     []string      `json:"classes"`
	Summary     Summary       `json:"summary" doc:"of its facts; classes select by it"`
	Location    *Location     `json:"location,omitempty" doc:"where it stands, as somebody has said"`
	Facts       Facts         `json:"facts,omitzero" doc:"as its last inspection found them; only for a single machine, not in lists"`
	Ports       []MachinePort `json:"ports,omitempty" doc:"ports on InfiniBand fabrics; only for a single machine, not in lists"`
	Drains      bool          `json:"drains,omitempty" doc:"of a hypervisor: its guests are to be moved to other hosts"`
	Hosts       *Hosting      `json:"hosts,omitempty" doc:"of a hypervisor: what its guests use"`
	Part        *Part         `json:"part,omitempty" doc:"of a guest: the part of its host that it has"`
}

// Hosting is what the guests of a hypervisor hold, of what guests can have.
type Hosting struct {
	Guests      []string       `json:"guests"`
	Cores       int            `json:"cores" doc:"number of cores that at least one guest has"`
	OfCores     int            `json:"of_cores"`
	MemoryMiB   int            `json:"memory_mib"`
	OfMemoryMiB int            `json:"of_memory_mib"`
	Devices     map[string]int `json:"devices,omitempty" doc:"by kind"`
	OfDevices   map[string]int `json:"of_devices,omitempty" doc:"by kind"`
}

// Verdict is what became of a node by its test.
type Verdict string

// The verdicts.
const (
	Passed Verdict = "passed" // the node was handed over
	Again  Verdict = "again"  // slow: it was measured once more
	Slow   Verdict = "slow"   // the node failed
)

// Release is the proof that a machine was given back as it should be.
type Release struct {
	From  string    `json:"from,omitempty" doc:"cluster/node that had it"`
	At    time.Time `json:"at" doc:"when it was proved"`
	Power string    `json:"power" doc:"how the memory was cleared"`
	Disks []Erased  `json:"disks" doc:"one entry per disk"`
	Clean bool      `json:"clean" doc:"every disk was erased and read back"`
	Boot  int64     `json:"boot,omitempty" doc:"number of the boot of the machine in which the disks were erased"`
	Key   string    `json:"key,omitempty" doc:"SHA-256 of the public key that the machine used in that boot"`
}

// Erased says how a disk was erased, and how that was proved.
type Erased struct {
	Disk     string   `json:"disk" doc:"the kernel's name"`
	Model    string   `json:"model,omitempty"`
	Serial   string   `json:"serial,omitempty"`
	Bytes    int64    `json:"bytes"`
	Method   string   `json:"method" example:"nvme sanitize: block erase"`
	Tried    []string `json:"tried,omitempty" doc:"better methods that did not work, each with the reason"`
	Verified string   `json:"verified" doc:"how it was read back" example:"512 samples of 1 MiB read as zero"`
	OK       bool     `json:"ok"`
	Error    string   `json:"error,omitempty"`
	Seconds  float64  `json:"seconds" doc:"how long it took"`
}
