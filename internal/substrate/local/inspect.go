package local

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// HostFacts is what a host says of itself.
type HostFacts struct {
	Machine   string     `json:"machine"`    // the name it was asked for under
	Hostname  string     `json:"hostname"`   // its own
	Arch      string     `json:"arch"`       // as Go names it: amd64, arm64
	Kernel    string     `json:"kernel"`     // release
	CPUModel  string     `json:"cpu_model"`  // empty where the kernel does not tell
	Sockets   int        `json:"sockets"`    //
	Cores     int        `json:"cores"`      // of all sockets
	Threads   int        `json:"threads"`    // CPUs that programs see
	MemoryMiB int        `json:"memory_mib"` // what the kernel has to give, less than what is plugged in
	NUMA      []HostNUMA `json:"numa"`       // one at least
}

// HostNUMA is one NUMA node: CPUs and the memory near them.
type HostNUMA struct {
	ID        int   `json:"id"`
	CPUs      []int `json:"cpus"`
	MemoryMiB int   `json:"memory_mib"`
}

// Inspect reads the facts of this host, which is every machine of this substrate, under whatever name. It reads /proc
// and /sys only and may be called at any time.
func (d *Driver) Inspect(_ context.Context, machine string) (HostFacts, error) {
	facts, err := inspect("/")
	facts.Machine = machine
	if err != nil {
		return facts, fmt.Errorf("inspect machine %s: %w", machine, err)
	}
	return facts, nil
}

func inspect(root string) (HostFacts, error) {
	facts := HostFacts{Arch: runtime.GOARCH}
	facts.Hostname = readLine(filepath.Join(root, "proc/sys/kernel/hostname"))
	facts.Kernel = readLine(filepath.Join(root, "proc/sys/kernel/osrelease"))
	cpuinfo, err := os.ReadFile(filepath.Join(root, "proc/cpuinfo"))
	if err != nil {
		return facts, err
	}
	readCPUs(string(cpuinfo), &facts)
	meminfo, err := os.ReadFile(filepath.Join(root, "proc/meminfo"))
	if err != nil {
		return facts, err
	}
	facts.MemoryMiB = memTotal(string(meminfo))
	facts.NUMA = readNUMA(filepath.Join(root, "sys/devices/system/node"))
	if len(facts.NUMA) == 0 { // a kernel built without NUMA
		facts.NUMA = []HostNUMA{{CPUs: seq(0, facts.Threads-1)}}
	}
	if len(facts.NUMA) == 1 { // which some kernels show without the memory that was plugged in later
		facts.NUMA[0].MemoryMiB = facts.MemoryMiB
	}
	return facts, nil
}

// readCPUs counts from /proc/cpuinfo, whose paragraphs are one a thread. Where it names no cores (arm64), every thread
// counts as one.
func readCPUs(cpuinfo string, facts *HostFacts) {
	sockets, cores := map[string]bool{}, map[string]bool{}
	for paragraph := range strings.SplitSeq(cpuinfo, "\n\n") {
		fields := map[string]string{}
		for line := range strings.SplitSeq(paragraph, "\n") {
			if name, value, ok := strings.Cut(line, ":"); ok {
				fields[strings.TrimSpace(name)] = strings.TrimSpace(value)
			}
		}
		number, ok := fields["processor"]
		if !ok {
			continue
		}
		facts.Threads++
		socket, core := fields["physical id"], fields["core id"]
		if core == "" {
			core = number
		}
		sockets[socket], cores[socket+"/"+core] = true, true
		if facts.CPUModel == "" {
			facts.CPUModel = fields["model name"]
		}
	}
	facts.Sockets, facts.Cores = len(sockets), len(cores)
}

func readNUMA(dir string) []HostNUMA {
	found, _ := filepath.Glob(filepath.Join(dir, "node[0-9]*"))
	nodes := map[int]HostNUMA{}
	for _, path := range found {
		id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(path), "node"))
		if err != nil {
			continue
		}
		meminfo, _ := os.ReadFile(filepath.Join(path, "meminfo"))
		nodes[id] = HostNUMA{ID: id, CPUs: parseList(readLine(filepath.Join(path, "cpulist"))), MemoryMiB: memTotal(string(meminfo))}
	}
	var sorted []HostNUMA
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		sorted = append(sorted, nodes[id])
	}
	return sorted
}

// memTotal finds "MemTotal: N kB" in a meminfo file, the system's or a NUMA node's, in MiB.
func memTotal(meminfo string) int {
	_, rest, _ := strings.Cut(meminfo, "MemTotal:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.Atoi(fields[0])
	return kib / 1024
}

// parseList reads the kernel's notation "0-3,8,10-11".
func parseList(text string) []int {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		last := first
		if isRange {
			last, _ = strconv.Atoi(to)
		}
		all = append(all, seq(first, last)...)
	}
	return all
}

func seq(first, last int) []int {
	var all []int
	for i := first; i <= last; i++ {
		all = append(all, i)
	}
	return all
}

func readLine(path string) string {
	text, _ := os.ReadFile(path)
	return strings.TrimSpace(string(text))
}
