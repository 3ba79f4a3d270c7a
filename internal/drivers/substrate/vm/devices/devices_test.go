package devices_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/drivers/substrate/vm/devices/devicestest"
	"muster/internal/fabric"
	"muster/internal/inventory"
)

func TestTheFakeKernelKeepsTheContract(t *testing.T) {
	k := newKernel()
	err := devicestest.Run(t.Context(), devicestest.Harness{
		Kernel: k, Physical: nic, Logf: t.Logf,
		Hold: func(address, _ string) (func() error, error) {
			return func() error { k.Exit(7); return nil }, k.Open(7, address)
		},
	})
	if err != nil {
		t.Error(err)
	}
}

const testMAC, otherMAC = "02:00:00:00:00:01", "02:00:00:00:00:02"

func TestAnEthernetFunctionGoesToAGuestAndBack(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.must(f.CreateVFs(ctx, nic, 4))
	f.driver(nicVF0, "")
	want := devices.Want{Guest: "g1", PCI: nicVF0, MAC: testMAC, VLAN: 12}
	f.must(f.Prepare(ctx, want))
	f.is(nicVF0, devices.Prepared, "g1")
	f.driver(nicVF0, "vfio-pci")
	s := f.kernel.Settings(nicVF0)
	if s["mac"] != testMAC || s["vlan"] != "12" || s["spoofchk"] != "on" || s["trust"] != "off" || s["state"] != "auto" {
		t.Errorf("settings %v", s)
	}
	f.must(f.kernel.Open(100, nicVF0))
	f.is(nicVF0, devices.Given, "g1")
	f.kernel.Use(nicVF0, "g1's")
	f.must(f.Prepare(ctx, want))
	if len(f.kernel.Marks(nicVF0)) != 1 {
		t.Error("a guest that runs was disturbed by a second Prepare")
	}
	err := f.Release(ctx, nicVF0, "g1")
	if !errors.Is(err, devices.ErrHeld) {
		t.Errorf("released from a guest that runs: %v", err)
	}
	f.kernel.Exit(100)
	f.must(f.Release(ctx, nicVF0, "g1"))
	f.must(f.Release(ctx, nicVF0, "g1"))
	f.is(nicVF0, devices.Free, "")
	f.driver(nicVF0, "")
	if s := f.kernel.Settings(nicVF0); s["mac"] == testMAC || s["vlan"] != "0" || s["state"] != "disable" {
		t.Errorf("settings after the guest: %v", s)
	}
	if m := f.kernel.Marks(nicVF0); len(m) > 0 {
		t.Errorf("the guest left %q", m)
	}
}

func TestWhatTheAdapterSaysIsReadBack(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.must(f.CreateVFs(ctx, nic, 2))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: nicVF0, MAC: testMAC, VLAN: 7}))
	f.kernel.Ignore("vlan")
	f.fails(f.Prepare(ctx, devices.Want{Guest: "g2", PCI: nicVF1, MAC: otherMAC, VLAN: 8}),
		`vlan of virtual function 1 of ens1 reads "0", and was set to 8`)
	f.must(f.Release(ctx, nicVF1, "g2"))
	f.is(nicVF1, devices.Free, "")
	f.fails(f.Release(ctx, nicVF0, "g1"), `reads "7", and was set to 0`)
	f.is(nicVF0, devices.Lost, "g1")
}

func TestAnInfiniBandFunctionGetsItsGUIDs(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.must(f.CreateVFs(ctx, hca, 1))
	f.fails(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: hcaVF0, MAC: testMAC}), "needs a GUID")
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: hcaVF0, GUID: "0011:2233:4455:6677"}))
	s := f.kernel.Settings(hcaVF0)
	if s["node_guid"] != "00:11:22:33:44:55:66:77" || s["port_guid"] != s["node_guid"] || s["state"] != "auto" {
		t.Errorf("settings %v", s)
	}
	f.must(f.Release(ctx, hcaVF0, "g1"))
	if s := f.kernel.Settings(hcaVF0); s["node_guid"] != "00:00:00:00:00:00:00:00" || s["state"] != "disable" {
		t.Errorf("settings after the guest: %v", s)
	}
}

func TestAnNVMeFunctionHasANamespaceOfItsOwnAndLeavesNothingInIt(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.must(f.CreateVFs(ctx, ssd, 2))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: ssdVF0}))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g2", PCI: ssdVF1}))
	f.kernel.Use(ssdVF0, "g1's")
	f.kernel.Use(ssdVF1, "g2's")
	f.must(f.Release(ctx, ssdVF0, "g1"))
	if m := f.kernel.Marks(ssdVF1); len(m) != 2 || m[1] != "g2's" {
		t.Errorf("the neighbour has %q on its disk after an erase beside it", m)
	}
	f.must(f.Prepare(ctx, devices.Want{Guest: "g3", PCI: ssdVF0}))
	if m := f.kernel.Marks(ssdVF0); len(m) > 0 {
		t.Errorf("g3 finds %q", m)
	}
	f.fails(f.CreateVFs(ctx, ssd, 3), "guest g3 has "+ssdVF0)
}

func TestAnNVMeFunctionIsRefusedWithoutANamespace(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.must(f.CreateVFs(ctx, ssd, 3))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: ssdVF0}))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g2", PCI: ssdVF1}))
	f.fails(f.Prepare(ctx, devices.Want{Guest: "g3", PCI: "0000:81:00.3"}), "no namespace that is attached to nobody",
		"create-ns")
}

// The disk keeps whose a namespace is where records do not last: in a machine's memory.
func TestAnNVMeFunctionWhoseNamespaceNobodyKnowsIsRefused(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.must(f.CreateVFs(ctx, ssd, 2))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: ssdVF0}))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: ssdVF0})) // what it has it keeps
	f.kernel.Use(ssdVF0, "g1's")
	f.must(os.Remove(filepath.Join(f.Dir, ssdVF0+".json")))
	for range 2 {
		f.fails(f.Prepare(ctx, devices.Want{Guest: "g2", PCI: ssdVF0}), "namespace 1 of /dev/nvme0 is attached",
			"what is on it is not known", "detach-ns")
		f.is(ssdVF0, devices.Free, "")
	}
}

func TestAWholeDiskIsErased(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: wholeSSD}))
	f.driver(wholeSSD, "vfio-pci")
	f.kernel.Use(wholeSSD, "g1's")
	f.must(f.Release(ctx, wholeSSD, "g1"))
	f.driver(wholeSSD, "nvme")
	if m := f.kernel.Marks(wholeSSD); len(m) > 0 {
		t.Errorf("the guest left %q", m)
	}
}

func TestADeviceIsRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		want  devices.Want
		words []string
	}{
		{"that the host needs", devices.Want{PCI: gpu, Host: "root file system"},
			[]string{"the host needs it: root file system"}},
		{"whose group holds something of the host's", devices.Want{PCI: desktop}, []string{"group 26", sound, "snd_hda_intel"}},
		{"that no reset clears", devices.Want{PCI: unreset}, []string{"cannot be reset by itself"}},
		{"that has no IOMMU", devices.Want{PCI: noIOMMU}, []string{"no IOMMU group", "intel_iommu=on"}},
		{"that only an unsafe reset would clear", devices.Want{PCI: radeon}, []string{"vendor-reset", `"bus"`}},
		{"that is divided", devices.Want{PCI: nic}, []string{"divided into 2 virtual functions"}},
		{"that is not there", devices.Want{PCI: "0000:ff:00.0"}, []string{"0000:ff:00.0"}},
		{"without a PCI address", devices.Want{PCI: "gpu0"}, []string{`"gpu0"`, "0000:3b:00.1"}},
		{"with a group address", devices.Want{PCI: nicVF0, MAC: "01:00:5e:00:00:01"}, []string{"01:00:5e:00:00:01"}},
		{"with a GUID that is none", devices.Want{PCI: nicVF0, GUID: "12"}, []string{"0011:2233:4455:6677"}},
		{"with a VLAN that is none", devices.Want{PCI: nicVF0, VLAN: 4095}, []string{"1 to 4094"}},
		{"with an address, when it is whole", devices.Want{PCI: gpu, MAC: testMAC}, []string{"only a virtual function"}},
		{"on Ethernet without an address", devices.Want{PCI: nicVF0}, []string{"needs a MAC address"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.must(f.CreateVFs(t.Context(), nic, 2))
			c.want.Guest = "g1"
			f.fails(f.Prepare(t.Context(), c.want), c.words...)
			f.is(c.want.PCI, devices.Free, "")
			f.driver(gpu, "")
		})
	}
}

func TestADeviceIsOneGuestsOnly(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.must(f.CreateVFs(ctx, nic, 2))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: gpu}))
	taken := func(err error) {
		t.Helper()
		if !errors.Is(err, devices.ErrTaken) {
			t.Errorf("got %v, want that it is another guest's", err)
		}
	}
	taken(f.Prepare(ctx, devices.Want{Guest: "g2", PCI: gpu}))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: pairA}))
	taken(f.Prepare(ctx, devices.Want{Guest: "g2", PCI: pairB}))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: pairB}))
	f.must(f.Release(ctx, gpu, "g2")) // it is not g2's: nothing happens
	f.is(gpu, devices.Prepared, "g1")
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: nicVF0, MAC: testMAC}))
	f.fails(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: nicVF0, MAC: otherMAC}), "release it first")
	f.must(f.kernel.Open(5, nicVF0))
	f.must(f.Release(ctx, gpu, "g1"))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g2", PCI: gpu}))
}

// TestADeviceWhoseNeighbourIsOpenIsPreparedAllTheSame: the group is open, and the device is not VFIO's yet.
func TestADeviceWhoseNeighbourIsOpenIsPreparedAllTheSame(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: pairA}))
	f.kernel.Fault = func(string) error { return errInjected }
	f.fails(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: pairB}), errInjected.Error())
	f.kernel.Fault = nil
	f.must(f.kernel.Open(1, pairA))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: pairB}))
	f.driver(pairB, "vfio-pci")
}

func TestAGuestGetsAllItsDevicesAndLosesThemTogether(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	for _, physical := range []string{nic, hca} {
		f.must(f.CreateVFs(ctx, physical, 2))
	}
	given := []inventory.Device{{PCI: gpu}, {PCI: nicVF0, Kind: "nic", Parent: nic}, {PCI: nicVF1, Kind: "nic", Parent: nic},
		{PCI: hcaVF0, Kind: "hca", Parent: hca}}
	f.must(f.PrepareAll(ctx, "g1", given, nil, nil))
	f.must(f.PrepareAll(ctx, "g1", given, nil, nil))
	if a, b := f.kernel.Settings(nicVF0)["mac"], f.kernel.Settings(nicVF1)["mac"]; a == b || !strings.HasPrefix(a, "06:") {
		t.Errorf("MACs %s and %s", a, b)
	}
	if guid, err := fabric.ParseGUID(f.kernel.Settings(hcaVF0)["port_guid"]); guid != fabric.GuestPort("g1", 0) {
		t.Errorf("GUID %s, %v", guid, err)
	}
	f.must(f.Prepare(ctx, devices.Want{Guest: "g2", PCI: tesla}))
	f.kernel.Deafen(gpu, true)
	f.fails(f.ReleaseAll(ctx, "g1"), "does not answer")
	f.is(gpu, devices.Lost, "g1")
	f.is(hcaVF0, devices.Free, "")
	f.is(tesla, devices.Prepared, "g2")
	f.kernel.Deafen(gpu, false)
	f.must(f.ReleaseAll(ctx, "g1"))
	f.is(gpu, devices.Free, "")
	f.fails(f.PrepareAll(ctx, "g1", []inventory.Device{{PCI: gpu, Host: "swap"}}, nil, nil), "the host needs it: swap")
}

func TestWhatSharesAGroupIsTakenFromTheHostAndGivenBack(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	given, withheld := []inventory.Device{{PCI: desktop}}, []inventory.Device{{PCI: sound}}
	f.must(f.PrepareAll(ctx, "g1", given, withheld, nil))
	f.driver(desktop, "vfio-pci")
	f.driver(sound, "vfio-pci")
	f.must(f.kernel.Open(9, desktop))
	f.must(f.PrepareAll(ctx, "g1", given, withheld, nil))
	f.is(sound, devices.Given, "g1")
	f.kernel.Exit(9)
	f.must(f.ReleaseAll(ctx, "g1"))
	f.driver(desktop, "")
	f.driver(sound, "snd_hda_intel")
	f.fails(f.PrepareAll(ctx, "g1", given, []inventory.Device{{PCI: sound, Host: "part of its board"}}, nil),
		"the host needs it: part of its board")
	f.must(f.ReleaseAll(ctx, "g1"))
	f.is(desktop, devices.Free, "")
	f.driver(sound, "snd_hda_intel")
}

func TestAProcessWithoutAGuestKeepsItsDevice(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.must(f.kernel.Write(ctx, "bus/pci/devices/"+gpu+"/driver_override", "vfio-pci"))
	f.must(f.kernel.Write(ctx, "bus/pci/drivers_probe", gpu))
	f.must(f.kernel.Open(4711, gpu))
	f.is(gpu, devices.Lost, "")
	if err := f.Prepare(ctx, devices.Want{Guest: "g1", PCI: gpu}); !errors.Is(err, devices.ErrHeld) {
		t.Errorf("prepared for a guest although process 4711 has it: %v", err)
	}
}

func TestADeviceThatDoesNotComeBackIsLostUntilItDoes(t *testing.T) {
	for _, c := range []struct {
		name        string
		spoil, mend func(*fixture)
		reason      string
	}{
		{"it does not answer", func(f *fixture) { f.kernel.Deafen(gpu, true) }, func(f *fixture) {
			f.kernel.Deafen(gpu, false)
		}, "does not answer"},
		{"its reset hangs", func(f *fixture) { f.kernel.Hang(gpu, true) }, func(f *fixture) {
			f.kernel.Hang(gpu, false)
		}, "has not done it after 20ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			ctx := t.Context()
			f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: gpu}))
			f.kernel.Use(gpu, "g1's")
			c.spoil(f)
			f.fails(f.Release(ctx, gpu, "g1"), c.reason)
			f.is(gpu, devices.Lost, "g1")
			f.fails(f.Prepare(ctx, devices.Want{Guest: "g2", PCI: gpu}), "could not be taken back from guest g1", c.reason)
			f.fails(f.Mend(ctx), c.reason)
			c.mend(f)
			f.must(f.Mend(ctx))
			f.is(gpu, devices.Free, "")
			f.must(f.Prepare(ctx, devices.Want{Guest: "g2", PCI: gpu}))
			if m := f.kernel.Marks(gpu); len(m) > 0 {
				t.Errorf("g2 finds %q", m)
			}
		})
	}
}

func TestACallThatIsCancelledLosesNoDevice(t *testing.T) {
	f := newFixture(t)
	f.must(f.Prepare(t.Context(), devices.Want{Guest: "g1", PCI: gpu}))
	f.kernel.Hang(gpu, true)
	ctx, cancel := context.WithCancel(t.Context())
	f.kernel.Fault = func(step string) error {
		if strings.HasSuffix(step, "/reset") {
			cancel()
		}
		return nil
	}
	f.fails(f.Release(ctx, gpu, "g1"), context.Canceled.Error())
	f.is(gpu, devices.Returned, "g1")
	f.kernel.Hang(gpu, false)
	f.must(f.Mend(t.Context()))
	f.is(gpu, devices.Free, "")
}

func TestFunctionsThatVanishAreTakenBackAllTheSame(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.must(f.CreateVFs(ctx, nic, 2))
	f.must(f.CreateVFs(ctx, ssd, 2))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: nicVF0, MAC: testMAC}))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: ssdVF0}))
	f.kernel.Use(ssdVF0, "g1's")
	f.kernel.Vanish(nic)
	f.kernel.Vanish(ssd)
	f.is(nicVF0, devices.Prepared, "g1")
	f.must(f.Release(ctx, nicVF0, "g1"))
	f.must(f.Release(ctx, ssdVF0, "g1"))
	f.must(f.CreateVFs(ctx, nic, 2))
	f.must(f.CreateVFs(ctx, ssd, 2))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g2", PCI: nicVF0, MAC: otherMAC}))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g2", PCI: ssdVF0}))
	if m := f.kernel.Marks(ssdVF0); len(m) > 0 {
		t.Errorf("g2 finds %q", m)
	}
}

func TestVirtualFunctionsComeAndGo(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.fails(f.CreateVFs(ctx, nic, 5), "0 to 4")
	f.fails(f.CreateVFs(ctx, gpu, 1), "offers no SR-IOV", "firmware")
	f.must(f.CreateVFs(ctx, nic, 2))
	f.must(f.CreateVFs(ctx, nic, 2))
	f.must(f.CreateVFs(ctx, nic, 3))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: nicVF1, MAC: testMAC}))
	f.must(f.CreateVFs(ctx, nic, 3))
	f.fails(f.CreateVFs(ctx, nic, 0), "guest g1 has "+nicVF1)
	f.must(f.Release(ctx, nicVF1, "g1"))
	f.must(f.CreateVFs(ctx, nic, 0))
	f.must(f.Prepare(ctx, devices.Want{Guest: "g2", PCI: nic}))
	f.fails(f.CreateVFs(ctx, nic, 1), "guest g2 has it whole")
}

func TestVirtualFunctionsThatTheHostUsesStay(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.must(f.kernel.Write(ctx, "bus/pci/devices/"+nic+"/sriov_numvfs", "2"))
	f.driver(nicVF0, "iavf")
	f.fails(f.CreateVFs(ctx, nic, 3), "iavf has "+nicVF0, "unbind")
}

func TestAnUnsafeResetIsNotUsed(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.must(f.Prepare(ctx, devices.Want{Guest: "g1", PCI: tesla}))
	f.must(f.Release(ctx, tesla, "g1"))
	if method, err := f.kernel.Read("bus/pci/devices/" + tesla + "/reset_method"); err != nil || method != "flr" {
		t.Errorf("it was reset by %q, %v", method, err)
	}
}

func TestOneProcessAtATimeMovesADevice(t *testing.T) {
	f := newFixture(t)
	second := newDriver(t, f.kernel, f.Options.Dir)
	ctx, cancel := context.WithCancel(t.Context())
	var other error
	f.kernel.Fault = func(step string) error {
		if strings.Contains(step, "driver_override") && ctx.Err() == nil { // the first is in the middle
			f.is(wholeSSD, devices.Prepared, "g1")
			cancel()
			other = second.Release(ctx, wholeSSD, "g1")
		}
		return nil
	}
	f.must(f.Prepare(t.Context(), devices.Want{Guest: "g1", PCI: wholeSSD}))
	f.fails(other, "another change of "+wholeSSD, context.Canceled.Error())
	f.driver(wholeSSD, "vfio-pci")
	f.must(second.Release(t.Context(), wholeSSD, "g1"))
	f.is(wholeSSD, devices.Free, "")
}

func TestARecordThatCannotBeWrittenStopsBeforeTheFirstStep(t *testing.T) {
	const full = "MUSTER_TEST_DISK_IS_FULL" // in a process of its own: what limits its files would limit those of all tests
	if os.Getenv(full) == "" {
		alone := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		alone.Env = append(os.Environ(), full+"=1")
		if out, err := alone.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	f := newFixture(t)
	f.kernel.Fault = func(step string) error { t.Errorf("the kernel was asked to %s", step); return nil }
	// As on a full disk, files can be made and nothing be written into them.
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: 0}); err != nil {
		t.Fatal(err)
	}
	f.fails(f.Prepare(t.Context(), devices.Want{Guest: "g1", PCI: gpu}), "record of device "+gpu)
	if _, err := os.Stat(filepath.Join(f.Options.Dir, gpu+".json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a record is there: %v", err)
	}
}
