package shapes

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"muster/internal/inventory"
)

// Write lays a machine out below root as its kernel would show it in sysfs and procfs. There is more than the facts say:
// root ports, and functions that are of no use.
func Write(root string, f inventory.Facts) error {
	t := &tree{root: root}
	t.file("proc/cpuinfo", "processor\t: 0\nmodel name\t: "+f.CPUModel+"\n")
	t.file("proc/meminfo", fmt.Sprintf("MemTotal:       %d kB\nMemFree:        4096 kB\n", f.MemoryMiB<<10))
	t.file("proc/sys/kernel/osrelease", f.Kernel)
	t.file("proc/cmdline", "quiet")
	t.processors(f)
	t.memory(f)
	t.pci(f)
	t.file("proc/1/mountinfo", "22 27 0:21 / /proc rw,relatime - proc proc rw\n"+t.mounts)
	t.file("proc/1/net/route", "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"+t.routes)
	return t.err
}

// LSPCI is what lspci -Dmm says on the machine.
func LSPCI(f inventory.Facts) string {
	var out strings.Builder
	for _, d := range f.Devices {
		fmt.Fprintf(&out, "%s \"Class\" \"\" %q \"\" \"\"\n", d.PCI, d.Name)
	}
	return out.String()
}

// tree is being written. The first error stays.
type tree struct {
	root           string
	err            error
	mounts, routes string
	others         int // network interfaces that are no NICs of the facts
}

func (t *tree) file(path, content string) {
	path = filepath.Join(t.root, path)
	t.err = cmp.Or(t.err, os.MkdirAll(filepath.Dir(path), 0o755))
	t.err = cmp.Or(t.err, os.WriteFile(path, []byte(strings.TrimSuffix(content, "\n")+"\n"), 0o644))
}

func (t *tree) number(path string, n int) { t.file(path, fmt.Sprint(n)) }

// link makes a relative link, as sysfs has them.
func (t *tree) link(path, target string) {
	relative, err := filepath.Rel(filepath.Dir(path), target)
	t.err = cmp.Or(t.err, err, os.MkdirAll(filepath.Join(t.root, filepath.Dir(path)), 0o755))
	t.err = cmp.Or(t.err, os.Symlink(relative, filepath.Join(t.root, path)))
}

func (t *tree) processors(f inventory.Facts) {
	var online []int
	sharing := map[int][]int{}
	for _, c := range f.Layout {
		online = append(online, c.CPUs...)
		sharing[c.Cache] = append(sharing[c.Cache], c.CPUs...)
	}
	t.file("sys/devices/system/cpu/online", inventory.CPUList(online))
	for _, c := range f.Layout {
		siblings := inventory.CPUList(c.CPUs)
		for _, cpu := range c.CPUs {
			dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", cpu)
			t.file(dir+"topology/thread_siblings_list", siblings)
			t.number(dir+"topology/physical_package_id", c.Package)
			t.number(dir+"topology/core_id", c.ID)
			t.cache(dir+"cache/index0/", "1", "Data", siblings)
			t.cache(dir+"cache/index1/", "1", "Instruction", siblings)
			if first := sharing[c.Cache][0]; cpu != first { // one directory for all, or there would be thousands of files more
				t.link(dir+"cache/index3", fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache/index3", first))
			} else {
				t.cache(dir+"cache/index3/", "3", "Unified", inventory.CPUList(sharing[c.Cache]))
			}
		}
	}
}

func (t *tree) cache(dir, level, kind, shared string) {
	t.file(dir+"level", level)
	t.file(dir+"type", kind)
	t.file(dir+"size", "1024K")
	t.file(dir+"shared_cpu_list", shared)
}

func (t *tree) memory(f inventory.Facts) {
	for _, n := range f.NUMA {
		dir := fmt.Sprintf("sys/devices/system/node/node%d/", n.ID)
		t.file(dir+"cpulist", n.CPUs)
		t.file(dir+"meminfo", fmt.Sprintf("Node %d MemTotal:       %d kB\nNode %d MemFree:        4096 kB\n", n.ID,
			n.MemoryMiB<<10, n.ID))
		t.file(dir+"distance", strings.Trim(fmt.Sprint(n.Distances), "[]"))
		pools := map[int]inventory.HugePages{2 << 10: {}, 1 << 20: {}} // which the kernel shows also where they are empty
		for _, p := range n.HugePages {
			pools[p.KiB] = p
		}
		for kib, p := range pools {
			t.number(fmt.Sprintf("%shugepages/hugepages-%dkB/nr_hugepages", dir, kib), p.Total)
			t.number(fmt.Sprintf("%shugepages/hugepages-%dkB/free_hugepages", dir, kib), p.Free)
		}
	}
}

// pci lays out the devices, the bridges above them, and two functions of the board.
func (t *tree) pci(f inventory.Facts) {
	iommu, there := false, map[string]bool{}
	for _, d := range f.Devices {
		iommu = iommu || d.Group != ""
		there[d.PCI] = true
	}
	others := []inventory.Device{
		{PCI: "0000:00:00.0", Vendor: "8086", ID: "2020", NUMA: -1, Kind: "host bridge"},
		{PCI: "0000:00:1f.0", Vendor: "8086", ID: "a1c1", NUMA: -1, Kind: "ISA bridge", Driver: "lpc_ich"},
	}
	for _, d := range f.Devices {
		for i, address := range d.Path {
			if !there[address] {
				there[address] = true
				others = append(others, inventory.Device{PCI: address, Vendor: "8086", ID: "2030", NUMA: d.NUMA, Path: d.Path[:i],
					Kind: "bridge", Driver: "pcieport"})
			}
		}
	}
	for i, d := range others {
		if iommu {
			d.Group = fmt.Sprint(500 + i)
		}
		t.function(d)
	}
	for _, d := range f.Devices {
		dir := t.function(d)
		for _, n := range f.NICs {
			if n.PCI == d.PCI {
				t.nic(dir, n, d)
			}
		}
		if d.Parent != "" && d.MAC != "" {
			t.others++
			t.nic(dir, inventory.NIC{Name: fmt.Sprintf("vf%d", t.others), MAC: d.MAC, Driver: d.Driver, PCI: d.PCI}, d)
		}
		for _, disk := range f.Disks {
			if disk.Serial == "S"+d.PCI {
				t.disk(dir, disk, d)
			}
		}
	}
}

// where is the function's directory.
func where(d inventory.Device) string {
	above := append(append([]string{}, d.Path...), d.PCI)
	return "sys/devices/pci" + above[0][:len("0000:00")] + "/" + strings.Join(above, "/") + "/"
}

// function lays out a PCI function and says where.
func (t *tree) function(d inventory.Device) string {
	dir := where(d)
	class := map[string]string{
		"gpu": "0x030200", "hca": "0x020700", "nic": "0x020000", "nvme": "0x010802", "bridge": "0x060400",
		"host bridge": "0x060000",
		"ISA bridge":  "0x060100", "other": "0x040300",
	}[d.Kind]
	switch {
	case d.Kind == "hca" && d.MAC != "":
		class = "0x020000"
	case d.Driver == "ahci":
		class = "0x010601"
	}
	t.file(dir+"class", class)
	t.file(dir+"vendor", "0x"+d.Vendor)
	t.file(dir+"device", "0x"+d.ID)
	t.number(dir+"numa_node", d.NUMA)
	t.link("sys/bus/pci/devices/"+d.PCI, dir)
	if d.Driver != "" {
		t.link(dir+"driver", "sys/bus/pci/drivers/"+d.Driver)
	}
	if d.Group != "" {
		t.link(dir+"iommu_group", "sys/kernel/iommu_groups/"+d.Group)
	}
	if d.Parent != "" {
		t.link(dir+"physfn", filepath.Join(dir, "..", d.Parent))
	}
	if d.VFs > 0 {
		t.number(dir+"sriov_totalvfs", d.VFs)
	}
	if d.GUID != "" {
		t.file(dir+"infiniband/mlx5_0/node_guid", d.GUID)
	}
	return dir
}

// nic lays out a function's network interface.
func (t *tree) nic(dir string, n inventory.NIC, d inventory.Device) {
	if n.Driver != d.Driver { // it hangs on another bus that begins there
		dir += "virtio0/"
		t.link(dir+"driver", "sys/bus/virtio/drivers/"+n.Driver)
	}
	in := dir + "net/" + n.Name + "/"
	t.number(in+"type", 1)
	t.file(in+"address", strings.ToUpper(n.MAC))
	t.number(in+"carrier", map[bool]int{true: 1}[n.Up])
	t.number(in+"speed", n.SpeedMbps)
	t.link(in+"device", dir)
	t.link("sys/class/net/"+n.Name, in)
	if d.Host == "its default route" {
		t.routes += n.Name + "\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
	}
}

// disk lays out a disk with one partition.
func (t *tree) disk(dir string, disk inventory.Disk, d inventory.Device) {
	device, in := dir+"nvme/"+strings.TrimSuffix(disk.Name, "n1")+"/", ""
	if disk.Kind == "nvme" {
		in = device + disk.Name + "/"
		t.file(device+"serial", disk.Serial)
	} else {
		device = dir + "ata1/host0/target0:0:0/0:0:0:0/"
		in = device + "block/" + disk.Name + "/"
		t.file(device+"vpd_pg80", "\x00\x80\x00\x0d"+disk.Serial)
	}
	part := disk.Name + map[bool]string{true: "p1", false: "1"}[disk.Kind == "nvme"]
	t.file(device+"model", disk.Model)
	t.number(in+"size", disk.SizeGB*1e9/512)
	t.number(in+"queue/rotational", 0)
	t.number(in+part+"/partition", 1)
	t.link(in+"device", device)
	t.link("sys/block/"+disk.Name, in)
	t.link("sys/class/block/"+disk.Name, in)
	t.link("sys/class/block/"+part, in+part)
	if d.Host == "root file system" {
		t.link("sys/dev/block/259:1", in+part)
		t.mounts += "27 1 259:1 / / rw,relatime - ext4 /dev/" + part + " rw\n"
	}
}
