package noded

import (
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"muster/internal/inventory/hardware"
	"muster/internal/protocol"
)

// facts looks at the node from inside, once a boot. What cannot be read is left out: a report without it is better than
// none.
func facts() protocol.NodeFacts {
	f := protocol.NodeFacts{Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), MemoryMiB: hardware.Tree("/").Memory("MemTotal")}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		f.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		f.Virtual = hypervised(string(text))
	}
	return f
}

// hypervised looks among the CPU's flags in proc_cpuinfo(5) for the one that hypervisors set.
func hypervised(cpuinfo string) bool {
	for line := range strings.Lines(cpuinfo) {
		if flags, found := strings.CutPrefix(line, "flags"); found {
			return slices.Contains(strings.Fields(flags), "hypervisor")
		}
	}
	return false
}
