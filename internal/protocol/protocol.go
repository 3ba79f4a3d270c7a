// Package protocol is what a node's agent and the controller say to each other: plain types, JSON on the wire, HTTP
// over mutual TLS. Nothing here has behaviour; internal/noded speaks one side of it, internal/monitor the other.
//
//	POST /agent/v1/join                 JoinRequest → JoinReply      once a boot, with the boot's one-time token
//	GET  /agent/v1/config?after=N       → Config                     long poll: 204 after about 25 s without news
//	POST /agent/v1/report               Report → ReportReply         heartbeat; at once when something changed
//	POST /agent/v1/task                 TaskOutput → TaskKept        a head's: what a task has written
//	POST /agent/v1/jobs                 JobsTold → JobsKept          a head's: jobs, those that have ended too
//	GET  /agent/v1/inspection           → Inspection                 what to do, for a boot with duty inspect
//	POST /agent/v1/findings             Findings                     how far it is, and at last what was found
//	GET  /agent/v1/hosting?after=N      → Hosting                    the guests of a hypervisor, for a boot with duty host
//	POST /agent/v1/hosted               HostReport → ReportReply     what there is of them
//
// A join answered with 403, or any other call with 410, ends the agent: its boot is no longer wanted.
//
// The controller never calls a node. What a node has to do is in its Config, a whole desired state with a revision;
// what is true comes back in its Report. Every call may be repeated.
package protocol

import (
	"cmp"
	"time"
)

// BootFilePath is where a node finds its BootFile at start. The agent reads it once and deletes it.
const BootFilePath = "/run/muster/boot.json"

// RunDir is the agent's own on every node, in memory on a machine.
const RunDir = "/run/muster"

// SocketDir is where a node on the controller's own host finds the controllers' unix sockets, one a replica.
const SocketDir = "/run/muster/controllers"

// StateDir is where a head finds what its cluster keeps of it: its scheduler's state and the SSH host key. On the controller's
// own host it outlives the head; on a machine it is in memory, as /home is. No other node has it.
const StateDir = "/var/lib/muster"

// StateOwn is the part of it that belongs to this cluster alone: a copy of the cluster does not get it.
const StateOwn = StateDir + "/own"

// BootFile is all that a node is given from outside at its start.
type BootFile struct {
	Node      string   `json:"node"`      // the node's ID for life
	Name      string   `json:"name"`      // its host name
	Boot      int64    `json:"boot"`      // number of this boot; a later boot has a higher one
	Token     string   `json:"token"`     // one-time token, good for this node and this boot until its deadline
	Authority string   `json:"authority"` // PEM: the certificate authority of the controllers
	Endpoints []string `json:"endpoints"` // "unix:///dir" (any *.sock in it) or "https://host:port", tried in turn
	Duty      Duty     `json:"duty,omitempty"`
	// Attachment is how the node reaches its cluster; nil where its network is there when it starts.
	Attachment *Attachment `json:"attachment,omitempty"`
}

// OwnKernel says that the agent is the first process of a machine, real or virtual, and looks after its kernel, its clock, its
// devices and its mounts. Elsewhere it is the first process of a namespace, and a host does that.
func (b BootFile) OwnKernel() bool { return b.Attachment != nil || b.Duty != ServeNode }

// InGuest says that the node's machine is a guest: its NIC is cabled to the cluster's network itself.
func (b BootFile) InGuest() bool {
	return b.Attachment != nil && b.Attachment.NIC != "" && b.Attachment.NIC == b.Attachment.MAC
}

// Duty is what a boot is for.
type Duty string

// The duties.
const (
	ServeNode Duty = ""        // be a node of a cluster
	Inspect   Duty = "inspect" // erase disks if asked, look at the machine, report, and end; BootFile.Node is the machine's ID
	Enrol     Duty = "enrol"   // look at an unknown machine, report, and end; without token or certificate
	Host      Duty = "host"    // be a hypervisor: hold the guests that Hosting names; BootFile.Node is the machine's ID
)

// Attachment lays the cluster's network over a machine's NIC: a macvlan interface of this MAC and address, without ARP;
// all neighbours are permanent.
type Attachment struct {
	NIC     string `json:"nic"`     // MAC of the NIC that it lies on; "": the one that the machine booted by
	MAC     string `json:"mac"`     // the node's on the cluster's network
	Address string `json:"address"` // the node's, with prefix length
	Home    string `json:"home"`    // NFS source of /home: "10.77.0.2:/home"; "" where there is none
	// Gateway is where a guest finds the controllers, whom it cannot ask for by ARP; empty elsewhere. A guest's NIC is cabled to
	// the cluster's network itself, so NIC and MAC are the same, and nothing is laid over it.
	Gateway Neighbour `json:"gateway,omitzero"`
}

// JoinRequest exchanges the one-time token for a client certificate.
type JoinRequest struct {
	Node    string `json:"node"`
	Boot    int64  `json:"boot"`
	Token   string `json:"token"`
	CSR     string `json:"csr"`      // PEM: certificate request for the key the agent made; its subject is ignored
	HostKey string `json:"host_key"` // the node's SSH host public key, authorized_keys format
}

// JoinReply is the agent's identity for this boot. Repeating a join with the same token and the same CSR key is
// answered again (the reply may have been lost); with another key it is refused.
type JoinReply struct {
	Certificate     string    `json:"certificate"`      // PEM
	NotAfter        time.Time `json:"not_after"`        // renew well before, by joining again over the old certificate
	HostCertificate string    `json:"host_certificate"` // SSH host certificate, authorized_keys format
	Authority       string    `json:"authority"`        // PEM: replaces the one of the BootFile
	Token           string    `json:"token"`            // replaces the one of the BootFile
	Stamp           string    `json:"stamp"`            // of what this reply was made with; see Config
}

// Role of a node in its cluster.
type Role string

// The two roles.
const (
	Head    Role = "head"
	Compute Role = "compute"
)

// Roles lists them.
func Roles() []Role { return []Role{Head, Compute} }

// Users is how many user IDs there are in a node that has a user namespace of its own, from 0 on.
const Users = 0x01010000

// Config is the whole desired state of one node. Agents refuse a Config whose Revision is older than the last applied.
type Config struct {
	Revision  int64  `json:"revision"`
	Cluster   string `json:"cluster"` // the cluster's name, also for its scheduler
	ClusterID string `json:"cluster_id"`
	Self      Peer   `json:"self"`
	Peers     []Peer `json:"peers"`   // every node of the cluster, self included, head first
	Network   string `json:"network"` // the cluster's, with prefix length
	// Gateway is the controller's own end of the cluster's network.
	Gateway Neighbour `json:"gateway"`
	// Scheduler is the cluster's, by the name of its driver, and Credential the secret that its daemons know one another by.
	Scheduler  string `json:"scheduler"`
	Credential []byte `json:"credential,omitempty"`
	// Account is what its jobs are accounted to, and Accounting what the cluster file says of that: "full", "none", or "" where
	// it is as the head has memory for.
	Account    string `json:"account,omitempty"`
	Accounting string `json:"accounting,omitempty"`
	QOS        []QOS  `json:"qos,omitempty"`
	// Shares are users' parts of the cluster, where the cluster file says some: all others have 1.
	Shares map[string]int `json:"shares,omitempty"`
	// MailTo are the domains that the site sends mail to; none: it sends no mail. It is for heads.
	MailTo []string `json:"mail_to,omitempty"`
	// Hooks run around each job, as its user.
	Hooks Hooks `json:"hooks,omitzero"`
	// Stamp is what the reply to a join would have now. When it is another one than that of the last, the agent joins again
	// over its certificate: the site changes what it signs with.
	Stamp  string  `json:"stamp,omitempty"`
	Queues []Queue `json:"queues"`
	Users  []User  `json:"users"`
	SSH    SSH     `json:"ssh"`
	// SharedCPUs says that other nodes run on the same CPUs: then MPI must neither bind its ranks to cores, which every
	// node would count from 0, nor spin while it waits.
	SharedCPUs bool `json:"shared_cpus,omitempty"`
	// First says that no node of this name has run in the cluster before this boot, so that its scheduler cannot know it.
	First bool `json:"first,omitempty"`
	// ExportHome tells the head to serve /home by NFS, to nodes that are not on its host.
	ExportHome bool `json:"export_home,omitempty"`
	// Pause is what the head has to do for its cluster's pause.
	Pause PauseStep `json:"pause,omitempty"`
	// Partitions are the P_Keys of the cluster, of 15 bits, that the node's InfiniBand ports are to hold, by the ports' GUIDs
	// ("0x0002c903000a0b0c"). A port that is not named is not looked at.
	Partitions map[string]uint16 `json:"partitions,omitempty"`
	// Test is what the node is to measure; nil: nothing, or no more.
	Test *Test `json:"test,omitempty"`
	// Tasks are what a head is to have run, in the order in which they were asked for.
	Tasks []Task `json:"tasks,omitempty"`
}

// PauseStep is a part of a pause that the head carries out. It reports the outcome as a check of the step's name, which
// appears when the step is over; OK says whether it succeeded.
type PauseStep string

// The steps. From the first one on the head leaves nodes that go in the scheduler's list, where queued jobs may name them.
const (
	PauseBegins PauseStep = "begin" // nothing more, and no check; the CheckpointHook is a Task
	PauseHalt   PauseStep = "halt"  // the nodes are gone: stop the scheduler, which saves its state
	PauseSleep  PauseStep = "sleep" // the nodes are to sleep: note how long jobs may still run, and stop the scheduler
)

// CheckpointHook is an image's program that lets running jobs save their work before they are queued again: a Task of the
// system's, for CheckpointLimit at most.
const (
	CheckpointHook  = "/etc/muster/checkpoint"
	CheckpointLimit = 5 * time.Minute
)

// Neighbour is an address and whose it is: the nodes are told, since no node on a cluster's network asks by ARP.
type Neighbour struct {
	Address string `json:"address"` // IPv4 without prefix length
	MAC     string `json:"mac"`
}

// Peer is one node as the others see it. Name, address and MAC stay together for the cluster's life.
type Peer struct {
	Name      string `json:"name"`
	Address   string `json:"address"` // IPv4 without prefix length
	MAC       string `json:"mac"`
	Role      Role   `json:"role"`
	Queue     string `json:"queue,omitempty"`
	CPUs      int    `json:"cpus"`
	MemoryMiB int    `json:"memory_mib"`
	GPUs      []GPU  `json:"gpus,omitempty"` // that the node is to have, by their PCI addresses
	// OwnCPUs says that no other node runs on its CPUs, and that its kernel is its own: tasks are bound to them.
	OwnCPUs bool `json:"own_cpus,omitempty"`
	// Leaf is the switch that its machine hangs on, and LeafNumber tells leaves' order; "" and 0: not known.
	Leaf       string `json:"leaf,omitempty"`
	LeafNumber int    `json:"leaf_number,omitempty"`
	// Ready says that it was handed over and stays. Heads hear of it at once where the scheduler's driver asks for that.
	Ready bool `json:"ready,omitempty"`
	// Mounts says that its /home comes from the head by NFS: it is not on the head's host.
	Mounts bool `json:"mounts,omitempty"`
	// Drain asks that no new job starts on it and that running ones end. DrainKill ends what still runs there:
	// the user's drain limit has passed.
	Drain     bool `json:"drain,omitempty"`
	DrainKill bool `json:"drain_kill,omitempty"`
	// Fails is the one of the site's own checks for which it is drained, and stays.
	Fails string `json:"fails,omitempty"`
}

// Queue is a group of nodes that jobs are sent to.
type Queue struct {
	Name    string `json:"name"`
	Default bool   `json:"default,omitempty"`
	// Closed says that it goes: it takes no new jobs, and is there for as long as nodes of it have jobs.
	Closed bool `json:"closed,omitempty"`
	// Most is how many nodes it may have.
	Most int `json:"most,omitempty"`
	// CPUs and MemoryMiB are what its nodes will have, which have CPUs of their own; 0: it is as the machines are.
	CPUs      int `json:"cpus,omitempty"`
	MemoryMiB int `json:"memory_mib,omitempty"`
}

// Hooks are scripts around a job, once on each of its nodes, as its user; "": none. What the prolog prints as "export NAME=value"
// is set for the job's programs; one that fails cancels the job.
type Hooks struct {
	Prolog string `json:"prolog,omitempty"`
	Epilog string `json:"epilog,omitempty"`
}

// QOS is a priority and limits, by a name that jobs ask for. Zero is no limit.
type QOS struct {
	Name     string `json:"name"`
	Priority int    `json:"priority,omitempty"`
	Minutes  int    `json:"minutes,omitempty"` // of a job
	Nodes    int    `json:"nodes,omitempty"`   // of a job
	// The rest is of all jobs of one user: of those that run, and of those that wait, too.
	UserCPUs      int `json:"user_cpus,omitempty"`
	UserNodes     int `json:"user_nodes,omitempty"`
	UserJobs      int `json:"user_jobs,omitempty"`
	UserSubmitted int `json:"user_submitted,omitempty"`
}

// User is an account on every node of the cluster, with a home directory on the shared /home.
type User struct {
	Name string   `json:"name"`
	UID  int      `json:"uid"`
	Keys []string `json:"keys"` // authorized_keys lines
}

// SSH is whom the nodes' sshd trusts and how they are trusted; public keys in authorized_keys format.
type SSH struct {
	UserCA string `json:"user_ca"` // signs user certificates, principal = account name
	HostCA string `json:"host_ca"` // signs the nodes' host certificates
}

// Report is what a node sees of itself, and the head of its scheduler.
type Report struct {
	Boot     int64     `json:"boot"`
	Revision int64     `json:"revision"`                       // of the Config last applied in full
	Facts    NodeFacts `json:"facts" bytes:"65536"`            // as found at the boot
	Checks   []Check   `json:"checks" most:"64" bytes:"16384"` // every check of this role, passed or not, in a fixed order
	// Test is the result of the newest Test that was asked for and is done; nil when none is asked for.
	Test *TestResult `json:"test,omitempty" bytes:"8192"`
	// Scheduler is what a head's scheduler says; nil from other nodes, or while it does not answer.
	Scheduler *Scheduler `json:"scheduler,omitempty"`
	// Tasks are those of the Config, as far as the head has taken them up.
	Tasks []TaskState `json:"tasks,omitempty" most:"64"`
	// Undone is what of the Config users alone suffer from that it is not so. It is tried again.
	Undone []Undone `json:"undone,omitempty" most:"64" bytes:"16384"`
}

// Undone is what a head could not do for a user, or for all.
type Undone struct {
	User string `json:"user"` // for whom; empty: for everybody
	Text string `json:"text"` // what, and why
}

// Whom is for whom, in words.
func (u Undone) Whom() string { return cmp.Or(u.User, "everybody") }

// NodeFacts are what a node finds itself to be. They are measured from inside: what is promised must be there.
type NodeFacts struct {
	Arch      string `json:"arch,omitempty"`       // as Go names it
	Kernel    string `json:"kernel,omitempty"`     // release
	CPUs      int    `json:"cpus,omitempty"`       // that programs may run on
	MemoryMiB int    `json:"memory_mib,omitempty"` // that the kernel shows; a limit may be lower
	Virtual   bool   `json:"virtual,omitempty"`    // a hypervisor is below: who else is on its host is not known

	GPUs  []GPUFacts `json:"gpus,omitempty" most:"64"`  // by their PCI addresses, at most MostGPUs
	Ports []Port     `json:"ports,omitempty" most:"64"` // of adapters that do RDMA, at most MostPorts
}

// Check is one health check's latest result.
type Check struct {
	Name string `json:"name"` // sshd, home, network, one of the scheduler's, or one of the site's own
	OK   bool   `json:"ok"`
	Text string `json:"text,omitempty"` // why not, in words

	Limit string  `json:"limit,omitempty"` // of the site's own checks: what is asked for, in words
	Found bool    `json:"found,omitempty"` // such a check has found a value
	Value float64 `json:"value,omitempty"` // the last that was found
	Unit  string  `json:"unit,omitempty"`  // of the value
}

// OfSite says that it is one of the site's own: while it fails its node takes no new jobs, and works on.
func (c Check) OfSite() bool { return c.Limit != "" }

// Same says that two results differ in nothing but the value of a check that has passed.
func (c Check) Same(other Check) bool {
	if c.OK {
		c.Value = other.Value
	}
	return c == other
}

// ReportReply tells the agent whether its Config is still the newest.
type ReportReply struct {
	Revision int64 `json:"revision"`
	// Every is how often the controller wants to hear from this node.
	Every time.Duration `json:"every"`
}
