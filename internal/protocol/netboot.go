package protocol

import (
	"net/netip"
	"strings"
	"time"
)

// What a machine that boots from the network and the controller say to each other before there is an agent. The
// kernel's command line, as written by the boot script, starts it:
//
//	muster.server=http://10.78.0.1:8069   base of the paths below
//	muster.mac=52:54:00:…                 the NIC that booted
//	muster.address=10.78.0.11/16          its lease; absent: the init asks DHCP itself
//	muster.token=…                        the boot's one-time token; absent for an unknown machine
//
//	GET  /boot/v1/plan?mac=…              → Plan        404: nothing to boot now
//	GET  /boot/v1/blob/sha256:<hex>       → bytes       with ranges
//	POST /boot/v1/progress                BootProgress  how far it is; header Authorization: Boot <BootProof>
//	POST /boot/v1/enrol                   Enrolment     what an unknown machine is
//
// Nothing that these answer is secret. The proof of a boot is the lower-case hex SHA-256 of its token: it shows that
// the sender has the token without telling it.

// AgentPort is where controllers listen for agents on a network of machines.
const AgentPort = 7421

// Endpoint is where agents find a controller that has this address on their network.
func Endpoint(controller netip.Addr) string {
	return "https://" + netip.AddrPortFrom(controller, AgentPort).String()
}

// Paths of the boot services.
const (
	PlanPath     = "/boot/v1/plan"
	BlobPath     = "/boot/v1/blob/"
	ProgressPath = "/boot/v1/progress"
	EnrolPath    = "/boot/v1/enrol"
)

// Plan is what the init makes of a machine.
type Plan struct {
	Root  Blob     `json:"root"`  // squashfs of the image
	Agent Blob     `json:"agent"` // the program that becomes the first process, at AgentPath
	Boot  BootFile `json:"boot"`  // written to BootFilePath, with the token of the command line
	// Disk says that the image is written to the first suitable disk and runs from there with a root that stays; on
	// later boots of the same Keep only what is missing is written.
	Disk bool   `json:"disk,omitempty"`
	Keep string `json:"keep,omitempty"` // whose root is on the disk: the node's ID
}

// A guest boots without a network: its hypervisor puts the plan, with the boot's token in it, into its initramfs, and gives
// it root and agent as disks that cannot be written, known by their serials.
const (
	GuestPlan  = "/muster-plan.json" // in the initramfs
	GuestRoot  = "muster-root"       // serial of the disk that is the image's squashfs
	GuestAgent = "muster-agent"      // serial of the disk that begins with the agent's program
)

// NetworkFile is where the init leaves a BootNetwork for the agent.
const NetworkFile = "/run/muster/network.json"

// BootNetwork is how the init reached the boot services; the agent keeps it so.
type BootNetwork struct {
	NIC     string `json:"nic"`               // the kernel's name
	MAC     string `json:"mac"`               // the NIC's
	Address string `json:"address"`           // its lease, with prefix length
	Gateway string `json:"gateway,omitempty"` // address
	// By says who named the address: "script" for the boot script, whose lease lasts as long as the boot, "dhcp", or "plan" for
	// a guest, whose address is its own.
	By           string `json:"by"`
	Server       string `json:"server,omitempty"`        // address of the DHCP server
	LeaseSeconds int    `json:"lease_seconds,omitempty"` // from DHCP
}

// AgentPath is where the init puts the agent's program in the node's root.
const AgentPath = "/usr/local/sbin/muster"

// Blob is a file by its content.
type Blob struct {
	Digest string `json:"digest"` // "sha256:" and 64 hex digits
	Size   int64  `json:"size"`   // bytes
}

// BootStep is a stage that a boot has reached.
type BootStep string

// The steps, in order; any but the first two may be missed.
const (
	StepPower   BootStep = "power"   // switched on
	StepAddress BootStep = "address" // was given its address
	StepScript  BootStep = "script"  // fetched its boot script
	StepKernel  BootStep = "kernel"  // fetched kernel and initramfs
	StepInit    BootStep = "init"    // the init runs
	StepRoot    BootStep = "root"    // has fetched and verified its root
	StepAgent   BootStep = "agent"   // the agent has joined
	StepProblem BootStep = "problem" // cannot go on; Detail says why
)

// BootProgress is what a machine says of its boot.
type BootProgress struct {
	MAC    string        `json:"mac"`
	Step   BootStep      `json:"step"`
	Detail string        `json:"detail,omitempty"` // at most 500 bytes count
	Took   time.Duration `json:"took,omitempty"`   // since its kernel started
	From   netip.Addr    `json:"-"`                // where it was said; the server fills it in
}

// Enrolment is what a machine that is not enrolled says of itself. None of it is trusted until an operator enrols it.
type Enrolment struct {
	MACs  []string `json:"macs"`
	Facts []byte   `json:"facts"` // JSON of inventory.Facts, at most 64 KiB
}

// BootArgument is a word's value on a kernel's command line; "" if it is not there.
func BootArgument(line, name string) string {
	for word := range strings.FieldsSeq(line) {
		if value, found := strings.CutPrefix(word, name+"="); found {
			return value
		}
	}
	return ""
}

// HostBridge is what the networks of clusters are cabled to on a hypervisor: the NIC that it booted by is a port of it.
const HostBridge = "muster0"
