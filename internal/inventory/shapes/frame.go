package shapes

import (
	"fmt"
	"slices"
	"strings"

	"muster/internal/inventory"
)

// frame is a machine's processors and memory, which are the same on all its sockets.
type frame struct {
	model     string
	sockets   int
	nodes     int // NUMA nodes a socket
	cores     int // cores a NUMA node
	threads   int // hardware threads a core
	cache     int // cores that share a last-level cache; more than cores: it spans NUMA nodes
	numbering numbering
	memory    int   // GiB a NUMA node
	near, far int   // distances to the other NUMA nodes of the socket, and to those of other sockets
	offline   []int // CPUs that were switched off
}

// numbering is how the kernel has numbered the hardware threads.
type numbering int

const (
	// spread: first the cores of one socket after the other, then their second threads in the same order, as most
	// firmware lists them.
	spread numbering = iota
	// alternating: neighbouring numbers are on different sockets, as on Dell's machines; the second threads follow.
	alternating
	// adjacent: the threads of a core have neighbouring numbers, as in virtual machines and on POWER.
	adjacent
)

// cpu is the number of a hardware thread; core counts within the socket.
func (f frame) cpu(socket, core, thread int) int {
	socketCores := f.nodes * f.cores
	switch f.numbering {
	case spread:
		return thread*f.sockets*socketCores + socket*socketCores + core
	case alternating:
		return thread*f.sockets*socketCores + core*f.sockets + socket
	default:
		return (socket*socketCores+core)*f.threads + thread
	}
}

// machine makes a machine without devices of the frame.
func (f frame) machine() *machine {
	m := &machine{iommu: true}
	m.Arch, m.CPUModel, m.Sockets = "amd64", f.model, f.sockets
	caches := map[int]int{} // the lowest core of each last-level cache
	nodeCPUs := make([][]int, f.sockets*f.nodes)
	for socket := range f.sockets {
		for core := range f.nodes * f.cores {
			c := inventory.Core{Package: socket, NUMA: socket*f.nodes + core/f.cores}
			for thread := range f.threads {
				if cpu := f.cpu(socket, core, thread); !slices.Contains(f.offline, cpu) {
					c.CPUs = append(c.CPUs, cpu)
				}
			}
			if len(c.CPUs) == 0 {
				continue
			}
			c.ID = c.CPUs[0]
			c.Cache = core/f.cache*f.sockets + socket // the cache's number, until all its cores are there
			if lowest, known := caches[c.Cache]; !known || c.ID < lowest {
				caches[c.Cache] = c.ID
			}
			nodeCPUs[c.NUMA] = append(nodeCPUs[c.NUMA], c.CPUs...)
			m.CPUs += len(c.CPUs)
			m.Layout = append(m.Layout, c)
		}
	}
	for i := range m.Layout {
		m.Layout[i].Cache = caches[m.Layout[i].Cache]
	}
	slices.SortFunc(m.Layout, func(a, b inventory.Core) int { return a.ID - b.ID })
	m.Cores = len(m.Layout)
	for node, cpus := range nodeCPUs {
		m.memoryNode(node, f.memory, cpus)
		for other := range nodeCPUs {
			distance := 10
			switch {
			case other/f.nodes != node/f.nodes:
				distance = f.far
			case other != node:
				distance = f.near
			}
			m.NUMA[node].Distances = append(m.NUMA[node].Distances, distance)
		}
	}
	return m
}

// server makes a machine of the frame that boots from a disk and has its default route by a NIC, both on its first NUMA node.
// Where it has no IOMMU, that has to be said before them.
func (f frame) server() *machine {
	m := f.machine()
	m.port(0).plug(root(ssd()))
	m.port(0).plug(uplink(i210()))
	return m
}

// machine is a machine that is being put together.
type machine struct {
	inventory.Facts
	iommu  bool
	groups int // IOMMU groups so far
	buses  int // PCI buses so far
}

// memoryNode adds a NUMA node; its distances are told with all nodes' by distances.
func (m *machine) memoryNode(id, gib int, cpus []int) {
	m.NUMA = append(m.NUMA, inventory.NUMANode{ID: id, CPUs: inventory.CPUList(cpus), MemoryMiB: gib << 10})
}

// distances tells how far the NUMA nodes are from each other, a row each.
func (m *machine) distances(rows ...[]int) {
	for i, row := range rows {
		m.NUMA[i].Distances = row
	}
}

// port is where devices are plugged in: below a root port, perhaps below a switch.
type port struct {
	m    *machine
	numa int
	bus  int // behind it
	path []string
}

// port opens a root port beside a NUMA node, on a root bus of its own with seven buses behind it.
func (m *machine) port(numa int) port {
	root := m.buses
	m.buses += 8
	return port{m, numa, root + 1, []string{pci(root, 1, 0)}}
}

// switched puts a PCIe switch below a root port, and gives the switch's ports.
func (m *machine) switched(numa, ports int) []port {
	root := m.port(numa)
	var all []port
	for i := range ports {
		all = append(all, port{m, numa, root.bus + 2 + i, []string{root.path[0], pci(root.bus, 0, 0), pci(root.bus+1, i, 0)}})
	}
	return all
}

// plug puts a device in, function by function, and says their addresses. Each has an IOMMU group of its own, but for
// those with one written in already.
func (p port) plug(functions ...inventory.Device) []string {
	var addresses []string
	for number, d := range functions {
		d.PCI, d.NUMA, d.Path = pci(p.bus, 0, number), p.numa, slices.Clone(p.path)
		addresses = append(addresses, p.m.put(d))
	}
	return addresses
}

// put adds a device with a group and names of its own.
func (m *machine) put(d inventory.Device) string {
	if m.iommu && d.Group == "" {
		d.Group = m.group()
	}
	number := len(m.Devices) + 1
	if d.MAC == "?" {
		d.MAC = fmt.Sprintf("02:00:00:00:00:%02x", number)
	}
	if d.GUID == "?" {
		d.GUID = fmt.Sprintf("0c42:a103:00ab:%04x", number)
	}
	m.Devices = append(m.Devices, d)
	return d.PCI
}

// group opens another IOMMU group.
func (m *machine) group() string {
	m.groups++
	return fmt.Sprint(m.groups + 10) // some are taken by what is not listed
}

// pci is a PCI address.
func pci(bus, slot, function int) string {
	return fmt.Sprintf("0000:%02x:%02x.%x", bus, slot, function)
}

// facts are the machine's, with what follows from its parts.
func (m *machine) facts() inventory.Facts {
	slices.SortFunc(m.Devices, func(a, b inventory.Device) int { return strings.Compare(a.PCI, b.PCI) })
	for _, n := range m.NUMA {
		m.MemoryMiB += n.MemoryMiB
	}
	ssds := 0
	for _, d := range m.Devices {
		switch {
		case d.Parent != "":
		case d.MAC != "":
			nic := inventory.NIC{
				Name: fmt.Sprintf("eth%d", len(m.NICs)), MAC: d.MAC, Driver: d.Driver, PCI: d.PCI, NUMA: d.NUMA, Up: true,
				SpeedMbps: 25000,
			}
			if nic.Driver == "virtio-pci" { // which is the PCI function's; the NIC hangs on the virtio bus
				nic.Driver = "virtio_net"
			}
			m.NICs = append(m.NICs, nic)
		case d.Kind == "nvme" && d.Driver == "nvme":
			m.Disks = append(m.Disks, inventory.Disk{
				Name: fmt.Sprintf("nvme%dn1", ssds), Model: d.Name, Serial: "S" + d.PCI, SizeGB: 1920, Kind: "nvme", Bus: "nvme",
				Healthy: true, Health: "no SMART",
			})
			ssds++
		}
	}
	slices.SortFunc(m.Disks, func(a, b inventory.Disk) int { return strings.Compare(a.Name, b.Name) })
	return m.Facts
}
