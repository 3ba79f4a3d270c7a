package hardware

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/inventory"
)

// function is a PCI function's files.
func function(address, class, vendor, above, group string, more map[string]string) map[string]string {
	dir := "sys/devices/" + above + "/" + address
	files := map[string]string{
		dir + "/class": class, dir + "/vendor": "0x" + vendor, dir + "/device": "0x0001", dir + "/numa_node": "0",
		"sys/bus/pci/devices/" + address: "-> " + dir,
	}
	if group != "" {
		files[dir+"/iommu_group"] = "-> sys/kernel/iommu_groups/" + group
		files["sys/kernel/iommu_groups/"+group+"/type"] = "DMA"
	}
	for path, text := range more {
		files[dir+"/"+path] = text
	}
	return files
}

func together(all ...map[string]string) map[string]string {
	files := map[string]string{}
	for _, part := range all {
		maps.Copy(files, part)
	}
	return files
}

// A NIC of a chipset shares its group with what the board needs.
func TestWhatSharesAGroupWithTheBoardIsTheHosts(t *testing.T) {
	got := planted(t, together(
		function("0000:00:1f.0", "0x060100", "8086", "pci0000:00", "9", nil),
		function("0000:00:1f.4", "0x0c0500", "8086", "pci0000:00", "9", nil),
		function("0000:00:1f.6", "0x020000", "8086", "pci0000:00", "9", nil),
		function("0000:00:1f.7", "0x118000", "8086", "pci0000:00", "10", nil),
	)).Devices()
	want := []inventory.Device{
		{Kind: "other", PCI: "0000:00:1f.0", Vendor: "8086", ID: "0001", Group: "9", Host: "part of its board"},
		{Kind: "other", PCI: "0000:00:1f.4", Vendor: "8086", ID: "0001", Group: "9", Host: "part of its board"},
		{Kind: "nic", PCI: "0000:00:1f.6", Vendor: "8086", ID: "0001", Group: "9"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAGroupWithoutAnIOMMUIsNone(t *testing.T) {
	got := planted(t, together(
		function("0000:01:00.0", "0x030200", "10de", "pci0000:00/0000:00:01.0", "0", nil),
		map[string]string{"sys/kernel/iommu_groups/0/name": "vfio-noiommu\n"},
	)).Devices()
	if len(got) != 1 || got[0].Group != "" {
		t.Errorf("%+v", got)
	}
}

// An adapter is the same kind of device whichever driver has it, and its virtual functions are of its kind.
func TestTheKindOfADeviceDoesNotDependOnItsDriver(t *testing.T) {
	const above = "pci0000:00/0000:00:01.0"
	for _, driver := range []string{"mlx5_core", "vfio-pci"} {
		got := planted(t, together(
			function("0000:01:00.0", "0x020000", "15b3", above, "1",
				map[string]string{"driver": "-> sys/bus/pci/drivers/" + driver, "sriov_totalvfs": "8"}),
			function("0000:01:00.2", "0x118000", "15b3", above, "2",
				map[string]string{"physfn": "-> sys/devices/" + above + "/0000:01:00.0"}),
			map[string]string{"sys/bus/pci/drivers/" + driver + "/bind": ""},
		)).Devices()
		if len(got) != 2 || got[0].Kind != "hca" || got[0].VFs != 8 || got[0].Driver != driver || got[1].Kind != "hca" ||
			got[1].Parent != got[0].PCI {
			t.Errorf("%s: %+v", driver, got)
		}
	}
}

// Intel's VMD is an endpoint with a PCI domain of its own behind it.
func TestThePathToADeviceLeadsThroughItsDomain(t *testing.T) {
	got := planted(t, function("10000:01:00.0", "0x010802", "8086", "pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0", "",
		nil)).Devices()
	if len(got) != 1 || cmp.Diff([]string{"0000:5d:05.5", "10000:00:02.0"}, got[0].Path) != "" {
		t.Errorf("%+v", got)
	}
}

// host is a machine with four NVMe disks and three NICs, which are named after their numbers: 1 to 4, 5 to 7.
func host() map[string]string {
	files := map[string]string{}
	for _, n := range []string{"1", "2", "3", "4"} {
		above, disk := "pci0000:00/0000:00:0"+n+".0", "nvme/nvme"+n+"/nvme"+n+"n1"
		maps.Copy(files, function("0000:0"+n+":00.0", "0x010802", "144d", above,
			n, map[string]string{disk + "/size": "1", disk + "/nvme" + n + "n1p1/size": "1"}))
		files["sys/class/block/nvme"+n+"n1"] = "-> sys/devices/" + above + "/0000:0" + n + ":00.0/" + disk
		files["sys/class/block/nvme"+n+"n1p1"] = "-> sys/devices/" + above + "/0000:0" + n + ":00.0/" + disk + "/nvme" + n +
			"n1p1"
	}
	for _, n := range []string{"5", "6", "7"} {
		above := "pci0000:00/0000:00:0" + n + ".0"
		dir := "sys/devices/" + above + "/0000:0" + n + ":00.0"
		maps.Copy(files, function("0000:0"+n+":00.0", "0x020000", "8086", above, n, map[string]string{
			"net/eth" + n + "/address": "02:00:00:00:00:0" + n, "net/eth" + n + "/type": "1", "net/eth" + n + "/device": "-> " +
				dir,
		}))
		files["sys/class/net/eth"+n] = "-> " + dir + "/net/eth" + n
	}
	return files
}

func TestAPortOfABondHasItsOwnAddress(t *testing.T) {
	for _, d := range planted(t, together(host(), map[string]string{
		"sys/devices/pci0000:00/0000:00:06.0/0000:06:00.0/net/eth6/bonding_slave/perm_hwaddr": "02:00:00:00:00:66\n",
	})).Devices() {
		if want := map[string]string{"5": "02:00:00:00:00:05", "6": "02:00:00:00:00:66",
			"7": "02:00:00:00:00:07"}[d.Group]; d.MAC != want {
			t.Errorf("%s: MAC %q, want %q", d.PCI, d.MAC, want)
		}
	}
}

func TestWhatTheMachineNeedsItselfIsFound(t *testing.T) {
	const route = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  map[string]string // by the number of the device
	}{
		{"nothing", nil, nil},
		{"a partition", map[string]string{
			"proc/1/mountinfo": "27 1 259:1 / / rw - ext4 /dev/root rw\n28 27 259:2 / /my\\040data rw - xfs " +
				"/dev/nvme2n1p1 rw\n",
			"sys/dev/block/259:1":  "-> sys/class/block/nvme1n1p1",
			"sys/dev/block/259:2":  "-> sys/class/block/nvme2n1p1",
			"proc/self/mountinfo":  "27 1 259:3 / / rw - ext4 /dev/nvme3n1 rw\n",
			"sys/dev/block/259:30": "-> sys/class/block/nvme3n1",
		}, map[string]string{"1": "root file system", "2": "file system on /my data"}},
		{"a volume over two disks, seen by this process alone", map[string]string{
			"proc/self/mountinfo":                          "27 1 253:0 / / rw - ext4 /dev/mapper/root rw\n",
			"sys/dev/block/253:0":                          "-> sys/devices/virtual/block/dm-0",
			"sys/class/block/dm-0":                         "-> sys/devices/virtual/block/dm-0",
			"sys/devices/virtual/block/dm-0/slaves/md0":    "-> sys/devices/virtual/block/md0",
			"sys/class/block/md0":                          "-> sys/devices/virtual/block/md0",
			"sys/devices/virtual/block/md0/slaves/nvme1n1": "-> sys/class/block/nvme1n1",
			"sys/devices/virtual/block/md0/slaves/nvme4n1": "-> sys/class/block/nvme4n1",
			"sys/devices/virtual/block/md0/slaves/dm-0":    "-> sys/devices/virtual/block/dm-0", // which no kernel does
		}, map[string]string{"1": "root file system", "4": "root file system"}},
		{"a volume that nobody has mounted", map[string]string{
			"sys/devices/pci0000:00/0000:00:03.0/0000:03:00.0/nvme/nvme3/nvme3n1/nvme3n1p1/holders/dm-7": "",
		}, map[string]string{"3": "part of volume dm-7"}},
		{"a file system over several disks", map[string]string{
			"proc/1/mountinfo":                            "27 1 0:30 / / rw - btrfs /dev/nvme2n1p1 rw\n",
			"sys/fs/btrfs/5a2c/devices/nvme2n1p1":         "",
			"sys/fs/btrfs/5a2c/devices/nvme3n1":           "",
			"sys/fs/btrfs/features/big_metadata":          "0",
			"sys/devices/virtual/block/loop0/loop/unused": "",
		}, map[string]string{"2": "root file system", "3": "file system on several disks"}},
		{"a disk with two ways to it", map[string]string{
			"proc/1/mountinfo":        "27 1 259:1 / /scratch rw - xfs /dev/nvme9n1 rw\n",
			"sys/dev/block/259:1":     "-> sys/class/block/nvme9n1",
			"sys/class/block/nvme9n1": "-> sys/devices/virtual/nvme-subsystem/nvme-subsys9/nvme9n1",
			"sys/devices/virtual/nvme-subsystem/nvme-subsys9/nvme9n1/size": "1",
			"sys/devices/virtual/nvme-subsystem/nvme-subsys9/nvme1":        "-> sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme1",
			"sys/devices/virtual/nvme-subsystem/nvme-subsys9/nvme2":        "-> sys/devices/pci0000:00/0000:00:02.0/0000:02:00.0/nvme/nvme2",
		}, map[string]string{"1": "file system on /scratch", "2": "file system on /scratch"}},
		{"a disk for two things is needed for the first", map[string]string{
			"proc/1/mountinfo":    "28 27 259:2 / /data rw - xfs /dev/nvme2n1p1 rw\n27 1 259:1 / / rw - ext4 /dev/nvme2n1 rw\n",
			"sys/dev/block/259:1": "-> sys/class/block/nvme2n1",
			"sys/dev/block/259:2": "-> sys/class/block/nvme2n1p1",
			"proc/swaps":          "/dev/nvme2n1p1 partition 8 0 -2\n",
		}, map[string]string{"2": "root file system"}},
		{"swap", map[string]string{
			"proc/swaps": "Filename\tType\tSize\tUsed\tPriority\n/dev/nvme4n1p1 partition 8 0 -2\n/swapfile file 8 0 -3\n",
		}, map[string]string{"4": "swap"}},
		{"routes", map[string]string{
			"proc/1/net/route": route +
				"eth5\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\nbr0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\n",
			"sys/devices/virtual/net/br0/lower_bond0":  "-> sys/class/net/bond0",
			"sys/class/net/br0":                        "-> sys/devices/virtual/net/br0",
			"sys/devices/virtual/net/bond0/lower_eth6": "-> sys/class/net/eth6",
			"sys/devices/virtual/net/bond0/lower_br0":  "-> sys/class/net/br0", // which no kernel does
			"sys/class/net/bond0":                      "-> sys/devices/virtual/net/bond0",
		}, map[string]string{"5": "its default route", "6": "an address of its own"}},
		{"a route of IPv6", map[string]string{
			"proc/1/net/ipv6_route": "00000000000000000000000000000000 00 00000000000000000000000000000000 00 " +
				"fe800000000000000000000000000001 00000400 00000001 00000000 00450003 eth7\n" +
				"00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 " +
				"ffffffff 00000001 00000000 00200200 lo\n",
		}, map[string]string{"7": "its default route"}},
		{"the NIC that it booted from", map[string]string{
			"proc/cmdline":     "quiet muster.mac=02:00:00:00:00:06\n",
			"proc/1/net/route": route + "eth6\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\n",
		}, map[string]string{"6": "its link to the controller"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := map[string]string{}
			for _, d := range planted(t, together(host(), c.files)).Devices() {
				if d.Host != "" {
					got[d.Group] = d.Host // which has the device's number
				}
			}
			if c.want == nil {
				c.want = map[string]string{}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
