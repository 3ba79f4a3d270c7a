package inventory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/kit/lists"
	"muster/internal/price"
)

// Class is a name for machines alike, with what a node on one costs.
type Class struct {
	Name   string
	Select []Condition    // all must hold
	Price  price.Amount   // per node and hour; zero if the site does not charge
	Lead   *time.Duration // what a machine of it needs to become a node, or to be fit for the next one; nil: see LeadOf
	// Hypervisor says that its machines hold guests, which its nodes are; without it, its nodes are machines whole.
	Hypervisor bool
	Overcommit int   // guests that may have the same core, at most; 1: cores are exclusive. Memory and devices always are
	Shape      Shape // of nodes whose cluster's file gives none
}

// Shape is the size of a guest.
type Shape struct {
	CPUs   int
	Memory string // as cluster files have it
}

// Has says that machines like m belong to the class.
func (c Class) Has(m Machine) bool { return c.Selects(m, m.Facts.Summary()) }

// Selects says that machines like m with such a summary belong to the class; m may be without facts.
func (c Class) Selects(m Machine, s Summary) bool {
	return !slices.ContainsFunc(c.Select, func(condition Condition) bool { return !condition.holds(m, s) })
}

// wants says that the class asks for this very value of a fact.
func (c Class) wants(fact, value string) bool {
	return slices.ContainsFunc(c.Select, func(c Condition) bool { return c.Fact == fact && c.Op == "=" && c.Value == value })
}

// FirstOn is the first class that selects machines of this substrate by its name; "" if none does.
func (c Catalogue) FirstOn(substrate string) string {
	class, _ := lists.Find(c.Classes, func(class Class) bool { return class.wants("substrate", substrate) })
	return class.Name
}

// On is the class narrowed to machines of one substrate.
func (c Class) On(substrate string) Class { return c.With("substrate", substrate) }

// With is the class narrowed to machines with this value of a fact, which is a text.
func (c Class) With(fact, value string) Class {
	c.Select = append(slices.Clone(c.Select), Condition{Fact: fact, Op: "=", Value: value})
	return c
}

// Condition is one comparison of a fact with a value, such as "cpus >= 64" or "cpu_model ~ EPYC".
type Condition struct {
	Fact, Op, Value string
	number          int // Value, where the fact is a number
}

func (c Condition) String() string { return c.Fact + " " + c.Op + " " + c.Value }

// numbers and texts are the facts that a class may select by.
var (
	numbers = map[string]func(Summary) int{
		"cpus":       func(s Summary) int { return s.CPUs },
		"cores":      func(s Summary) int { return s.Cores },
		"memory_mib": func(s Summary) int { return s.MemoryMiB },
		"numa_nodes": func(s Summary) int { return s.NUMANodes },
		"sockets":    func(s Summary) int { return s.Sockets },
		"disks":      func(s Summary) int { return s.Disks },
		"nics":       func(s Summary) int { return s.NICs },
		"nic_mbps":   func(s Summary) int { return s.NICMbps },
		"gpus":       func(s Summary) int { return s.GPUs },
		"hcas":       func(s Summary) int { return s.HCAs },
	}
	texts = map[string]func(Machine, Summary) string{
		"name":      func(m Machine, _ Summary) string { return m.Name },
		"substrate": func(m Machine, _ Summary) string { return m.Substrate },
		"host":      func(_ Machine, s Summary) string { return s.Host },
		"arch":      func(_ Machine, s Summary) string { return s.Arch },
		"cpu_model": func(_ Machine, s Summary) string { return s.CPUModel },
		"network":   func(m Machine, _ Summary) string { return m.Network },
		"vendor":    func(_ Machine, s Summary) string { return s.Vendor },
		"product":   func(_ Machine, s Summary) string { return s.Product },
	}
)

// Count is how many devices of a kind the machine has. A virtual function is a part of a device, not one more.
func (f Facts) Count(kind string) int {
	n := 0
	for _, d := range f.Devices {
		if d.Kind == kind && d.Parent == "" {
			n++
		}
	}
	return n
}

var (
	numberOps = []string{">=", "<=", "!=", "=", ">", "<"}
	textOps   = []string{"!=", "=", "~"}
)

// ParseCondition reads "fact op value". Numbers compare with = != < <= > >=, texts with = != and ~ (contains, case
// ignored).
func ParseCondition(s string) (Condition, error) {
	fields := strings.Fields(s)
	if len(fields) < 3 {
		return Condition{}, fmt.Errorf("%q is not a condition; write for example \"cpus >= 64\" or \"substrate = local\"", s)
	}
	c := Condition{Fact: fields[0], Op: fields[1], Value: strings.Join(fields[2:], " ")}
	_, isNumber := numbers[c.Fact]
	_, isText := texts[c.Fact]
	switch {
	case isNumber && !slices.Contains(numberOps, c.Op):
		return c, fmt.Errorf("%q: %s is a number; compare it with %s", s, c.Fact, strings.Join(numberOps, " "))
	case isText && !slices.Contains(textOps, c.Op):
		return c, fmt.Errorf("%q: %s is a text; compare it with %s", s, c.Fact, strings.Join(textOps, " "))
	case !isNumber && !isText:
		return c, fmt.Errorf("%q: there is no fact %q; there are name, substrate, host, network, arch, vendor, product, "+
			"cpu_model, cpus, cores, sockets, memory_mib, numa_nodes, disks, nics, nic_mbps, gpus, hcas", s, c.Fact)
	}
	if isNumber {
		n, err := strconv.Atoi(c.Value)
		if err != nil {
			return c, fmt.Errorf("%q: %q is no whole number", s, c.Value)
		}
		c.number = n
	}
	return c, nil
}

func (c Condition) holds(m Machine, s Summary) bool {
	if number, is := numbers[c.Fact]; is {
		switch have := number(s); c.Op {
		case ">=":
			return have >= c.number
		case "<=":
			return have <= c.number
		case ">":
			return have > c.number
		case "<":
			return have < c.number
		case "!=":
			return have != c.number
		default:
			return have == c.number
		}
	}
	have := texts[c.Fact](m, s)
	switch c.Op {
	case "~":
		return strings.Contains(strings.ToLower(have), strings.ToLower(c.Value))
	case "!=":
		return have != c.Value
	}
	return have == c.Value
}
