package protocol

import "encoding/json"

// What a hypervisor that is a machine of its own and the controller say to each other. Its boot has the duty host, and
// BootFile.Node is the machine's ID; it joins as a node does.
//
//	GET  /agent/v1/hosting?after=N   → Hosting      long poll: 204 after about 25 s without news
//	POST /agent/v1/hosted            HostReport → ReportReply   every few seconds; at once when something changed
//
// Hosting is all that the host is to have. What is present and not in it is removed, no matter who made it: guests first, then
// networks; of what is removed the host forgets the boots as well, which the controller knows. A Hosting older than the newest
// one taken up is refused. A guest's boot file has its one-time token, so a Hosting is never logged or written to disk whole.

// Paths of a hypervisor's calls.
const (
	HostingPath = "/agent/v1/hosting"
	HostedPath  = "/agent/v1/hosted"
)

// Hosting is the whole desired state of one hypervisor.
type Hosting struct {
	Revision int64           `json:"revision"`
	Networks []HostedNetwork `json:"networks"` // one for every cluster that has guests here
	Images   []HostedImage   `json:"images"`   // that the guests boot; of others nothing need be kept
	Guests   []HostedGuest   `json:"guests"`
	// Moves are guests on their way to another host of the site, or from there. What is present of them is left alone, but for
	// the step that each names.
	Moves []HostedMove `json:"moves,omitempty"`
}

// HostedNetwork is a cluster's network as a hypervisor has it: a bridge of its own, with the NIC that the machine booted by
// as its uplink. The gateway is not here but behind the uplink: the bridge has neither its address nor its MAC.
type HostedNetwork struct {
	Cluster string `json:"cluster"` // ID
	Segment int    `json:"segment"`
}

// HostedImage is what guests boot from. The files are fetched by their digests from the boot services, at BlobPath, as the
// first stage fetches a machine's.
type HostedImage struct {
	Digest  string `json:"digest"` // of the image: what HostedGuest.Image names
	Root    Blob   `json:"root"`
	Kernel  string `json:"kernel"`  // digest
	Drivers string `json:"drivers"` // digest of the initramfs with the image's drivers
}

// HostedGuest is one boot of one guest: what the hypervisor's driver makes of it is a substrate.Node.
type HostedGuest struct {
	Cluster string `json:"cluster"` // ID
	Node    string `json:"node"`    // ID
	Boot    int64  `json:"boot"`    // a later boot has a higher number; what is there of an earlier one is removed first
	// Try counts how often something was asked of this boot, and Do is what: that it runs, unless it says otherwise. The host
	// does it once a try: a guest that has ended since, or could not be made, is made again when Try has grown, and not by the
	// host's own will.
	Try int64    `json:"try"`
	Do  HostedDo `json:"do,omitempty"`
	// Again is how many tries before this one were to do the same, in a row. It is of no matter to the host.
	Again      int64           `json:"again,omitempty"`
	Name       string          `json:"name"`    // host name
	Machine    string          `json:"machine"` // name of the guest
	Address    string          `json:"address"` // with prefix length
	MAC        string          `json:"mac"`
	Image      string          `json:"image"` // digest
	CPUs       int             `json:"cpus"`
	MemoryMiB  int             `json:"memory_mib"`
	Allocation json.RawMessage `json:"holding"` // placement.Allocation
	Asked      json.RawMessage `json:"asked"`   // placement.Guest: what that was chosen for
	// Keys are the partitions that it may speak in, by the GUIDs of its host's InfiniBand ports; "" is all that are not named.
	Keys map[string]uint16 `json:"keys,omitempty"`
	File BootFile          `json:"file"` // the guest's boot file, token included
}

// HostedDo is what a host is to do with a guest.
type HostedDo string

// What a host does with a guest. Run makes it again, unless it runs; Sleep writes its memory to the host's disk and ends it;
// Wake lets it run on from there, and never makes it again. Each may be done again.
const (
	DoRun   HostedDo = ""
	DoSleep HostedDo = "sleep"
	DoWake  HostedDo = "wake"
)

// MovePort is where a hypervisor awaits guests of others: TLS with mutual certificates (RFC 8446), while some guest is awaited.
const MovePort = 7422

// MoveStep is what one of its two hosts is to do for a guest that moves. Each may be done again.
type MoveStep string

// Steps of a move. Leave says how the guest is described, and calls off what was sent of it before; Receive makes a place for it;
// Listen lets the other host in; Send copies it there, and ends it here; Arrive lets it run, once it was seen to have ended where
// it was; Hold does nothing, and keeps what there is.
const (
	MoveLeave   MoveStep = "leave"
	MoveReceive MoveStep = "receive"
	MoveListen  MoveStep = "listen"
	MoveSend    MoveStep = "send"
	MoveArrive  MoveStep = "arrive"
	MoveHold    MoveStep = "hold"
)

// HostedMove is a move as one of its two hosts is told of it.
type HostedMove struct {
	Guest  HostedGuest `json:"guest"`  // as it is to be at its new host; its File is empty
	Number int64       `json:"number"` // of the move: names, with the node, the way between the two hosts
	Step   int64       `json:"step"`   // counts what the two are told to do
	Do     MoveStep    `json:"do"`
	// Description is the guest in libvirt's words: for MoveReceive as it runs at its old host, for MoveSend as its new one has
	// it.
	Description string `json:"description,omitempty"`
	// Peer is the other host, the ID of its machine, and PeerBoot the boot of it that must be spoken to. Its agent's
	// certificate says both.
	Peer     string `json:"peer"`
	PeerBoot int64  `json:"peer_boot"`
	Address  string `json:"address,omitempty"` // for MoveSend: where the other host listens
}

// HostedMoved is how a step of a move has ended.
type HostedMoved struct {
	Node   string `json:"node"`
	Number int64  `json:"number"`
	Step   int64  `json:"step"`
	// Description answers MoveLeave and MoveReceive, Address MoveListen.
	Description string `json:"description,omitempty" bytes:"131072"`
	Address     string `json:"address,omitempty"`
	// Gone says that the guest does not run on this host and cannot be made to, and why; Failed is why the step came to nothing.
	Gone   string `json:"gone,omitempty"`
	Failed string `json:"failed,omitempty"`
}

// HostReport is what there is on a hypervisor.
type HostReport struct {
	Boot int64 `json:"boot"` // of the hypervisor; its certificate knows better
	// Revision is that of the newest Hosting taken up. From then on the host begins nothing that this Hosting does not want.
	Revision int64 `json:"revision"`
	Emulates bool  `json:"emulates,omitempty"` // it has no KVM, or is emulated itself
	// Guests are all that are present, in whatever state and no matter who made them, and those of the Hosting that are not
	// present and were tried, or are being made.
	Guests []HostedState `json:"guests" most:"4096"`
	// Moves are the steps of moves in the Hosting that have ended.
	Moves []HostedMoved `json:"moves,omitempty" most:"4096"`
	// Networks are the clusters, by ID, whose networks are there.
	Networks []string `json:"networks" most:"4096"`
	// Lost are devices that did not come back from a guest: PCI address → why.
	Lost map[string]string `json:"lost,omitempty" most:"1024"`
	// Partitions are virtual functions that saw, a moment ago, another InfiniBand partition than their guest's, or whose own is
	// gone: PCI address → what. What they saw wrongly they see no longer.
	Partitions map[string]string `json:"partitions,omitempty" most:"4096"`
	// Trouble is why the host can hold no guest at all, in words: its libvirt does not start. "": it can.
	Trouble string `json:"trouble,omitempty"`
}

// HostedState is one guest as its hypervisor's driver observes it.
type HostedState struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	Boot    int64  `json:"boot"` // of what is present, else of what was tried
	Present bool   `json:"present,omitempty"`
	Running bool   `json:"running,omitempty"`
	// Unseen says that the host could not look at it: Present and Running are what they were when it last could, and prove
	// nothing. Detail says why.
	Unseen bool   `json:"unseen,omitempty"`
	CPU    string `json:"cpu,omitempty"`    // limit in force, as substrate.Limits has it
	Memory string `json:"memory,omitempty"` // the same
	// placement.Allocation: what it has; absent before it was given anything
	Allocation json.RawMessage `json:"holding,omitempty"`
	Detail     string          `json:"detail,omitempty"` // why it does not run, or could not be removed
	// Try is the newest HostedGuest.Try that is over, whether it succeeded or not. Doing is what the next one is at, in
	// words ("fetches its image: 40 %"); "" if none is going on.
	Try   int64  `json:"try,omitempty"`
	Doing string `json:"doing,omitempty"`
	// Bytes is how much disk the memory of a guest takes that the newest try has put to sleep.
	Bytes int64 `json:"bytes,omitempty"`
	// Refused says that the host cannot give this boot its part, or not do with it what was asked, and why:
	// substrate.ErrRefused. NoRoom says that its memory does not fit on the host's disk: substrate.ErrNoRoom. Gone says that it
	// neither runs nor sleeps, and cannot be brought back: substrate.ErrEnded. Failed is any other reason why the newest try
	// came to nothing.
	Refused string `json:"refused,omitempty"`
	NoRoom  string `json:"no_room,omitempty"`
	Gone    string `json:"gone,omitempty"`
	Failed  string `json:"failed,omitempty"`
}
