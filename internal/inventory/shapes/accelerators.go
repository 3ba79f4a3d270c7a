package shapes

import "muster/internal/inventory"

// dgxH100 is like NVIDIA's DGX H100: two sockets of 56 cores, and four times below each of them a PCIe switch with one
// GPU and one adapter that reach each other without the root complex ("PIX" in nvidia-smi topo -m).
func dgxH100() inventory.Facts {
	m := frame{
		model: "Intel(R) Xeon(R) Platinum 8480C", sockets: 2, nodes: 1, cores: 56, threads: 2, cache: 56, memory: 1024, far: 21,
	}.machine()
	m.port(0).plug(root(ssd()))
	m.port(0).plug(uplink(xxv710()))
	for pair := range 8 {
		below := m.switched(pair/4, 2)
		below[0].plug(h100())
		below[1].plug(connectX7())
	}
	for range 4 {
		m.port(0).plug(ssd())
		m.port(1).plug(ssd())
	}
	return m.facts()
}

// dgxA100 is like NVIDIA's DGX A100: two AMD EPYC 7742 in NPS4, four cores to a last-level cache, and two GPUs with two
// adapters below a switch on NUMA nodes 3, 1, 7 and 5 in this order; the other four nodes have no device but disks
// (the "NUMA Affinity" of its nvidia-smi topo -m).
func dgxA100() inventory.Facts {
	m := frame{
		model: "AMD EPYC 7742 64-Core Processor", sockets: 2, nodes: 4, cores: 16, threads: 2, cache: 4, memory: 128, near: 12,
		far: 32,
	}.machine()
	m.port(0).plug(uplink(xxv710()))
	m.port(2).plug(root(ssd()))
	for _, numa := range []int{3, 1, 7, 5} {
		below := m.switched(numa, 4)
		for i := range 2 {
			below[i].plug(a100())
			below[2+i].plug(connectX6())
		}
	}
	m.port(4).plug(ssd())
	return m.facts()
}

// devicesOnOneSocket is a server whose risers are all on its second socket, as half-populated ones are.
func devicesOnOneSocket() inventory.Facts {
	m := frame{
		model: "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", sockets: 2, nodes: 1, cores: 32, threads: 2, cache: 32, memory: 256,
		far: 20,
	}.machine()
	m.port(1).plug(root(ssd()))
	m.port(1).plug(uplink(i210()))
	for range 2 {
		m.port(1).plug(a100())
		m.port(1).plug(connectX6())
		m.port(1).plug(ssd())
	}
	return m.facts()
}

// virtualFunctions is a server whose adapters have virtual functions: an InfiniBand adapter four, the first two of them bound for
// guests, and an Ethernet adapter two, which the host's driver has taken.
func virtualFunctions() inventory.Facts {
	m := frame{
		model: "AMD EPYC 9124 16-Core Processor", sockets: 2, nodes: 1, cores: 16, threads: 2, cache: 4, memory: 192, far: 32,
	}.machine()
	m.port(0).plug(root(ssd()))
	at := m.port(0)
	functions := at.plug(uplink(xxv710()))
	for range 2 {
		functions = append(functions, at.virtual(functions[0], len(functions), inventory.Device{
			Kind: "nic", Vendor: "8086", ID: "154c", Name: "Intel Corporation Ethernet Virtual Function 700 Series",
			Driver: "iavf", MAC: "?",
		}))
	}
	at = m.port(1)
	functions = at.plug(connectX6())
	for range 4 {
		d := inventory.Device{
			Kind: "hca", Vendor: "15b3", ID: "101c", Name: mellanox + " MT28908 Family [ConnectX-6 Virtual Function]",
			Driver: "vfio-pci",
		}
		if len(functions) > 2 {
			d.Driver, d.GUID = "mlx5_core", "?"
		}
		functions = append(functions, at.virtual(functions[0], len(functions), d))
	}
	return m.facts()
}

// noIOMMU is a GPU server whose firmware has VT-d switched off.
func noIOMMU() inventory.Facts {
	m := frame{
		model: "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", sockets: 2, nodes: 1, cores: 20, threads: 2, cache: 20, memory: 192,
		far: 21,
	}.machine()
	m.iommu = false
	m.port(0).plug(root(ssd()))
	m.port(0).plug(uplink(i210()))
	for socket := range 2 {
		m.port(socket).plug(a100())
		m.port(socket).plug(connectX6())
	}
	return m.facts()
}

// sharedGroups is a workstation whose root ports do not keep devices apart (no ACS; Linux,
// Documentation/driver-api/vfio.rst, "groups"). It has
//
//   - a GPU with its audio function, in a group of their own;
//   - a second GPU whose audio function and root port are in its group;
//   - a NIC whose two ports are in one group, both free;
//   - a third GPU in one group with the disk controller that has the root file system;
//   - an NVMe disk in one group with the NIC that has the default route.
func sharedGroups() inventory.Facts {
	m := frame{
		model: "Intel(R) Core(TM) i9-10980XE CPU @ 3.00GHz", sockets: 1, nodes: 1, cores: 18, threads: 2, cache: 18, memory: 128,
	}.machine()
	group := m.group()
	m.port(0).plug(in(group, rtxA4000()), in(group, audio()))

	group = m.group()
	below := m.port(0)
	below.plug(in(group, rtxA4000()), in(group, audio()))
	m.put(inventory.Device{
		Kind: "bridge", PCI: below.path[0], Vendor: "8086", ID: "2030",
		Name: "Intel Corporation Sky Lake-E PCI Express Root Port A", Driver: "pcieport",
		Group: group,
	})

	group = m.group()
	copper := inventory.Device{Kind: "nic", Vendor: "8086", ID: "1528",
		Name: "Intel Corporation Ethernet Controller 10-Gigabit X540-AT2", Driver: "ixgbe", VFs: 63, MAC: "?"}
	m.port(0).plug(in(group, copper), in(group, copper))

	group = m.group()
	m.port(0).plug(in(group, rtxA4000()), in(group, audio()))
	m.put(inventory.Device{
		Kind: "other", PCI: "0000:00:17.0", Vendor: "8086", ID: "a282",
		Name: "Intel Corporation 200 Series PCH SATA controller [AHCI mode]", Driver: "ahci",
		Group: group, Host: "root file system",
	})
	m.Disks = append(m.Disks, inventory.Disk{
		Name: "sda", Model: "INTEL SSDSC2KB48", Serial: "S0000:00:17.0", SizeGB: 480, Kind: "ssd", Bus: "sata", Healthy: true,
		Health: "no SMART",
	})

	group = m.group()
	m.port(0).plug(in(group, ssd()))
	m.port(0).plug(in(group, uplink(i210())))
	return m.facts()
}

// virtual is a virtual function of one that was plugged in.
func (p port) virtual(parent string, number int, d inventory.Device) string {
	d.PCI, d.Parent, d.NUMA, d.Path = pci(p.bus, number/8, number%8), parent, p.numa, p.path
	return p.m.put(d)
}

// root makes it the disk of the root file system.
func root(d inventory.Device) inventory.Device {
	d.Host = "root file system"
	return d
}

// uplink makes it the NIC with the machine's default route.
func uplink(d inventory.Device) inventory.Device {
	d.Host = "its default route"
	return d
}

// in puts it into an IOMMU group with others.
func in(group string, d inventory.Device) inventory.Device {
	d.Group = group
	return d
}

const mellanox = "Mellanox Technologies"

// What can be plugged in. "?" is an address that is made up. Numbers are of the PCI ID Repository.

func ssd() inventory.Device {
	return inventory.Device{Kind: "nvme", Vendor: "144d", ID: "a80a",
		Name: "Samsung Electronics Co Ltd NVMe SSD Controller PM9A1/PM9A3/980PRO", Driver: "nvme"}
}

func i210() inventory.Device {
	return inventory.Device{Kind: "nic", Vendor: "8086", ID: "1533", Name: "Intel Corporation I210 Gigabit Network Connection",
		Driver: "igb", MAC: "?"}
}

func xxv710() inventory.Device {
	return inventory.Device{Kind: "nic", Vendor: "8086", ID: "158b",
		Name: "Intel Corporation Ethernet Controller XXV710 for 25GbE SFP28", Driver: "i40e", VFs: 64, MAC: "?"}
}

func connectX5() inventory.Device {
	return inventory.Device{Kind: "hca", Vendor: "15b3", ID: "1017", Name: mellanox + " MT27800 Family [ConnectX-5]",
		Driver: "mlx5_core", VFs: 8, MAC: "?", GUID: "?"}
}

func connectX6() inventory.Device {
	return inventory.Device{Kind: "hca", Vendor: "15b3", ID: "101b", Name: mellanox + " MT28908 Family [ConnectX-6]",
		Driver: "mlx5_core", VFs: 16, GUID: "?"}
}

func connectX7() inventory.Device {
	return inventory.Device{Kind: "hca", Vendor: "15b3", ID: "1021", Name: mellanox + " MT2910 Family [ConnectX-7]",
		Driver: "mlx5_core", VFs: 16, GUID: "?"}
}

func h100() inventory.Device {
	return inventory.Device{Kind: "gpu", Vendor: "10de", ID: "2330", Name: "NVIDIA Corporation GH100 [H100 SXM5 80GB]"}
}

func a100() inventory.Device {
	return inventory.Device{Kind: "gpu", Vendor: "10de", ID: "20b0", Name: "NVIDIA Corporation GA100 [A100 SXM4 40GB]"}
}

func rtxA4000() inventory.Device {
	return inventory.Device{Kind: "gpu", Vendor: "10de", ID: "24b0", Name: "NVIDIA Corporation GA104GL [RTX A4000]"}
}

func audio() inventory.Device {
	return inventory.Device{Kind: "other", Vendor: "10de", ID: "228b",
		Name: "NVIDIA Corporation GA104 High Definition Audio Controller", Driver: "snd_hda_intel"}
}
