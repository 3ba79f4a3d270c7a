// Package netboot answers machines that boot from the network: DHCPv4 (RFC 2131) or ProxyDHCP (PXE 2.1), TFTP (RFC 1350,
// 2347-2349, 7440), HTTP, and IPv6 router advertisements (RFC 4861), so that no firmware waits for one until it times out.
//
// What enters: packets of machines, which prove nothing, and what the controller knows. What leaves: answers, and a report
// of each step to the controller. This package keeps no state: any replica may answer any packet.
package netboot

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"muster/internal/netboot/onlink"
	"muster/internal/protocol"
)

// Errors that a Controller returns, to be told apart with errors.Is.
var (
	ErrUnknown = errors.New("unknown machine")     // it is not enrolled, and the network does not offer enrolment
	ErrNothing = errors.New("nothing to boot now") // a known machine that was not asked to boot: its own disk is next
	ErrTaken   = errors.New("address is not free") // the lease asked for is another machine's
	ErrFull    = errors.New("no address is free")  // the network's range is exhausted
	ErrProof   = errors.New("the boot's proof is missing or wrong")
	ErrKept    = errors.New("an enrolled machine keeps its address")
	ErrWait    = errors.New("this boot's script was handed out too often")
)

// Lease is an address of a machine.
type Lease struct {
	MAC     net.HardwareAddr
	Address netip.Addr
	Until   time.Time
	Known   bool // of an enrolled machine
}

// Ask is one machine's request for an address.
type Ask struct {
	MAC  net.HardwareAddr
	Want netip.Addr // asked for (option 50 or ciaddr); zero: any
	// Commit asks for a lease that is durable when Leases returns (DHCPREQUEST); without it an address is only looked
	// for, and nothing is written (DHCPDISCOVER).
	Commit bool
	// Decline says that another host has the address Want (DHCPDECLINE): an unknown machine's lease of it is forgotten, and no
	// machine is given the address for that long; an enrolled machine's stays, which ErrKept says.
	Decline bool
	For     time.Duration
}

// Granted is the answer to one Ask: a lease, or why not: ErrUnknown, ErrTaken, ErrFull.
type Granted struct {
	Lease Lease
	Err   error
}

// BootConfig is what a machine is to load now.
type BootConfig struct {
	Kernel    string     // digest of the kernel, a blob
	Drivers   string     // digest of the image's driver archive, the second part of the initramfs after our init, a blob
	Address   netip.Addr // its lease; zero where another server gives addresses
	Token     string     // the boot's one-time token; "" for an unknown machine
	Arguments string     // more for the kernel's command line: consoles, a site's own
}

// Controller is what this package asks of the controller that it is part of. All of it may be called from many goroutines,
// and by any replica.
type Controller interface {
	// Leases answers a batch in one transaction, in order. An address that is only looked for is best chosen by the MAC: of
	// two machines that look at once and are offered the same, one has to begin again.
	Leases(ctx context.Context, network string, asks []Ask) ([]Granted, error)
	// Known says of each of these MACs whether it is an enrolled machine's, or of a network that offers enrolment.
	Known(ctx context.Context, network string, macs []net.HardwareAddr) ([]bool, error)
	// Release forgets a lease that its machine gave back: ErrKept for an enrolled one's.
	Release(ctx context.Context, network string, mac net.HardwareAddr, address netip.Addr) error
	// Held lists the leases of enrolled machines, so that no other machine is sent what is for them.
	Held(ctx context.Context, network string) ([]Lease, error)
	// Admit says whether a caller is the machine of a MAC: an onlink.ErrUnknownMachine, or ErrUnknown. Before it says so of an
	// enrolled machine, what is sent to the caller's address goes to that machine and nowhere else.
	Admit(ctx context.Context, network string, mac net.HardwareAddr, who onlink.Caller) error
	// BootConfig says what the machine loads: ErrUnknown, ErrNothing, ErrWait. It hands out the token, so it is asked only for
	// the script that the machine runs; the second time for one boot is told apart by the Controller (a firmware may repeat
	// itself).
	BootConfig(ctx context.Context, network string, mac net.HardwareAddr) (BootConfig, error)
	// Plan is what the init makes of it: ErrUnknown, ErrNothing.
	Plan(ctx context.Context, network string, mac net.HardwareAddr) (protocol.Plan, error)
	// Seen notes that a machine has reached a step: ErrUnknown, ErrProof. From packets that prove nothing, proof is "".
	Seen(ctx context.Context, network string, progress protocol.BootProgress, proof string) error
	// Enrol notes an unknown machine, which has sent this from that MAC.
	Enrol(ctx context.Context, network string, mac net.HardwareAddr, e protocol.Enrolment) error
}

// Blobs are files by digest.
type Blobs interface {
	// Blob opens a file for reading; os.ErrNotExist if there is none of that digest.
	Blob(digest string) (Blob, error)
}

// Blob is an open file. Its *os.File, if it is one, lets the kernel send it.
type Blob = io.ReadSeekCloser
