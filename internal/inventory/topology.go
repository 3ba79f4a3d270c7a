package inventory

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/internal/kit/lists"
)

// Core is one physical core of a machine.
type Core struct {
	// the lowest number of its hardware threads: unique in the machine, other than the kernel's core_id
	ID      int   `json:"id"`
	CPUs    []int `json:"cpus"`    // its hardware threads that are online, the kernel's numbers, ascending
	NUMA    int   `json:"numa"`    // ID of the NUMANode that it belongs to
	Package int   `json:"package"` // its socket
	Cache   int   `json:"cache"`   // its last-level cache: the lowest Core.ID of those that share it
}

// HugePages are a NUMA node's pages of one size.
type HugePages struct {
	KiB   int `json:"kib"` // of one page: 2048, 1048576
	Total int `json:"total"`
	Free  int `json:"free"`
}

// Threads is how many hardware threads a core of the machine has; 1 where it is not known.
func (f Facts) Threads() int {
	most := 1
	for _, c := range f.Layout {
		most = max(most, len(c.CPUs))
	}
	return most
}

// Layout is a machine's cores by ID. In JSON it is one short text, because it is written, sent and read with every
// machine, and core by core a large machine's would be longer than all its other facts: a word
// "PACKAGE/NUMA/CACHE:CPUS" for the cores that agree in these three, where CPUS is the list of the cores' first hardware
// threads, then "+" and their second ones in the same order: "0/0/0:0-7+64-71 0/0/8:8-15+72-79".
type Layout []Core

// like are cores that agree in everything but their numbers.
type like struct {
	of      Core    // any one of them
	threads [][]int // all first threads, all second ones …
}

// MarshalText writes the layout. Every core has a CPU, and the ID of its first one.
func (l Layout) MarshalText() ([]byte, error) {
	var all []like
	for _, c := range l {
		if len(c.CPUs) == 0 || c.CPUs[0] != c.ID || !ascending(c.CPUs) {
			return nil, fmt.Errorf("core %d has the CPUs %v; its ID must be the first of them", c.ID, c.CPUs)
		}
		at := slices.IndexFunc(all, func(a like) bool { return a.takes(c) })
		if at < 0 {
			at = len(all)
			all = append(all, like{of: c, threads: make([][]int, len(c.CPUs))})
		}
		for thread, cpu := range c.CPUs {
			all[at].threads[thread] = append(all[at].threads[thread], cpu)
		}
	}
	var words []string
	for _, a := range all {
		words = append(words, fmt.Sprintf("%d/%d/%d:%s", a.of.Package, a.of.NUMA, a.of.Cache,
			strings.Join(lists.Map(a.threads, CPUList), "+")))
	}
	return []byte(strings.Join(words, " ")), nil
}

// takes says whether the core can be written as another of them: lists have an order, so all its numbers must be higher.
func (a like) takes(c Core) bool {
	if a.of.Package != c.Package || a.of.NUMA != c.NUMA || a.of.Cache != c.Cache || len(a.threads) != len(c.CPUs) {
		return false
	}
	for thread, cpus := range a.threads {
		if cpus[len(cpus)-1] >= c.CPUs[thread] {
			return false
		}
	}
	return true
}

// UnmarshalText reads what MarshalText writes.
func (l *Layout) UnmarshalText(text []byte) error {
	const most = 1 << 13 // CPUs: more than Linux can be built for
	var cores []Core
	cpus := 0
	for word := range strings.FieldsSeq(string(text)) {
		some, err := parseLike(word)
		if err != nil {
			return fmt.Errorf("layout: %.40q: %w", word, err)
		}
		for _, c := range some {
			cpus += len(c.CPUs)
		}
		if cpus > most {
			return fmt.Errorf("layout: more than %d CPUs", most)
		}
		cores = append(cores, some...)
	}
	slices.SortFunc(cores, func(a, b Core) int { return a.ID - b.ID })
	*l = cores
	return nil
}

// parseLike reads one word of a layout.
func parseLike(word string) ([]Core, error) {
	where, lists, _ := strings.Cut(word, ":")
	places := strings.Split(where, "/")
	if len(places) != 3 {
		return nil, errors.New("is not PACKAGE/NUMA/CACHE:CPUS")
	}
	var c Core
	for i, place := range []*int{&c.Package, &c.NUMA, &c.Cache} {
		n, err := strconv.ParseUint(places[i], 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%.20q is no number of a package, a NUMA node or a cache", places[i])
		}
		*place = int(n)
	}
	var cores []Core
	for list := range strings.SplitSeq(lists, "+") {
		cpus, err := ParseCPUList(list)
		if err != nil {
			return nil, err
		}
		if cores == nil {
			cores = slices.Repeat([]Core{c}, len(cpus))
			for i := range cores {
				cores[i].CPUs = make([]int, 0, min(8, 1+strings.Count(lists, "+"))) // no core has more threads
			}
		}
		if len(cpus) == 0 || len(cpus) != len(cores) {
			return nil, errors.New("its cores do not have equally many CPUs")
		}
		for i, cpu := range cpus {
			cores[i].CPUs = append(cores[i].CPUs, cpu)
			if !ascending(cores[i].CPUs) {
				return nil, fmt.Errorf("CPUs %v of a core are out of order", cores[i].CPUs)
			}
			cores[i].ID = cores[i].CPUs[0]
		}
	}
	return cores, nil
}

// ascending says that no number is twice in the list, and that each is higher than the one before.
func ascending(numbers []int) bool {
	for i := 1; i < len(numbers); i++ {
		if numbers[i] <= numbers[i-1] {
			return false
		}
	}
	return true
}

// CPUList writes CPUs as Linux does: "0-3,8".
func CPUList(cpus []int) string {
	cpus = slices.Sorted(slices.Values(cpus))
	var parts []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		if j == i {
			parts = append(parts, fmt.Sprint(cpus[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", cpus[i], cpus[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// ParseCPUList reads Linux's list of CPUs, "0-3,8", in ascending order.
func ParseCPUList(text string) ([]int, error) {
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
