package inspection

import (
	"context"
	"fmt"
	"io"
	"math/bits"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"muster/internal/inventory"
)

// memoryStep is what amounts of memory are rounded down to: what the firmware and the kernel keep for themselves
// differs by a few MiB from one boot to the next, and the same machine shall have the same facts.
const memoryStep = 16 // MiB

// facts reads what the machine is. What can't be read is left out. Two calls on a machine that nobody changed give the
// same, but for the health of its disks and the state of its links.
func (m *machine) facts(ctx context.Context, disks []disk) inventory.Facts {
	f := inventory.Facts{
		Arch:      runtime.GOARCH,
		MemoryMiB: m.memory("MemTotal") / memoryStep * memoryStep,
		NUMA:      m.numa(),
		NICs:      m.nics(),
		Devices:   m.devices(ctx),
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		f.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	for _, d := range disks {
		f.Disks = append(f.Disks, d.Disk)
	}
	firmware := m.firmware()
	f.System, f.DIMMs = firmware.system, firmware.dimms
	m.processors(&f)
	if f.CPUModel == "" {
		f.CPUModel = firmware.processor
	}
	return f
}

// processors counts what is online: threads, cores and packages, by sysfs's topology.
func (m *machine) processors(f *inventory.Facts) {
	cores, sockets := map[string]bool{}, map[string]bool{}
	cpus := m.onlineCPUs()
	for _, cpu := range cpus {
		topology := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology", cpu)
		socket := m.text(topology, "physical_package_id")
		sockets[socket] = true
		cores[socket+"/"+m.text(topology, "die_id")+"/"+m.text(topology, "core_id")] = true
	}
	f.CPUs, f.Cores, f.Sockets = len(cpus), len(cores), len(sockets)
	f.CPUModel = cpuModel(m.text("proc/cpuinfo"))
}

// onlineCPUs are the numbers of the CPUs that run programs.
func (m *machine) onlineCPUs() []int {
	if cpus, err := cpuList(m.text("sys/devices/system/cpu/online")); err == nil && len(cpus) > 0 {
		return cpus
	}
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus
}

// cpuList reads Linux's list of CPUs, "0-3,8", in ascending order.
func cpuList(text string) ([]int, error) {
	const most = 1 << 16
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		if part == "" {
			continue
		}
		low, high, ranged := strings.Cut(part, "-")
		first, err := strconv.ParseUint(low, 10, 16)
		last := first
		if err == nil && ranged {
			last, err = strconv.ParseUint(high, 10, 16)
		}
		if err != nil || last < first || len(cpus) > most {
			return nil, fmt.Errorf("CPU list %.40q: %.20q is neither a number nor a range", text, part)
		}
		for n := first; n <= last; n++ {
			cpus = append(cpus, int(n))
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// cpuModel is the first "model name" of proc_cpuinfo(5); some architectures have none.
func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// memory is a field of proc_meminfo(5) in MiB.
func (m *machine) memory(field string) int { return meminfo(m.text("proc/meminfo"), field) }

// meminfo reads "MemTotal: 24683520 kB", or a memory node's "Node 0 MemTotal: 24683520 kB", as MiB.
func meminfo(text, field string) int {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) > 2 && words[0] == "Node" {
			words = words[2:]
		}
		if len(words) > 1 && words[0] == field+":" {
			kib, err := strconv.ParseUint(words[1], 10, 53)
			if err != nil {
				return 0
			}
			return int(kib / 1024)
		}
	}
	return 0
}

// numa are the memory nodes in their order.
func (m *machine) numa() []inventory.NUMANode {
	var nodes []inventory.NUMANode
	number := regexp.MustCompile(`^node(\d+)$`)
	for _, name := range m.names("sys/devices/system/node") {
		match := number.FindStringSubmatch(name)
		if match == nil {
			continue
		}
		id, err := strconv.Atoi(match[1])
		if err != nil {
			continue
		}
		nodes = append(nodes, inventory.NUMANode{
			ID:        id,
			CPUs:      m.text("sys/devices/system/node", name, "cpulist"),
			MemoryMiB: meminfo(m.text("sys/devices/system/node", name, "meminfo"), "MemTotal") / memoryStep * memoryStep,
		})
	}
	return nodes
}

// Memory is the size of this machine's last-level caches and of its free memory, in bytes; 0: not known.
func Memory() (caches, free int64) {
	m := newMachine(Options{}, io.Discard)
	return m.lastLevelCaches(), int64(m.memory("MemAvailable")) << 20
}

// lastLevelCaches is the size in bytes of all caches of the highest level together; 0: not known.
func (m *machine) lastLevelCaches() int64 {
	highest, sizes := int64(0), map[string]int64{} // by the CPUs that share it
	for _, cpu := range m.onlineCPUs() {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache", cpu)
		for _, index := range m.names(dir) {
			level := m.number(0, dir, index, "level")
			if m.text(dir, index, "type") == "Instruction" || level < highest {
				continue
			}
			if level > highest {
				highest = level
				clear(sizes)
			}
			sizes[m.text(dir, index, "shared_cpu_list")] = cacheSize(m.text(dir, index, "size"))
		}
	}
	total := int64(0)
	for _, size := range sizes {
		total += size
	}
	return total
}

// cacheSize reads sysfs's "16384K" as bytes.
func cacheSize(text string) int64 {
	n := digits(text)
	value, err := strconv.ParseInt(text[:n], 10, 40)
	if err != nil {
		return 0
	}
	shift := map[string]int{"": 0, "K": 10, "M": 20}[text[n:]]
	if bits.Len64(uint64(value))+shift > 62 {
		return 0
	}
	return value << shift
}
