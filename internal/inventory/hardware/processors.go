package hardware

import (
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"muster/internal/inventory"
	"muster/internal/kit/lists"
)

// OnlineCPUs are the numbers of the CPUs that run programs.
func (t Tree) OnlineCPUs() []int {
	if cpus, err := inventory.ParseCPUList(t.Text("sys/devices/system/cpu/online")); err == nil && len(cpus) > 0 {
		return cpus
	}
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus
}

// cores are the cores of the CPUs that are online (Linux, Documentation/admin-guide/cputopology.rst). A CPU that does not
// tell its siblings is a core of its own, and a core that does not tell its last-level cache has one of its own.
func (t Tree) cores(online []int, nodes []inventory.NUMANode) inventory.Layout {
	nodeOf := map[int]int{}
	for _, cpu := range online {
		nodeOf[cpu] = nodes[0].ID // unless a node says otherwise; there is always one
	}
	for _, n := range nodes {
		cpus, _ := inventory.ParseCPUList(n.CPUs) // of what was read already, or else of nothing
		for _, cpu := range cpus {
			nodeOf[cpu] = n.ID
		}
	}
	free := lists.Set(online)
	var cores inventory.Layout
	lowest := map[string]int{} // core by last-level cache
	for _, cpu := range online {
		if !free[cpu] {
			continue // another one's sibling
		}
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology", cpu)
		siblings, _ := inventory.ParseCPUList(t.Text(dir, "thread_siblings_list"))
		siblings = slices.DeleteFunc(siblings, func(s int) bool { return s <= cpu || !free[s] })
		c := inventory.Core{ID: cpu, CPUs: append([]int{cpu}, siblings...), NUMA: nodeOf[cpu],
			Package: t.count(dir, "physical_package_id"), Cache: cpu}
		for _, s := range c.CPUs {
			free[s] = false
		}
		if _, shared, _ := t.lastCache(cpu); shared != "" {
			if first, known := lowest[shared]; known {
				c.Cache = first
			} else {
				lowest[shared] = cpu
			}
		}
		cores = append(cores, c)
	}
	return cores
}

// lastCache is the CPU's cache of the highest level: the list of the CPUs that share it, and its size in bytes.
func (t Tree) lastCache(cpu int) (level int, shared string, size int64) {
	dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache", cpu)
	for _, index := range t.Names(dir) {
		l := t.count(dir, index, "level")
		if l > level && t.Text(dir, index, "type") != "Instruction" {
			level, shared, size = l, t.Text(dir, index, "shared_cpu_list"), cacheSize(t.Text(dir, index, "size"))
		}
	}
	return level, shared, size
}

// LastLevelCaches is the size in bytes of all caches of the highest level together; 0: not known.
func (t Tree) LastLevelCaches() int64 {
	highest, sizes := 0, map[string]int64{} // by the CPUs that share it
	for _, cpu := range t.OnlineCPUs() {
		level, shared, size := t.lastCache(cpu)
		if level > highest {
			highest = level
			clear(sizes)
		}
		if level == highest {
			sizes[shared] = size
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

// cpuModel is the first "model name" of proc_cpuinfo(5), or "cpu" as POWER says; some architectures have none.
func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		key, value, _ := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); key == "model name" || key == "cpu" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// Memory is a field of proc_meminfo(5) in MiB.
func (t Tree) Memory(field string) int { return meminfo(t.Text("proc/meminfo"), field) }

// meminfo reads "MemTotal: 24683520 kB", or a NUMA node's "Node 0 MemTotal: 24683520 kB", as MiB.
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

// memoryNodes are the machine's NUMA nodes in their order. A kernel that knows none has all in one.
func (t Tree) memoryNodes(online []int, memoryMiB int) []inventory.NUMANode {
	const dir = "sys/devices/system/node"
	var nodes []inventory.NUMANode
	for _, name := range t.Names(dir) {
		number, is := strings.CutPrefix(name, "node")
		id, err := strconv.ParseUint(number, 10, 16)
		if !is || err != nil {
			continue
		}
		cpus, _ := inventory.ParseCPUList(t.Text(dir, name, "cpulist")) // none, where it cannot be read
		nodes = append(nodes, inventory.NUMANode{
			ID:        int(id),
			CPUs:      inventory.CPUList(cpus),
			MemoryMiB: meminfo(t.Text(dir, name, "meminfo"), "MemTotal") / memoryStep * memoryStep,
			Distances: distances(t.Text(dir, name, "distance")),
			HugePages: t.hugePages(dir, name, "hugepages"),
		})
	}
	if len(nodes) == 0 {
		nodes = []inventory.NUMANode{{CPUs: inventory.CPUList(online), HugePages: t.hugePages("sys/kernel/mm/hugepages")}}
	}
	if len(nodes) == 1 { // which some kernels show without the memory that was plugged in later
		nodes[0].MemoryMiB = memoryMiB
	}
	for i := range nodes {
		if len(nodes[i].Distances) != len(nodes) {
			nodes[i].Distances = nil // it is not known to which nodes
		}
	}
	return nodes
}

// distances reads a row of the machine's table of distances, "10 21"; nil if it is none.
func distances(text string) []int {
	var row []int
	for word := range strings.FieldsSeq(text) {
		n, err := strconv.ParseUint(word, 10, 8) // one byte each (ACPI 6.5, 5.2.17)
		if err != nil {
			return nil
		}
		row = append(row, int(n))
	}
	return row
}

// hugePages are the pools of a NUMA node that have pages, the smallest pages first (Linux,
// Documentation/admin-guide/mm/hugetlbpage.rst).
func (t Tree) hugePages(dir ...string) []inventory.HugePages {
	var pools []inventory.HugePages
	for _, name := range t.Names(dir...) {
		size, _ := strings.CutPrefix(name, "hugepages-")
		kib, err := strconv.ParseUint(strings.TrimSuffix(size, "kB"), 10, 32)
		at := append(slices.Clone(dir), name)
		pool := inventory.HugePages{
			KiB: int(kib), Total: t.count(append(at, "nr_hugepages")...), Free: t.count(append(at, "free_hugepages")...),
		}
		if err == nil && pool.Total > 0 {
			pools = append(pools, pool)
		}
	}
	return pools
}
