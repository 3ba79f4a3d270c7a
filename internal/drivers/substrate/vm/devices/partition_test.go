package devices_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/drivers/substrate/vm/devices/devicestest"
	"muster/internal/drivers/substrate/vm/devices/fake"
	"muster/internal/fabric"
	"muster/internal/inventory"
)

// The adapter of mlx4 in these tests: two ports, 16 virtual functions, so that folders' names turn from 00.7 to 01.0.
const (
	cx3      = "0000:04:00.0"
	cx3VF0   = "0000:04:00.1"
	cx3VF1   = "0000:04:00.2"
	cx3VF8   = "0000:04:01.1"
	cx3Port1 = fabric.GUID(0x0002c90300040001)
	cx3Port2 = fabric.GUID(0x0002c90300040002)
)

func connectX3() fake.Function {
	return fake.Function{Address: cx3, Group: "30", Class: 0x0280, Vendor: "15b3", ID: "1003", Driver: "mlx4_core",
		Methods: "flr", VFs: 16, Mapped: "mlx4_0", Ports: 2}
}

func newMapping(t *testing.T) *fixture {
	t.Helper()
	k := fake.New(connectX3(), fake.Function{Address: nic, Group: "20", Class: 0x0200, Vendor: "8086", ID: "1592", Driver: "ice",
		Methods: "flr", VFs: 4, VFDriver: "iavf", Link: "ens1"})
	return &fixture{T: t, kernel: k, Driver: newDriver(t, k, t.TempDir())}
}

// sees wants a function to see these partitions at a port and no other.
func (f *fixture) sees(address string, port int, want ...uint16) {
	f.Helper()
	if got := f.kernel.SeenKeys(address, port); !slices.Equal(got, want) {
		f.Errorf("%s sees %#x at port %d, want %#x", address, got, port, want)
	}
}

func TestTheFakeMapsPartitionsAsTheKernelDoes(t *testing.T) {
	f := newMapping(t)
	err := devicestest.RunMapping(t.Context(), devicestest.Mapping{Kernel: f.kernel, Device: "mlx4_0", Physical: cx3,
		Function: "0000:04:00.1", Logf: t.Logf})
	if err != nil {
		t.Error(err)
	}
}

func TestANewFunctionSeesNoPartition(t *testing.T) {
	f := newMapping(t)
	f.sees(cx3VF0, 1, 0xffff) // as the kernel makes it
	f.fails(f.CreateVFs(t.Context(), cx3, 4), "options mlx4_core num_vfs=4 probe_vf=0")
	f.must(f.CreateVFs(t.Context(), cx3, 16))
	for _, address := range []string{cx3VF0, cx3VF1, cx3VF8} {
		f.sees(address, 1)
		f.sees(address, 2)
	}
}

func TestAGuestSeesItsOwnPartitionAndNoOther(t *testing.T) {
	f := newMapping(t)
	ctx := t.Context()
	f.must(f.CreateVFs(ctx, cx3, 16))
	f.kernel.SetKey(cx3, 1, 0, 0x7fff)
	f.kernel.SetKey(cx3, 1, 5, 0x8002)
	given := []inventory.Device{{PCI: cx3VF8, Kind: "hca", Parent: cx3}}
	keys := map[fabric.GUID]fabric.Key{cx3Port1: 1}
	// The subnet manager comes first.
	if err := f.PrepareAll(ctx, "g1", given, nil, keys); !errors.Is(err, devices.ErrNoKey) {
		t.Error(err)
	}
	f.sees(cx3VF8, 1)
	f.kernel.SetKey(cx3, 1, 9, 0x8001)
	f.kernel.AllowSMI(cx3VF8, 1)
	f.must(f.PrepareAll(ctx, "g1", given, nil, keys))
	f.must(f.PrepareAll(ctx, "g1", given, nil, keys))
	f.sees(cx3VF8, 1, 0x8001)
	f.sees(cx3VF8, 2)
	if f.kernel.SMI(cx3VF8, 1) {
		t.Error("the guest may rewrite the port's table")
	}
	own := uint64(fabric.GuestPort("g1", 0))
	if one, two := f.kernel.GUIDOf(cx3VF8, 1), f.kernel.GUIDOf(cx3VF8, 2); one != own || two == own || two>>56 != 0x06 {
		t.Errorf("GUIDs %x and %x, want %x", one, two, own)
	}
	// Whatever the manager puts behind the table's visible end is not the guest's.
	f.kernel.SetKey(cx3, 1, fake.Slots-1, 0x8003)
	f.sees(cx3VF8, 1, 0x8001)
	f.must(f.kernel.Open(7, cx3VF8))
	f.kernel.Exit(7)
	f.must(f.ReleaseAll(ctx, "g1"))
	f.kernel.SetKey(cx3, 1, fake.Slots-1, 0)
	f.sees(cx3VF8, 1)
	if guid := f.kernel.GUIDOf(cx3VF8, 1); guid != 1<<64-1 {
		t.Errorf("GUID %x is left", guid)
	}
}

func TestEachPortHasAKeyOfItsOwnFabric(t *testing.T) {
	f := newMapping(t)
	ctx := t.Context()
	f.must(f.CreateVFs(ctx, cx3, 16))
	f.kernel.SetKey(cx3, 1, 0, 0x7fff)
	f.kernel.SetKey(cx3, 1, 3, 0x8001)
	f.kernel.SetKey(cx3, 1, 4, 0x8005)
	f.kernel.SetKey(cx3, 2, 3, 0x8001) // of another tenant of that fabric
	f.kernel.SetKey(cx3, 2, 4, 0x8005)
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: cx3VF0, GUID: "0611223344556677",
		Keys: map[fabric.GUID]fabric.Key{0: 1, cx3Port2: 5}}))
	f.sees(cx3VF0, 1, 0x8001)
	f.sees(cx3VF0, 2, 0x8005)
	f.must(f.Prepare(ctx, devices.Want{Guest: "g2", PCI: cx3VF1, GUID: "0611223344556688"}))
	f.sees(cx3VF1, 1)
	f.sees(cx3VF1, 2)
	f.fails(f.Prepare(ctx, devices.Want{Guest: "g3", PCI: cx3VF8, GUID: "0611223344556699",
		Keys: map[fabric.GUID]fabric.Key{0: fabric.DefaultKey}}), "is no partition at a port")
	f.fails(f.Prepare(ctx, devices.Want{Guest: "g3", PCI: cx3VF8, Keys: map[fabric.GUID]fabric.Key{0: 1}}), "needs a GUID")
}

func TestAGuestWithoutAPartitionIsRefusedWhereTheTableIsFull(t *testing.T) {
	f := newMapping(t)
	ctx := t.Context()
	f.must(f.CreateVFs(ctx, cx3, 16))
	f.kernel.SetKey(cx3, 1, fake.Slots-2, 0x8009)
	f.fails(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: cx3VF0, GUID: "0611223344556677"}), "used to the end")
	f.kernel.SetKey(cx3, 1, 3, 0x8001)
	f.must(f.Release(ctx, cx3VF0, "g1"))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: cx3VF0, GUID: "0611223344556677",
		Keys: map[fabric.GUID]fabric.Key{cx3Port1: 1}}))
	f.sees(cx3VF0, 1, 0x8001)
}

func TestWhatTheManagerPutsBehindOurBackIsEnded(t *testing.T) {
	f := newMapping(t)
	ctx := t.Context()
	f.must(f.CreateVFs(ctx, cx3, 16))
	f.kernel.SetKey(cx3, 1, 0, 0x7fff)
	f.kernel.SetKey(cx3, 1, 3, 0x8001)
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: cx3VF0, GUID: "0611223344556677",
		Keys: map[fabric.GUID]fabric.Key{cx3Port1: 1}}))
	f.must(f.kernel.Open(7, cx3VF0))
	guard := func(want string) {
		t.Helper()
		found, err := f.Guard(ctx)
		if got := found[cx3VF0]; err != nil || got != want || len(found) > 1 {
			t.Errorf("found %q, %v, want %q", found, err, want)
		}
	}
	guard("")
	// The table is packed again: another tenant's key is in the slot, its own elsewhere.
	f.kernel.SetKey(cx3, 1, 3, 0x8002)
	f.kernel.SetKey(cx3, 1, 8, 0x8001)
	guard("guest g1 saw partition [0x8002] at mlx4_0 port 1, which is not its own")
	f.sees(cx3VF0, 1, 0x8001)
	guard("")
	// OpenSM could not read its file.
	for slot := range fake.Slots {
		f.kernel.SetKey(cx3, 1, slot, 0)
	}
	f.kernel.SetKey(cx3, 1, 0, 0xffff)
	f.sees(cx3VF0, 1)
	guard("guest g1 has no partition at mlx4_0 port 1 any more: 0x0001 is not in the port's table")
	f.kernel.SetKey(cx3, 1, 8, 0x8001) // its slot is still its own
	f.sees(cx3VF0, 1, 0x8001)
	guard("")
	f.kernel.SetKey(cx3, 1, 8, 0x8004)
	guard("guest g1 saw partition [0x8004] at mlx4_0 port 1, which is not its own; guest g1 has no partition at mlx4_0 port 1 " +
		"any more: 0x0001 is not in the port's table")
	f.sees(cx3VF0, 1)
	f.kernel.SetKey(cx3, 1, 3, 0x8001)
	guard("")
	f.sees(cx3VF0, 1, 0x8001)
	// The table grows to its end: a port where the guest has no key is led elsewhere than to what cannot be read.
	f.kernel.SetKey(cx3, 2, fake.Slots-2, 0x8006)
	f.kernel.SetKey(cx3, 2, fake.Slots-1, 0x8007)
	guard("")
	f.sees(cx3VF0, 2)
	// A function that came again, as after its driver was loaded again, sees no partition.
	f.kernel.Exit(7)
	f.must(f.Release(ctx, cx3VF0, "g1"))
	f.must(f.kernel.Write(ctx, "class/infiniband/mlx4_0/iov/0000:04:00.2/ports/1/pkey_idx/0", "0"))
	guard("")
	f.sees(cx3VF1, 1)
}

func TestAFunctionsFolderIsNotTakenForAnothers(t *testing.T) {
	f := newMapping(t)
	for number, folder := range map[int]string{0: "0000:04:00.1", 7: "0000:04:01.0", 8: "0000:04:01.1", 15: "0000:04:02.0"} {
		text, err := f.kernel.Read("class/infiniband/mlx4_0/iov/" + folder + "/ports/1/gid_idx/0")
		if err != nil || text != fmt.Sprint(number+1) {
			t.Errorf("%s is slave %q's, %v", folder, text, err)
		}
	}
}
