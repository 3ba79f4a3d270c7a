// Package fake is a kernel with PCI devices in memory, for whatever moves devices. It passes the contract that the real
// one passes, and fails when it is told to.
//
// What enters: Functions. What leaves: what sysfs, netlink and the program nvme would answer.
package fake

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Function is a PCI function of the machine.
type Function struct {
	Address, Group string
	Class          int // base class and subclass
	Vendor, ID     string
	Driver         string // of the host, that takes it by itself
	Methods        string // by which it can be reset, as reset_method shows them; "": by none
	VFs            int    // that it can have
	VFDriver       string
	SharedGroup    bool   // its virtual functions are in its own group: there is no ACS above it
	Link           string // its network interface
	InfiniBand     bool
	NVMe           string // its controller
	Namespaces     int    // no controller's at first, if it can have virtual functions; else its own
	// Mapped is the RDMA device of an adapter of mlx4, which maps partitions for its virtual functions, and Ports how many it
	// has.
	// All its virtual functions are there from the start: their number is a parameter of the driver.
	Mapped string
	Ports  int
}

type function struct {
	Function
	bound     string // driver
	override  string
	parent    *function
	number    int // of a virtual function
	vfs       []*function
	autoprobe bool
	memory    string              // what a guest has left in it; a reset clears it
	settings  []map[string]string // of virtual functions, at their parent
	disk      *disk               // of an NVMe controller
	mapped    *mapped             // of an adapter of mlx4
}

// Kernel has the machine's state. Fault is called before and after each step that changes something, and may return an
// error, or panic for a process that is killed there.
type Kernel struct {
	Fault func(step string) error

	mu        sync.Mutex
	changed   *sync.Cond
	functions map[string]*function
	holders   map[string]int // by group: a process
	deaf      map[string]bool
	hanging   map[string]bool
	ignored   map[string]bool // settings of virtual functions
}

const (
	vfio   = "vfio-pci"
	bridge = 0x06
)

// New is a machine that has just booted: the host's drivers have taken what they take.
func New(functions ...Function) *Kernel {
	k := &Kernel{functions: map[string]*function{}, holders: map[string]int{}, deaf: map[string]bool{},
		hanging: map[string]bool{}, ignored: map[string]bool{}}
	k.changed = sync.NewCond(&k.mu)
	for _, f := range functions {
		k.functions[f.Address] = &function{Function: f, bound: f.Driver, autoprobe: true,
			settings: make([]map[string]string, f.VFs), disk: newDisk(f)}
		for i := range k.functions[f.Address].settings {
			k.functions[f.Address].settings[i] = fresh(f.InfiniBand)
		}
		if f.Mapped != "" {
			k.functions[f.Address].mapped = newMapped(f)
			k.addVFs(k.functions[f.Address], f.VFs)
		}
	}
	return k
}

// step does something that changes the machine, unless it is to fail.
func (k *Kernel) step(name string, do func() error) error {
	if k.Fault != nil {
		if err := k.Fault(name); err != nil {
			return err
		}
	}
	err := k.locked(do)
	if k.Fault != nil && err == nil {
		err = k.Fault(name + ", done")
	}
	return err
}

func (k *Kernel) locked(do func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.changed.Broadcast()
	return do()
}

// Read reads what the driver of devices reads.
func (k *Kernel) Read(name string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if address, file, ok := pciFile(name); ok {
		if f := k.functions[address]; f != nil {
			return f.read(file, k.deaf[address])
		}
		return "", unix.ENOENT
	}
	if text, ok := k.readMapped(name); ok {
		return text, nil
	}
	words := strings.Split(name, "/")
	for _, f := range k.functions {
		switch {
		case strings.HasPrefix(name, "class/net/") && f.Link != "" && f.Link == words[2] && f.bound == f.Driver:
			if words[3] == "type" {
				return map[bool]string{true: "32", false: "1"}[f.InfiniBand], nil
			}
			return "", unix.EOPNOTSUPP
		case words[0] == "block" && f.disk != nil && f.bound == f.Driver:
			if text, ok := f.readBlock(words[1], words[2]); ok {
				return text, nil
			}
		}
	}
	return "", unix.ENOENT
}

// pciFile divides "bus/pci/devices/ADDRESS/FILE".
func pciFile(name string) (address, file string, ok bool) {
	rest, ok := strings.CutPrefix(name, "bus/pci/devices/")
	if !ok {
		return "", "", false
	}
	address, file, ok = strings.Cut(rest, "/")
	return address, file, ok
}

func (f *function) read(file string, deaf bool) (string, error) {
	text, there := "", true
	switch file {
	case "class":
		text = fmt.Sprintf("0x%04x00", f.Class)
	case "vendor", "device":
		text = "0x" + map[string]string{"vendor": f.Vendor, "device": f.ID}[file]
	case "driver":
		text, there = f.bound, f.bound != ""
	case "iommu_group":
		text, there = f.Group, f.Group != ""
	case "driver_override":
		text = f.override
		if text == "" {
			text = "(null)"
		}
	case "reset_method":
		text, there = f.Methods, f.Methods != ""
	case "physfn":
		if there = f.parent != nil; there {
			text = f.parent.Address
		}
	case "config":
		text = strings.Repeat("\x01", 64)
		if deaf {
			text = strings.Repeat("\xff", 64)
		}
	case "sriov_totalvfs", "sriov_numvfs":
		text, there = strconv.Itoa(map[string]int{"sriov_totalvfs": f.VFs, "sriov_numvfs": len(f.vfs)}[file]), f.VFs > 0
	case "sriov_drivers_autoprobe":
		text, there = map[bool]string{true: "1", false: "0"}[f.autoprobe], f.VFs > 0
	default:
		n, virtual := strings.CutPrefix(file, "virtfn")
		i, err := strconv.Atoi(n)
		if there = virtual && err == nil && i < len(f.vfs); there {
			text = f.vfs[i].Address
		}
	}
	if !there {
		return "", unix.ENOENT
	}
	return text, nil
}

// List lists the folders that the driver of devices lists.
func (k *Kernel) List(name string) ([]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := slices.Sorted(maps.Keys(k.functions))
	if group, ok := strings.CutPrefix(name, "kernel/iommu_groups/"); ok {
		names := slices.DeleteFunc(all, func(a string) bool { return k.functions[a].Group != path.Dir(group) })
		if len(names) == 0 {
			return nil, unix.ENOENT
		}
		return names, nil
	}
	if driver, ok := strings.CutPrefix(name, "bus/pci/drivers/"); ok {
		return append(slices.DeleteFunc(all, func(a string) bool { return k.functions[a].bound != driver }), "bind", "unbind"),
			nil
	}
	if name == "block" {
		return k.blocks(), nil
	}
	if names, ok := k.listMapped(name); ok {
		return names, nil
	}
	address, file, _ := strings.Cut(strings.TrimPrefix(name, "bus/pci/devices/"), "/")
	f := k.functions[address]
	switch {
	case f == nil:
	case file == "":
		names := []string{"class", "config", "driver_override"}
		if f.Methods != "" {
			names = append(names, "reset", "reset_method")
		}
		return names, nil
	case file == "infiniband" && f.mapped != nil && f.bound == f.Driver:
		return []string{f.mapped.name}, nil
	case file == "net" && f.Link != "" && f.bound == f.Driver:
		return []string{f.Link}, nil
	case file == "nvme" && f.NVMe != "" && f.bound == f.Driver:
		return []string{f.NVMe}, nil
	}
	return nil, unix.ENOENT
}

// Write does what the kernel does.
func (k *Kernel) Write(ctx context.Context, name, text string) error {
	return k.step("write "+strconv.Quote(text)+" to "+name, func() error {
		if name == "bus/pci/drivers_probe" {
			f := k.functions[text]
			if f == nil {
				return unix.ENODEV
			}
			k.probe(f)
			return nil
		}
		if m, at := k.adapter(name); m != nil {
			return k.writeMapped(m, at, text)
		}
		address, file, _ := pciFile(name)
		f := k.functions[address]
		if f == nil {
			return unix.ENOENT
		}
		return k.write(ctx, f, file, text)
	})
}

func (k *Kernel) write(ctx context.Context, f *function, file, text string) error {
	switch {
	case file == "driver_override":
		f.override = strings.TrimSuffix(text, "\n")
	case file == "driver/unbind" && f.bound != "":
		if text != f.Address {
			return unix.ENODEV
		}
		if err := k.await(ctx, func() bool { return f.bound != vfio || k.holders[f.Group] == 0 }); err != nil {
			return err
		}
		k.removeVFs(f) // as the host's drivers do with theirs
		f.bound = ""
	case file == "sriov_drivers_autoprobe" && f.VFs > 0:
		f.autoprobe = text == "1"
	case file == "sriov_numvfs" && f.VFs > 0:
		return k.divide(ctx, f, text)
	case file == "reset_method" && f.Methods != "":
		if !slices.Contains(strings.Fields(f.Methods), text) {
			return unix.EINVAL
		}
		f.Methods = text
	case file == "reset" && f.Methods != "":
		if err := k.await(ctx, func() bool { return !k.hanging[f.Address] }); err != nil {
			return err
		}
		f.memory = ""
	default:
		return unix.ENOENT
	}
	return nil
}

// await waits as the kernel does in a write: without end, but for the writer's patience.
func (k *Kernel) await(ctx context.Context, until func() bool) error {
	stop := context.AfterFunc(ctx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.changed.Broadcast()
	})
	defer stop()
	for !until() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		k.changed.Wait()
	}
	return nil
}

// divide follows sriov_numvfs_store (drivers/pci/iov.c).
func (k *Kernel) divide(ctx context.Context, f *function, text string) error {
	n, err := strconv.ParseUint(text, 10, 16)
	switch {
	case err != nil:
		return unix.EINVAL
	case int(n) > f.VFs:
		return unix.ERANGE
	case int(n) == len(f.vfs):
		return nil
	case f.bound == "" || f.bound == vfio || f.mapped != nil: // its driver has no way to
		return unix.ENOENT
	case n == 0:
		free := func() bool {
			return !slices.ContainsFunc(f.vfs, func(v *function) bool { return v.bound == vfio && k.holders[v.Group] != 0 })
		}
		if err := k.await(ctx, free); err != nil {
			return err
		}
		k.removeVFs(f)
		return nil
	case len(f.vfs) > 0:
		return unix.EBUSY
	}
	k.addVFs(f, int(n))
	return nil
}

func (k *Kernel) addVFs(f *function, n int) {
	for i := range n {
		v := &function{
			Function: Function{Address: virtualAddress(f.Address, i), Group: f.Group + "0" + strconv.Itoa(i), Class: f.Class,
				Vendor: f.Vendor, ID: f.ID, Driver: f.VFDriver, Methods: f.Methods},
			parent: f, number: i, autoprobe: true,
		}
		if f.SharedGroup || f.Group == "" {
			v.Group = f.Group
		}
		f.vfs = append(f.vfs, v)
		k.functions[v.Address] = v
		k.probe(v)
	}
}

// virtualAddress is that of a virtual function that follows its physical one, function 0, without a gap.
func virtualAddress(physical string, i int) string {
	bus, _, _ := strings.Cut(physical[len("0000:"):], ":")
	return fmt.Sprintf("%s%s:%02x.%d", physical[:len("0000:")], bus, (i+1)/8, (i+1)%8)
}

func (k *Kernel) removeVFs(f *function) {
	for _, v := range f.vfs {
		delete(k.functions, v.Address)
	}
	f.vfs = nil
	f.disk.offline()
}

// probe follows pci_bus_match and pci_device_can_probe (drivers/pci/pci-driver.c).
func (k *Kernel) probe(f *function) {
	switch {
	case f.bound != "":
	case f.override == vfio && f.Group == "":
	case f.override != "":
		f.bound = f.override
	case f.parent == nil || f.parent.autoprobe:
		f.bound = f.Driver
	}
}

// Holders are the processes that have opened a group.
func (k *Kernel) Holders(group string) ([]int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if pid := k.holders[group]; pid != 0 {
		return []int{pid}, nil
	}
	return nil, nil
}
