package devices

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Kernel is what Linux tells of devices and does with them. Paths are below /sys.
type Kernel interface {
	// Read is a file's text without the newline at its end; of a link, the last name of where it leads. What is not
	// there is fs.ErrNotExist, also when it has just gone.
	Read(path string) (string, error)
	// List is the names in a folder, in their order.
	List(path string) ([]string, error)
	// Write returns when the kernel has done what the text asks for, or when ctx ends: then the kernel may still be at it.
	Write(ctx context.Context, path, text string) error
	// Holders are the processes that have the VFIO device of an IOMMU group open.
	Holders(group string) ([]int, error)
}

// Links is what the network interface of a physical function tells of its virtual functions and does with them. Names
// and values are those of ip-link(8): mac, vlan, spoofchk, trust, state, node_guid, port_guid.
type Links interface {
	// VF has no name that the kernel says nothing of.
	VF(ctx context.Context, link string, number int) (map[string]string, error)
	// SetVF fails with errors.ErrUnsupported if the interface's driver does not know the name.
	SetVF(ctx context.Context, link string, number int, name, value string) error
}

const (
	pciDevices  = "bus/pci/devices"
	driversPath = "bus/pci/drivers_probe"
	vfioDriver  = "bus/pci/drivers/vfio-pci"
	vfio        = "vfio-pci"
)

// device is a file of a PCI function.
func device(address, file string) string { return pciDevices + "/" + address + "/" + file }

// missing says that something is not there, or went away while it was read.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }
