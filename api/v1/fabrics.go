package v1

import "time"

// FabricSpec is what operators say of a fabric.
type FabricSpec struct {
	Name     string            `json:"name" maxLength:"32" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"`
	Driver   string            `json:"driver" maxLength:"32" doc:"the driver that controls its subnet manager" example:"opensm"`
	Config   map[string]string `json:"config,omitempty" doc:"settings of the driver; docs/fabrics.md lists them" maxProperties:"64"`
	Managers []string          `json:"managers" minItems:"1" maxItems:"64" doc:"GUIDs of the ports of all subnet managers, those on standby too" example:"[\"0x0002c903000a0b0c\"]"`
}

// Fabric is an InfiniBand fabric whose partitions Muster keeps.
type Fabric struct {
	FabricSpec
	Phase      Phase             `json:"phase" words:"fabric phases" doc:"pending: not read yet; degraded: ports differ from what is intended, or cannot be read"`
	Reason     string            `json:"reason,omitempty"`
	Since      time.Time         `json:"since"`
	Revision   int64             `json:"revision" doc:"revision of what is intended"`
	Applied    int64             `json:"applied" doc:"the last revision that its manager has accepted"`
	Seen       int64             `json:"seen" doc:"the revision that its manager had when all ports were last read"`
	SeenAt     time.Time         `json:"seen_at,omitzero" doc:"when it was last seen"`
	SnapshotAt time.Time         `json:"snapshot_at,omitzero" doc:"when its cables were imported last"`
	Partitions []FabricPartition `json:"partitions" doc:"by key"`
	Ports      []FabricPort      `json:"ports" doc:"known ports, by GUID"`
}

// FabricPartition is a cluster's, or one of the site's own.
type FabricPartition struct {
	Key     string         `json:"key"`
	Cluster string         `json:"cluster,omitempty"`
	Name    string         `json:"name,omitempty" doc:"name of one of the site's own partitions"`
	Open    bool           `json:"open,omitempty" doc:"all clusters' ports are limited members"`
	Ending  bool           `json:"ending,omitempty" doc:"it was removed, and is kept until its ports were seen without its key"`
	Members []FabricMember `json:"members"`
}

// FabricMember is a port in a partition.
type FabricMember struct {
	Port       string `json:"port" doc:"its GUID" example:"0x0002c903000a0b0c"`
	Membership string `json:"membership" enum:"full,limited"`
	Node       string `json:"node,omitempty" doc:"ID"`
	Leaving    bool   `json:"leaving,omitempty" doc:"it was removed, and is kept until its port was seen without the key"`
}

// FabricPort is a port and what was seen of it.
type FabricPort struct {
	Port     string   `json:"port"`
	Adapter  string   `json:"adapter"`
	Name     string   `json:"name,omitempty" doc:"the name that its host reports; not verified"`
	Machine  string   `json:"machine,omitempty" doc:"name of the machine that it belongs to"`
	Assigned bool     `json:"assigned,omitempty" doc:"an operator assigned it to this machine"`
	Answers  bool     `json:"answers" doc:"whether it answered when it was last read"`
	Entries  []string `json:"entries" doc:"of its table, as it last answered: a key, and the highest bit of full members"`
	Capacity int      `json:"capacity,omitempty" doc:"number of entries that its table has room for"`
}

// FabricDiff is what is wanted of a fabric beside what was seen.
type FabricDiff struct {
	Revision int64              `json:"revision" doc:"revision of what is intended"`
	Applied  int64              `json:"applied" doc:"the last revision that the manager has accepted"`
	SeenAt   time.Time          `json:"seen_at,omitzero" doc:"when the ports were last read"`
	Reason   string             `json:"reason,omitempty" doc:"why its manager was not told, or its ports cannot be read"`
	Ports    []FabricDifference `json:"ports" doc:"those that differ"`
}

// FabricDifference is how a port differs from what is wanted.
type FabricDifference struct {
	Port    string   `json:"port"`
	Machine string   `json:"machine,omitempty"`
	Surplus []string `json:"surplus,omitempty" doc:"keys that it has and must not have"`
	Missing []string `json:"missing,omitempty" doc:"keys that it lacks"`
	Silent  bool     `json:"silent,omitempty" doc:"the node does not answer, so nothing is known about it"`
}

// FabricRef is a fabric in a path.
type FabricRef struct {
	Fabric string `path:"fabric" doc:"name" maxLength:"32"`
}

// FabricPortRef is a port in a path.
type FabricPortRef struct {
	Fabric string `path:"fabric" doc:"name" maxLength:"32"`
	Port   string `path:"port" doc:"GUID" maxLength:"40"`
}

// FabricPartitionRef is a partition of the site's own in a path.
type FabricPartitionRef struct {
	Fabric    string `path:"fabric" doc:"name" maxLength:"32"`
	Partition string `path:"partition" doc:"name of one of the site's own" maxLength:"32" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"`
}

// AddFabricInput is what AddFabric takes.
type AddFabricInput struct {
	Body FabricSpec
}

// ImportFabricInput is what ImportFabric takes.
type ImportFabricInput struct {
	Fabric string `path:"fabric" doc:"name" maxLength:"32"`
	Body   ImportFabricBody
}

// ImportFabricBody is the body of a ImportFabricInput.
type ImportFabricBody struct {
	Snapshot string `json:"snapshot" doc:"what ibnetdiscover prints" maxLength:"67108864"`
}

// PutFabricPartitionInput is what PutFabricPartition takes.
type PutFabricPartitionInput struct {
	FabricPartitionRef
	Body PutFabricPartitionBody
}

// PutFabricPartitionBody is the body of a PutFabricPartitionInput.
type PutFabricPartitionBody struct {
	Open    bool           `json:"open,omitempty" doc:"all clusters' ports are limited members: they reach its full members, and not each other"`
	Members []FabricMember `json:"members" maxItems:"10000"`
}

// AssignFabricPortInput is what AssignFabricPort takes.
type AssignFabricPortInput struct {
	FabricPortRef
	Body AssignFabricPortBody
}

// AssignFabricPortBody is the body of a AssignFabricPortInput.
type AssignFabricPortBody struct {
	Machine string `json:"machine" maxLength:"63" doc:"name of the machine; empty: none"`
}

// Topology is where machines are in a fabric, by its last snapshot.
type Topology struct {
	Fabric  string    `json:"fabric"`
	TakenAt time.Time `json:"taken_at" doc:"when it was imported"`
	Summary string    `json:"summary" doc:"what it is and how large"`
	Leaves  []Leaf    `json:"leaves" doc:"those with machines of the inventory, by name"`

	Switches []TopologySwitch `json:"switches" doc:"all, by ID"`
	Links    []TopologyLink   `json:"links" doc:"between switches, each pair once"`
}

// TopologySwitch is a switch as a snapshot has it.
type TopologySwitch struct {
	ID    string   `json:"id" doc:"on InfiniBand its GUID, on Ethernet its chassis' address"`
	Name  string   `json:"name"`
	Ports []string `json:"ports" doc:"of hosts on it: on InfiniBand their GUIDs, on Ethernet HOST/INTERFACE"`
}

// TopologyLink is all cables between two switches.
type TopologyLink struct {
	A      string `json:"a" doc:"ID of one"`
	B      string `json:"b" doc:"ID of the other"`
	Cables int    `json:"cables"`
}

// Leaf is a switch, or all leaves of machines with several rails, and who hangs on it.
type Leaf struct {
	Name     string   `json:"name"`
	Cables   int      `json:"cables,omitempty" doc:"number of cables to other switches; 0: not known"`
	Machines []string `json:"machines"`
}

// PutTopologyInput is what PutTopology takes.
type PutTopologyInput struct {
	Fabric string `path:"fabric" doc:"name; not of a fabric whose partitions Muster manages" maxLength:"32" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"`
	Body   PutTopologyBody
}

// PutTopologyBody is the body of a PutTopologyInput.
type PutTopologyBody struct {
	Snapshot string `json:"snapshot" doc:"what ibnetdiscover prints, or lldpctl -f keyvalue on machines, each after a line machine=NAME" maxLength:"67108864"`
}

// RemoveTopologyInput is what RemoveTopology takes.
type RemoveTopologyInput struct {
	Fabric string `path:"fabric" doc:"name" maxLength:"32"`
}
