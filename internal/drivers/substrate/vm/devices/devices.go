// Package devices moves a hypervisor's PCI devices between the host and its guests: whole ones and the virtual functions
// of SR-IOV.
//
// What enters: which device a guest is to have, with its address on the fabric, and how many virtual functions a
// physical one is to be divided into. What leaves: devices bound to vfio-pci, configured and read back; devices that
// were reset, erased and given back; and for each one which state it is in.
//
//	free ──Prepare──► prepared ──the guest starts──► given
//	 ▲                   │                             │ the guest ends
//	 └──── returned ◄────┴──────────Release────────────┘
//	          │ ▲
//	          ▼ │ Mend, Release
//	         lost (with a reason)
//
// What a device is and who drives it is read from sysfs each time, and never remembered. What sysfs cannot tell, for whom
// a device was prepared, is a file, written before the first step and removed after the last. So each call may be
// repeated at any time, by another process too, and whatever was interrupted ends as if it had not been.
package devices

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"muster/internal/fabric"
	"muster/internal/kit/locks"
	"muster/internal/kit/wrap"
)

// State is where a device is on its way from the host to a guest and back.
type State string

// The states. A device without a record of ours is free, as far as this package knows.
const (
	Free     State = "free"
	Prepared State = "prepared" // for its guest, who has not opened it yet
	Given    State = "given"    // a process has it open
	Returned State = "returned" // taken from its guest, and not yet what it was before
	Lost     State = "lost"     // the last try to take it back has failed; it is given to no guest
)

// Errors that callers act upon.
var (
	ErrTaken = errors.New("it is another guest's")
	ErrHeld  = errors.New("a process has it open") // the guest must end first
)

// Want is a device for a guest.
type Want struct {
	Guest string
	PCI   string
	Host  string // what the host needs it for, as inventory.Device has it; such a device is refused
	MAC   string // of an Ethernet virtual function
	VLAN  int    // of an Ethernet virtual function; 0: none
	GUID  string // of an InfiniBand virtual function, its node and its port: "0011:2233:4455:6677"
	// Keys are the guest's partitions by the host's ports, as substrate.Node has them. Only adapters that map partitions need
	// them; those of the others the subnet manager gives to the GUID.
	Keys map[fabric.GUID]fabric.Key
	// Withheld is a device that is kept from everybody, since it shares an IOMMU group with one of the guest's.
	Withheld bool
	Together []string // what the same guest is about to get, itself included: the host's drivers may still have it
}

// Status is what is true of one device.
type Status struct {
	PCI     string
	State   State
	Guest   string // for whom it was prepared
	Reason  string // why it is lost
	Holders []int  // processes that have it open
}

// Tools runs programs.
type Tools interface {
	// Run runs one to its end. It returns the standard output also of a program that failed.
	Run(ctx context.Context, argv ...string) ([]byte, error)
}

// Eraser erases disks that come back from guests.
type Eraser interface {
	// Erase erases disks, by the kernel's names, and proves it. Shared says that others use other disks of their controller. It
	// may be repeated; after an error they are not given away.
	Erase(ctx context.Context, disks []string, shared bool) error
}

// Options of a Driver. Kernel, Links, Tools, Eraser and Dir are required.
type Options struct {
	Kernel Kernel
	Links  Links
	Tools  Tools
	Eraser Eraser
	Dir    string // of the records; it outlives the process, and the host's boots, since a disk stays full through them
	// Patience is how long the kernel may take for one step before the device counts as hung: 90 s. The kernel itself
	// waits up to 60 s for a device that was reset (drivers/pci/pci.c, PCIE_RESET_READY_POLL_MS).
	Patience time.Duration
}

// Driver moves devices. Several of them, also in several processes, may share a Dir.
type Driver struct{ Options }

// New is a driver of this host's devices. It changes none.
func New(o Options) (*Driver, error) {
	if o.Patience == 0 {
		o.Patience = 90 * time.Second
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("records of devices: %w", err)
	}
	return &Driver{o}, nil
}

// family waits until no other call moves a device of one physical function: its virtual functions come and go with it, and are
// configured through it.
func (d *Driver) family(ctx context.Context, physical string) (release func(), err error) {
	release, err = locks.Wait(ctx, filepath.Join(d.Dir, physical+".lock"))
	return release, wrap.Errorf(err, "another change of %s or of its virtual functions", physical)
}

// List tells of every device that is not free: those with a record, and those that a process has open without one.
func (d *Driver) List() ([]Status, error) {
	records, err := d.records()
	if err != nil {
		return nil, err
	}
	var all []Status
	known := map[string]bool{}
	for _, r := range records {
		s, err := d.status(r)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
		known[r.PCI] = true
	}
	names, err := d.Kernel.List(vfioDriver)
	if err != nil && !missing(err) {
		return nil, fmt.Errorf("devices of vfio-pci: %w", err)
	}
	for _, address := range names {
		if known[address] || !isAddress(address) {
			continue
		}
		holders, err := d.holders(address)
		if err != nil {
			return nil, err
		}
		if len(holders) > 0 {
			all = append(all, Status{PCI: address, State: Lost, Holders: holders,
				Reason: fmt.Sprintf("process %d has it open, and it was prepared for no guest", holders[0])})
		}
	}
	return all, nil
}

// status is what is true of a device with a record.
func (d *Driver) status(r record) (Status, error) {
	s := Status{PCI: r.PCI, State: Prepared, Guest: r.Guest, Reason: r.Lost}
	var err error
	if s.Holders, err = d.holders(r.PCI); err != nil {
		return s, err
	}
	switch {
	case r.Lost != "":
		s.State = Lost
	case r.Returning:
		s.State = Returned
	case len(s.Holders) > 0:
		s.State = Given
	}
	return s, nil
}

// holders are the processes that have the device of a function's group open; none for a function that is gone.
func (d *Driver) holders(address string) ([]int, error) {
	group, err := d.Kernel.Read(device(address, "iommu_group"))
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("IOMMU group of %s: %w", address, err)
	}
	pids, err := d.Kernel.Holders(group)
	return pids, wrap.Errorf(err, "who has %s open", address)
}

// Mend tries once more to take back what is returned or lost, and tells what is still not free.
func (d *Driver) Mend(ctx context.Context) error {
	records, err := d.records()
	if err != nil {
		return err
	}
	var failed []error
	for _, r := range records {
		if r.Returning || r.Lost != "" {
			failed = append(failed, d.Release(ctx, r.PCI, r.Guest))
		}
	}
	return errors.Join(failed...)
}
