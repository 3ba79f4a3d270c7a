package devices

import (
	"strconv"

	"muster/internal/kit/lists"
)

// quirk is how a device differs from what the kernel says of it.
type quirk struct {
	vendor      string
	first, last uint64 // device IDs
	need        string // the only method that resets it
	avoid       string // a method that leaves it dead
	why, source string
}

// quirks are the documented ones. The kernel's own table (drivers/pci/quirks.c) needs no copy here; what stands in it is
// here only because kernels in use are older.
func quirks() []quirk {
	const (
		vendorReset = "github.com/gnif/vendor-reset"
		amd         = "AMD's GPUs of this generation come back from other resets in a state that no driver can start; load " +
			"the module vendor-reset"
		nvidia = "after a reset of its bus it is dead until the machine is switched off"
	)
	return []quirk{
		{vendor: "1002", first: 0x67c0, last: 0x67df, need: "device_specific", why: amd, source: vendorReset}, // Polaris 10
		{vendor: "1002", first: 0x6860, last: 0x687f, need: "device_specific", why: amd, source: vendorReset}, // Vega 10: MI25
		// Vega 20: MI50, MI60
		{vendor: "1002", first: 0x66a0, last: 0x66af, need: "device_specific", why: amd, source: vendorReset},
		{vendor: "1002", first: 0x7310, last: 0x731f, need: "device_specific", why: amd, source: vendorReset}, // Navi 10
		{vendor: "10de", first: 0x2340, last: 0x237f, avoid: "bus", why: nvidia, source: "Linux commit 4c207e7121fa"},
		// T4
		{vendor: "10de", first: 0x1eb8, last: 0x1eb8, avoid: "bus", why: nvidia,
			source: "Linux 6.6, drivers/pci/quirks.c, quirk_nvidia_no_bus_reset"},
	}
}

func quirkOf(f function) (quirk, bool) {
	id, err := strconv.ParseUint(f.id, 16, 16)
	return lists.Find(quirks(), func(q quirk) bool {
		return err == nil && q.vendor == f.vendor && q.first <= id && id <= q.last
	})
}
