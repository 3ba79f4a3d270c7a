package cli

import (
	"encoding/json"
	"testing"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/inventory/shapes"
)

// built is what `muster machines get` says of a machine of a shape.
func built(t *testing.T, shape string) result {
	s, facts := newSite(t), shapes.Named(shape)
	m := apiv1.Machine{Name: "r1", Substrate: "metal", Phase: "available", Since: ago(48 * time.Hour),
		Summary: apiv1.Summary(facts.Summary())}
	text, err := json.Marshal(facts)
	if err == nil {
		err = json.Unmarshal(text, &m.Facts)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.answers("GET /v1/machines/r1", 200, m)
	return muster(t, "machines", "get", "r1")
}

func TestAMachineShowsItsDevices(t *testing.T) {
	reads(t, built(t, "virtual-functions").out, `
name          r1
kind          metal
phase         available for 2d0h
arch          amd64
cpu           AMD EPYC 9124 16-Core Processor
cpus          64
memory        384 GiB
cores         32 on 2 sockets, 2 threads each
caches        8 last-level, each for 4 cores
numa 0        cpus 0-15,32-47, 192 GiB
numa 1        cpus 16-31,48-63, 192 GiB
distances     0: 10 32
              1: 32 10
disk nvme0n1  1920 GB nvme Samsung Electronics Co Ltd NVMe SSD Controller PM9A1/PM9A3/980PRO S0000:01:00.0 no SMART
nic eth0      02:00:00:00:00:02 i40e 25000 Mb/s

DEVICE  PCI           NUMA  GROUP  BELOW         DRIVER     VFS      NAME                                                               THE MACHINE'S OWN
nvme    0000:01:00.0  0     11     0000:00:01.0  nvme                Samsung Electronics Co Ltd NVMe SSD Controller PM9A1/PM9A3/980PRO  root file system
nic     0000:09:00.0  0     12     0000:08:01.0  i40e       2 of 64  Intel Corporation Ethernet Controller XXV710 for 25GbE SFP28       its default route
hca     0000:11:00.0  1     15     0000:10:01.0  mlx5_core  4 of 16  Mellanox Technologies MT28908 Family [ConnectX-6]
`)
}

func TestAMachineShowsHowItsMemoryLies(t *testing.T) {
	reads(t, built(t, "huge-pages").out, `
name          r1
kind          metal
phase         available for 2d0h
arch          amd64
cpu           AMD EPYC 7302P 16-Core Processor
cpus          32
memory        128 GiB
cores         16, 2 threads each
caches        8 last-level, each for 2 cores
numa 0        cpus 0-3,16-19, 32 GiB, huge pages: 24 of 1.0 GiB (24 free)
numa 1        cpus 4-7,20-23, 32 GiB, huge pages: 12288 of 2.0 MiB (12288 free)
numa 2        cpus 8-11,24-27, 32 GiB, huge pages: 4096 of 2.0 MiB (1000 free) and 16 of 1.0 GiB (4 free)
numa 3        cpus 12-15,28-31, 32 GiB
distances     0: 10 12 12 12
              1: 12 10 12 12
              2: 12 12 10 12
              3: 12 12 12 10
disk nvme0n1  1920 GB nvme Samsung Electronics Co Ltd NVMe SSD Controller PM9A1/PM9A3/980PRO S0000:01:00.0 no SMART
nic eth0      02:00:00:00:00:02 igb 25000 Mb/s

DEVICE  PCI           NUMA  GROUP  BELOW         DRIVER     VFS      NAME                                                               THE MACHINE'S OWN
nvme    0000:01:00.0  0     11     0000:00:01.0  nvme                Samsung Electronics Co Ltd NVMe SSD Controller PM9A1/PM9A3/980PRO  root file system
nic     0000:09:00.0  0     12     0000:08:01.0  igb                 Intel Corporation I210 Gigabit Network Connection                  its default route
hca     0000:11:00.0  2     13     0000:10:01.0  mlx5_core  0 of 16  Mellanox Technologies MT28908 Family [ConnectX-6]
`)
}

func TestAMachineShowsWhatItLacks(t *testing.T) {
	built(t, "no-iommu").wants(t, 0, "iommu         off: no device can be given to a virtual machine\n")
	built(t, "offline-cores").wants(t, 0, "cores         6, up to 2 threads each\n")
	built(t, "offline-cores").wants(t, 0, "caches        one last-level, for all cores\n")
	built(t, "cxl-memory").wants(t, 0, "numa 2        no cpus, 128 GiB\n")
}
