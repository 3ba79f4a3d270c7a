package place

import (
	"fmt"
	"slices"
	"strings"

	"muster/internal/inventory"
	"muster/internal/kit/lists"
)

// What can be short, besides the kinds of devices.
const (
	factsShort    = "facts"      // it is not known what the host has
	threadsShort  = "threads"    // a core of the host is not given in parts
	coresShort    = "cores"      // too few are free, or not on so few NUMA nodes
	memoryShort   = "memory"     // the same
	devicesShort  = "devices"    // one that was chosen before cannot be given now
	iommuShort    = "iommu"      // the host has such devices, but cannot give them to guests
	directShort   = "gpu_direct" // no GPU and HCA are below one root port
	localityShort = "locality"   // no devices are beside cores and memory enough
)

func misfit(what, format string, args ...any) *Misfit {
	return &Misfit{What: what, Text: fmt.Sprintf(format, args...)}
}

// ask refuses what no room of these facts can ever carry, however free it is.
func ask(f inventory.Facts, g Guest) *Misfit {
	threads := f.Threads()
	switch {
	case len(f.Layout) == 0 || len(f.NUMA) == 0:
		return misfit(factsShort, "the layout of the host's cores and memory is not known: inspect the host")
	case g.CPUs < 1:
		return misfit(coresShort, "%d CPUs asked: a guest needs at least one", g.CPUs)
	case g.CPUs < threads:
		return misfit(threadsShort, "%d CPUs asked: guests get whole cores of the host, of %d CPUs each; %d would work", g.CPUs,
			threads, threads)
	case g.CPUs%threads != 0:
		less := g.CPUs / threads * threads
		return misfit(threadsShort, "%d CPUs asked: guests get whole cores of the host, of %d CPUs each; %d or %d would work",
			g.CPUs, threads, less, less+threads)
	case g.MemoryMiB < 1:
		return misfit(memoryShort, "%d MiB asked: a guest needs memory", g.MemoryMiB)
	case g.GPUDirect && g.Devices["gpu"] > 0 && g.Devices["hca"] < 1:
		return misfit(directShort, "gpu_direct asked, but no HCA: at least one is needed")
	}
	for kind, n := range g.Devices {
		if n < 0 {
			return misfit(kind, "%d asked", n)
		}
	}
	return nil
}

// short refuses what is not free anywhere on the host: a search would find nothing.
func (s *stock) short(w want) *Misfit {
	cores, memory := 0, 0
	for _, n := range s.nodes {
		cores += n.cores
		memory += n.beside()
	}
	if cores < w.cores {
		return s.shortOfCores(w)
	}
	if memory < w.memory {
		return s.shortOfMemory(w)
	}
	for _, kind := range w.kinds() {
		there, free, bare := 0, 0, 0
		for _, d := range s.all {
			if d.Kind == kind {
				there++
				if d.Group == "" && d.Host == "" {
					bare++
				}
			}
		}
		for _, o := range s.devices {
			if o.Kind == kind {
				free++
			}
		}
		asked := w.devices[kind]
		switch {
		case free >= asked:
		case there < asked:
			return misfit(kind, "%d %s asked, the host has %d", asked, kind, there)
		case free+bare >= asked:
			return misfit(iommuShort, "%d %s asked, but %d of the host's %d have no IOMMU group: switch the IOMMU on in its "+
				"firmware and for its kernel", asked, kind, bare, there)
		default:
			return misfit(kind, "%d %s asked, %d of %d available; the others are in use, lost, the host's own, divided, or "+
				"share an IOMMU group with one that is", asked, kind, free, there)
		}
	}
	return nil
}

// refuse says why a search has failed: it asks for less and less, and what makes the difference is what is short.
func (s *stock) refuse(w want) *Misfit {
	less := want{cores: w.cores, step: w.step, locality: Any}
	if _, _, fits := s.search(less); !fits {
		return s.shortOfCores(w)
	}
	less.memory = w.memory
	if _, _, fits := s.search(less); !fits {
		return s.shortOfMemory(w)
	}
	less.devices, less.direct = w.devices, w.direct
	if _, _, fits := s.search(less); !fits {
		return misfit(directShort, "%d gpu and %d hca asked, each GPU with an HCA below its root port: the available ones are "+
			"not paired so; gpu_direct: false would work",
			w.devices["gpu"], w.devices["hca"])
	}
	devices := lists.Map(w.kinds(), func(kind string) string { return fmt.Sprintf("%d %s", w.devices[kind], kind) })
	return misfit(localityShort, "%s asked with %d cores and %s: they are free, but not on the same NUMA nodes; locality: "+
		"preferred would work",
		strings.Join(devices, " and "), w.cores, size(w.memory))
}

func (s *stock) shortOfCores(w want) *Misfit {
	return s.shortOf(coresShort, w.cores, func(n node) int { return n.cores }, func(n int) string {
		return fmt.Sprintf("%d cores", n)
	})
}

func (s *stock) shortOfMemory(w want) *Misfit {
	return s.shortOf(memoryShort, w.memory, node.beside, size)
}

// beside is the memory that is free beside free cores: the only one that a guest can have.
func (n node) beside() int {
	if n.cores == 0 {
		return 0
	}
	return n.memory
}

// shortOf tells what is asked, what is free, and what of it on one NUMA node.
func (s *stock) shortOf(what string, asked int, of func(node) int, unit func(int) string) *Misfit {
	var free []int
	sum := 0
	for _, n := range s.nodes {
		free = append(free, of(n))
		sum += of(n)
	}
	m := misfit(what, "%s asked, %s free", unit(asked), unit(sum))
	if what == memoryShort {
		m.Text += " on nodes with free cores"
	}
	if len(s.nodes) > 1 {
		m.Text += ", at most " + unit(slices.Max(free)) + " on one NUMA node"
	}
	if sum >= asked {
		m.Text += "; a guest on several needs equal parts of cores and memory on each, which are not free"
	}
	return m
}

// size writes memory as people ask for it.
func size(mib int) string {
	if mib%1024 == 0 {
		return fmt.Sprintf("%d GiB", mib/1024)
	}
	return fmt.Sprintf("%d MiB", mib)
}
