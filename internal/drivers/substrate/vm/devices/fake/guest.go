package fake

import (
	"fmt"
	"maps"
)

// What a guest, a person or bad luck does to the machine. These are no steps of the driver's and never fail by Fault.

// Open has a process open a function's group as VFIO does: it must be no other process's, and no host driver may have a part of
// it (vfio_group_fops_open and iommu_group_claim_dma_owner).
func (k *Kernel) Open(pid int, address string) error {
	return k.locked(func() error {
		f := k.functions[address]
		if f == nil || f.bound != vfio || f.Group == "" {
			return fmt.Errorf("%s is not VFIO's", address)
		}
		for _, other := range k.functions {
			if other.Group == f.Group && other.Class>>8 != bridge && other.bound != "" && other.bound != vfio &&
				other.bound != "pci-stub" {
				return fmt.Errorf("group %s is not viable: %s has driver %s", f.Group, other.Address, other.bound)
			}
		}
		if k.holders[f.Group] != 0 {
			return fmt.Errorf("group %s is busy", f.Group)
		}
		k.holders[f.Group] = pid
		return nil
	})
}

// Exit ends a process.
func (k *Kernel) Exit(pid int) {
	_ = k.locked(func() error {
		maps.DeleteFunc(k.holders, func(_ string, holder int) bool { return holder == pid })
		return nil
	})
}

// Use leaves a guest's mark in a function: in its memory, and on its disk.
func (k *Kernel) Use(address, mark string) {
	_ = k.locked(func() error {
		f := k.functions[address]
		f.memory = mark
		f.write(mark)
		return nil
	})
}

// Marks are what guests have left in a function, and on whatever disk it reaches.
func (k *Kernel) Marks(address string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.functions[address]
	if f == nil {
		return nil
	}
	var marks []string
	if f.memory != "" {
		marks = append(marks, f.memory)
	}
	return append(marks, f.written()...)
}

// Settings are what the network gives a virtual function.
func (k *Kernel) Settings(address string) map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.functions[address]; f != nil && f.parent != nil {
		return maps.Clone(f.parent.settings[f.number])
	}
	return nil
}

// Deafen makes a function answer nothing on the bus any more, or again.
func (k *Kernel) Deafen(address string, deaf bool) {
	_ = k.locked(func() error { k.deaf[address] = deaf; return nil })
}

// Hang makes resets of a function wait for ever, or no longer.
func (k *Kernel) Hang(address string, hang bool) {
	_ = k.locked(func() error { k.hanging[address] = hang; return nil })
}

// Ignore makes adapters say yes to a setting of virtual functions and do nothing.
func (k *Kernel) Ignore(setting string) {
	_ = k.locked(func() error { k.ignored[setting] = true; return nil })
}

// Vanish takes all virtual functions from a physical one, as a reset of its adapter does.
func (k *Kernel) Vanish(physical string) {
	_ = k.locked(func() error {
		f := k.functions[physical]
		for _, v := range f.vfs {
			delete(k.holders, v.Group)
		}
		k.removeVFs(f)
		return nil
	})
}
