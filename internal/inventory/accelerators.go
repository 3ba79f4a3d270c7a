package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"muster/internal/kit/lists"
)

// GPUs are the whole GPUs that a machine can give, in the order of their PCI addresses, which stays over boots. Virtual
// functions are not counted: they come and go.
func (f Facts) GPUs() []Device {
	gpus := slices.Clone(f.Devices)
	gpus = slices.DeleteFunc(gpus, func(d Device) bool { return d.Kind != "gpu" || d.Parent != "" })
	slices.SortStableFunc(gpus, func(a, b Device) int { return ComparePCI(a.PCI, b.PCI) })
	return gpus
}

// GPUAddress names one GPU among all of a site: "r1n1/gpu0".
func GPUAddress(machine string, index int) string { return fmt.Sprintf("%s/gpu%d", machine, index) }

// ComparePCI orders PCI addresses as the kernel counts them. Their parts are hexadecimal and of fixed length, but for the
// domain, which some have with five digits: "10000:00:02.0".
func ComparePCI(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }

// Driver is what an image must have for programs to use a kind of device.
type Driver struct {
	Name    string   // as recipes and refusals call it
	Modules []string // the kernel's; each of them is needed
	Kind    string   // of Device
	Vendor  string   // of Device; four hex digits
	IDs     []string // of Device, where a vendor's devices need several drivers; nil: all others of the vendor
}

// drivers say what a device is driven by. Vendors are the PCI SIG's numbers; modules are those that carry the vendor's
// numbers as their aliases in Linux 6.1 (drivers/infiniband/hw, drivers/gpu/drm), and NVIDIA's own, whose sources are not
// in Linux (README of the driver, "Installed Components": nvidia.ko, and nvidia-uvm.ko for CUDA).
func drivers() []Driver {
	return []Driver{
		{Name: "nvidia", Kind: "gpu", Vendor: "10de", Modules: []string{"nvidia", "nvidia_uvm"}},
		{Name: "amdgpu", Kind: "gpu", Vendor: "1002", Modules: []string{"amdgpu"}},
		{Name: "i915", Kind: "gpu", Vendor: "8086", Modules: []string{"i915"}},
		// ConnectX-2 and -3, and their functions: drivers/net/ethernet/mellanox/mlx4/main.c
		{Name: "mlx4", Kind: "hca", Vendor: "15b3", Modules: []string{"mlx4_core", "mlx4_ib"}, IDs: []string{
			"6340", "634a", "6354", "6732", "673c", "6368", "6750", "6372", "675a", "6764", "6746", "676e", "1002", "1003",
			"1004", "1005", "1006", "1007",
		}},
		{Name: "mlx5", Kind: "hca", Vendor: "15b3", Modules: []string{"mlx5_core", "mlx5_ib"}},
		{Name: "hfi1", Kind: "hca", Vendor: "8086", Modules: []string{"hfi1"}}, // Omni-Path 100
	}
}

// Drivers are the names that an image can declare, in alphabetical order.
func Drivers() []string {
	names := lists.Map(drivers(), func(d Driver) string { return d.Name })
	slices.Sort(names)
	return names
}

// DriverModules are the kernel's modules that a driver is made of; nil if there is no driver of that name.
func DriverModules(name string) []string {
	driver, _ := lists.Find(drivers(), func(d Driver) bool { return d.Name == name })
	return driver.Modules
}

// DriverOf is the name of the driver that a device needs; "" if its kind or make is unknown.
func DriverOf(d Device) string {
	driver, _ := lists.Find(drivers(), func(driver Driver) bool {
		return driver.Kind == d.Kind && driver.Vendor == d.Vendor && (driver.IDs == nil || slices.Contains(driver.IDs, d.ID))
	})
	return driver.Name
}

// AsksFor says that only machines with devices of the kind, gpu or hca, are of the class.
func (c Class) AsksFor(kind string) bool {
	for _, condition := range c.Select {
		least := condition.number
		switch condition.Op {
		case ">":
			least++
		case ">=", "=":
		default:
			continue
		}
		if condition.Fact == kind+"s" && least >= 1 {
			return true
		}
	}
	return false
}
