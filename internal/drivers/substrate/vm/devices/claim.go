package devices

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"muster/internal/kit/locks"
)

// check refuses a want that no device could fulfil, and spells its addresses as they are read back.
func (w *Want) check() error {
	if !isAddress(w.PCI) {
		return fmt.Errorf("device %q: not a PCI address; one looks like 0000:3b:00.1", w.PCI)
	}
	if w.Guest == "" {
		return fmt.Errorf("device %s: it is wanted for no guest", w.PCI)
	}
	if w.Host != "" {
		return fmt.Errorf("device %s: the host needs it: %s", w.PCI, w.Host)
	}
	if w.VLAN < 0 || w.VLAN > 4094 {
		return fmt.Errorf("device %s: VLAN %d; it is 1 to 4094, or 0 for none", w.PCI, w.VLAN)
	}
	if w.MAC != "" {
		mac, err := net.ParseMAC(w.MAC)
		if err != nil || len(mac) != 6 || mac[0]&1 != 0 || mac.String() == noMAC {
			return fmt.Errorf("device %s: %q is no MAC address that a device can have; one looks like 02:00:5e:10:00:01", w.PCI,
				w.MAC)
		}
		w.MAC = mac.String()
	}
	if w.GUID != "" {
		guid, err := guidBytes(w.GUID)
		if err != nil {
			return fmt.Errorf("device %s: %w", w.PCI, err)
		}
		w.GUID = guid
	}
	if _, err := parseKeys(spellKeys(w.Keys)); err != nil {
		return fmt.Errorf("device %s: %w", w.PCI, err)
	}
	return nil
}

// guidBytes spells a GUID as ip-link(8) does: "00:11:22:33:44:55:66:77".
func guidBytes(text string) (string, error) {
	digits := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(text, "0x"), ":", ""))
	if len(digits) != 16 || strings.Trim(digits, "0123456789abcdef") != "" || strings.Trim(digits, "0") == "" {
		return "", fmt.Errorf("%q is no GUID; one looks like 0011:2233:4455:6677", text)
	}
	var pairs []string
	for ; digits != ""; digits = digits[2:] {
		pairs = append(pairs, digits[:2])
	}
	return strings.Join(pairs, ":"), nil
}

// claim judges whether a device may become the guest's, and writes down that it is. given says that the guest has it open
// already.
func (d *Driver) claim(ctx context.Context, f function, w Want) (given bool, err error) {
	// Calls that judge others of its IOMMU group do so before or after, and not meanwhile.
	release, err := locks.Wait(ctx, filepath.Join(d.Dir, "claims.lock"))
	if err != nil {
		return false, err
	}
	defer release()
	wanted := record{PCI: w.PCI, Guest: w.Guest, Parent: f.parent, Number: f.number, MAC: w.MAC, VLAN: w.VLAN, GUID: w.GUID,
		Keys: spellKeys(w.Keys), Withheld: w.Withheld}
	holders, err := d.holders(w.PCI)
	if err != nil {
		return false, err
	}
	r, err := d.record(w.PCI)
	switch {
	case err != nil:
		return false, err
	case r == nil && len(holders) > 0:
		return false, fmt.Errorf("process %d has IOMMU group %s open: %w", holders[0], f.group, ErrHeld)
	case r == nil:
	case r.Lost != "":
		return false, fmt.Errorf("it could not be taken back from guest %s: %s", r.Guest, r.Lost)
	case r.Returning:
		return false, fmt.Errorf("it is being taken back from guest %s: %w", r.Guest, ErrTaken)
	case r.Guest != w.Guest:
		return false, fmt.Errorf("guest %s has it: %w", r.Guest, ErrTaken)
	case *r != wanted:
		return false, fmt.Errorf("guest %s has it with another address (MAC %q, VLAN %d, GUID %q, partitions %q): release "+
			"it first", r.Guest, r.MAC, r.VLAN, r.GUID, r.Keys)
	case len(holders) > 0 && f.driver == vfio: // what is not VFIO's is not open: then the guest has another of its group
		return true, nil
	}
	if err := d.relatives(f); err != nil {
		return false, err
	}
	if err := d.group(f, w); err != nil {
		return false, err
	}
	if err := d.resettable(f); err != nil && !w.Withheld {
		return false, err
	}
	if r == nil {
		if err := d.vacant(ctx, f); err != nil {
			return false, err
		}
	}
	return false, d.save(wanted)
}

// relatives refuses a virtual function whose physical one is a guest's, and a physical one that is divided.
func (d *Driver) relatives(f function) error {
	if f.parent == "" {
		vfs, err := d.virtual(f.address)
		if err == nil && len(vfs) > 0 {
			err = fmt.Errorf("it is divided into %d virtual functions, which would vanish with it", len(vfs))
		}
		return err
	}
	r, err := d.record(f.parent)
	if err == nil && r != nil {
		err = fmt.Errorf("its physical function %s is guest %s's", f.parent, r.Guest)
	}
	return err
}

// group refuses a function whose IOMMU group could not be the guest's alone. Whatever shares a group reaches each
// other's memory, and VFIO opens it only if no host driver has a part of it. Bridges are an exception of the kernel's
// (Documentation/driver-api/vfio.rst, "VFIO Usage Example").
func (d *Driver) group(f function, w Want) error {
	if f.group == "" {
		return errors.New("it is in no IOMMU group: switch on the IOMMU (VT-d, AMD-Vi) in the firmware, and intel_iommu=on on " +
			"the kernel's command line")
	}
	// VFIO can be told to do without an IOMMU; then the groups that it makes up have this name (drivers/vfio/group.c).
	name, err := d.optional("kernel/iommu_groups/" + f.group + "/name")
	if err == nil && name == "vfio-noiommu" {
		err = errors.New("VFIO is in its mode without an IOMMU: the guest could reach all memory of the host; set " +
			"enable_unsafe_noiommu_mode=0")
	}
	if err != nil {
		return err
	}
	members, err := d.Kernel.List("kernel/iommu_groups/" + f.group + "/devices")
	if err != nil {
		return fmt.Errorf("IOMMU group %s: %w", f.group, err)
	}
	for _, address := range members {
		if address == f.address {
			continue
		}
		other, err := d.look(address)
		if err != nil {
			return fmt.Errorf("IOMMU group %s: %w", f.group, err)
		}
		if other.class>>8 == baseBridge {
			continue
		}
		r, err := d.record(address)
		switch {
		case err != nil:
			return err
		case r != nil && (r.Guest != w.Guest || r.Returning):
			return fmt.Errorf("its IOMMU group %s also has %s, which is guest %s's: %w", f.group, address, r.Guest, ErrTaken)
		case slices.Contains(w.Together, address):
		case other.driver != "" && other.driver != vfio && other.driver != "pci-stub":
			return fmt.Errorf("its IOMMU group %s also has %s, which the host's driver %s has: unbind it there, or choose "+
				"another device",
				f.group, address, other.driver)
		}
	}
	return nil
}
