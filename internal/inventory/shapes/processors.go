package shapes

import "muster/internal/inventory"

// desktop is one socket with four cores and one thread each, as Intel's Core i5-7500. The root file system's disk and
// the NIC are the host's own.
func desktop() inventory.Facts {
	m := frame{model: "Intel(R) Core(TM) i5-7500 CPU @ 3.40GHz", sockets: 1, nodes: 1, cores: 4, threads: 1, cache: 4,
		memory: 16}.server()
	return m.facts()
}

// oneSocketSMT is an AMD EPYC 7313P: 16 cores, four to a last-level cache, in one NUMA node (NPS1). Its only link is an Ethernet
// adapter that can do RDMA.
func oneSocketSMT() inventory.Facts {
	m := frame{model: "AMD EPYC 7313P 16-Core Processor", sockets: 1, nodes: 1, cores: 16, threads: 2, cache: 4,
		memory: 128}.machine()
	m.port(0).plug(root(ssd()))
	m.port(0).plug(ssd())
	m.port(0).plug(uplink(connectX5()))
	return m.facts()
}

// twoSocketsSMTOff is a Dell PowerEdge with two Xeon Gold 6130 whose hyper-threading was switched off in the firmware:
// even CPUs are on one socket, odd ones on the other.
func twoSocketsSMTOff() inventory.Facts {
	m := frame{
		model: "Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz", sockets: 2, nodes: 1, cores: 16, threads: 1, cache: 16,
		numbering: alternating,
		memory:    96, far: 21,
	}.server()
	m.port(1).plug(connectX6())
	return m.facts()
}

// twoSocketsSMT is two AMD EPYC 7543 with 64 cores together, eight to a last-level cache, one NUMA node a socket. An
// adapter and a disk on each socket.
func twoSocketsSMT() inventory.Facts {
	m := frame{
		model: "AMD EPYC 7543 32-Core Processor", sockets: 2, nodes: 1, cores: 32, threads: 2, cache: 8, memory: 256, far: 32,
	}.server()
	for socket := range 2 {
		m.port(socket).plug(connectX6())
		m.port(socket).plug(ssd())
	}
	return m.facts()
}

// siblingsAdjacent is a virtual machine that is a hypervisor itself: QEMU numbers the two threads of a core one after
// the other, and an emulated IOMMU gives groups.
func siblingsAdjacent() inventory.Facts {
	m := frame{
		model: "Intel Xeon Processor (Icelake)", sockets: 2, nodes: 1, cores: 4, threads: 2, cache: 4, numbering: adjacent,
		memory: 8, far: 20,
	}.machine()
	m.port(0).plug(root(ssd()))
	m.port(1).plug(uplink(inventory.Device{Kind: "nic", Vendor: "1af4", ID: "1041",
		Name: "Red Hat, Inc. Virtio 1.0 network device", Driver: "virtio-pci", MAC: "?"}))
	return m.facts()
}

// epycNPS4 is two AMD EPYC 7763 in NPS4: four NUMA nodes a socket of 16 cores with two last-level caches each. The
// distances are what such machines' firmware tells: 12 within a socket, 32 to the other one.
func epycNPS4() inventory.Facts {
	m := frame{
		model: "AMD EPYC 7763 64-Core Processor", sockets: 2, nodes: 4, cores: 16, threads: 2, cache: 8, memory: 64, near: 12,
		far: 32,
	}.server()
	m.port(3).plug(connectX6())
	m.port(6).plug(connectX6())
	m.port(6).plug(ssd())
	return m.facts()
}

// xeonSNC2 is two Xeon Platinum 8360Y with sub-NUMA clustering: two NUMA nodes a socket. The processor tells of one
// last-level cache a socket although it is divided with the memory, so a cache spans NUMA nodes (Linux,
// arch/x86/kernel/smpboot.c, match_llc).
func xeonSNC2() inventory.Facts {
	m := frame{
		model: "Intel(R) Xeon(R) Platinum 8360Y CPU @ 2.40GHz", sockets: 2, nodes: 2, cores: 18, threads: 2, cache: 36,
		memory: 128, near: 11, far: 20,
	}.server()
	m.port(1).plug(connectX6())
	m.port(3).plug(connectX6())
	return m.facts()
}

// offlineCores has cores that were switched off, as an operator does with those that make errors, and one core that lost
// only its second thread: cores 2 and 3 are gone, core 5 has one thread, and core 6 is known by its second thread's number.
func offlineCores() inventory.Facts {
	m := frame{
		model: "Intel(R) Xeon(R) E-2288G CPU @ 3.70GHz", sockets: 1, nodes: 1, cores: 8, threads: 2, cache: 8, memory: 64,
		offline: []int{2, 10, 3, 11, 13, 6},
	}.server()
	return m.facts()
}

// memorylessNode is two sockets, the second without a memory module: a node with CPUs and without memory (Linux,
// Documentation/mm/numa.rst, "memoryless nodes").
func memorylessNode() inventory.Facts {
	m := frame{
		model: "Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz", sockets: 2, nodes: 1, cores: 8, threads: 2, cache: 8, memory: 64,
		far: 21,
	}.server()
	m.NUMA[1].MemoryMiB = 0
	m.port(1).plug(connectX6())
	return m.facts()
}

// cxlMemory is two sockets with a memory expander on the first one's CXL bus: a NUMA node without CPUs (Linux,
// Documentation/driver-api/cxl; the distances are of QEMU's and servers' SLIT with one expander).
func cxlMemory() inventory.Facts {
	m := frame{
		model: "INTEL(R) XEON(R) GOLD 6530", sockets: 2, nodes: 1, cores: 32, threads: 2, cache: 32, memory: 256, far: 21,
	}.machine()
	m.memoryNode(2, 128, nil)
	m.distances([]int{10, 21, 14}, []int{21, 10, 24}, []int{14, 24, 10})
	m.port(0).plug(root(ssd()))
	m.port(0).plug(uplink(xxv710()))
	m.port(1).plug(connectX7())
	return m.facts()
}

// hbmFlat is two Xeon CPU Max 9480 in flat mode without sub-NUMA clustering: the memory on the package is two nodes
// more, of 64 GiB, without CPUs and farther from the cores than the modules (Intel's configuration and tuning guide of
// the Xeon CPU Max series, "flat mode").
func hbmFlat() inventory.Facts {
	m := frame{
		model: "Intel(R) Xeon(R) CPU Max 9480", sockets: 2, nodes: 1, cores: 56, threads: 2, cache: 56, memory: 256, far: 21,
	}.server()
	m.memoryNode(2, 64, nil)
	m.memoryNode(3, 64, nil)
	m.distances([]int{10, 21, 13, 23}, []int{21, 10, 23, 13}, []int{13, 23, 10, 23}, []int{23, 13, 23, 10})
	m.port(1).plug(connectX7())
	return m.facts()
}

// sparseNodes has NUMA nodes 0 and 8 with nothing between them, four adjacent threads a core, and a last-level cache for two
// cores: as IBM's Power System AC922. An x86 machine looks so when nodes of it are off.
func sparseNodes() inventory.Facts {
	m := frame{
		model: "POWER9, altivec supported", sockets: 2, nodes: 1, cores: 16, threads: 4, cache: 2, numbering: adjacent,
		memory: 256, far: 40,
	}.server()
	m.Arch = "ppc64le"
	m.NUMA[1].ID = 8
	for i := range m.Layout {
		m.Layout[i].NUMA *= 8
	}
	m.port(8).plug(connectX6())
	return m.facts()
}

// hugePages has pages of 1 GiB on one node, of 2 MiB on another, both on the third, where some are taken, and none on the fourth
// (Linux, Documentation/admin-guide/mm/hugetlbpage.rst: pools are filled node by node).
func hugePages() inventory.Facts {
	m := frame{
		model: "AMD EPYC 7302P 16-Core Processor", sockets: 1, nodes: 4, cores: 4, threads: 2, cache: 2, memory: 32, near: 12,
	}.server()
	const small, large = 2 << 10, 1 << 20
	m.NUMA[0].HugePages = []inventory.HugePages{{KiB: large, Total: 24, Free: 24}}
	m.NUMA[1].HugePages = []inventory.HugePages{{KiB: small, Total: 12288, Free: 12288}}
	m.NUMA[2].HugePages = []inventory.HugePages{{KiB: small, Total: 4096, Free: 1000}, {KiB: large, Total: 16, Free: 4}}
	m.port(2).plug(connectX6())
	return m.facts()
}

// evaluationHost is a small virtual machine of a cloud: two CPUs, no IOMMU, and a paravirtual NIC, which the machine
// needs itself. No device knows its NUMA node.
func evaluationHost() inventory.Facts {
	m := frame{model: "AMD EPYC", sockets: 1, nodes: 1, cores: 2, threads: 1, cache: 2, memory: 24}.machine()
	m.iommu = false
	m.put(inventory.Device{
		Kind: "nic", PCI: "0000:00:03.0", Vendor: "1af4", ID: "1041", NUMA: -1, Driver: "virtio-pci", MAC: "?",
		Host: "its default route",
	})
	return m.facts()
}
