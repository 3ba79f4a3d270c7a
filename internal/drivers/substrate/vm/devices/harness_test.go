package devices_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/drivers/substrate/vm/devices/fake"
)

// Addresses of the machine in these tests.
const (
	nic      = "0000:3b:00.0"
	nicVF0   = "0000:3b:00.1"
	nicVF1   = "0000:3b:00.2"
	hca      = "0000:5e:00.0"
	hcaVF0   = "0000:5e:00.1"
	ssd      = "0000:81:00.0"
	ssdVF0   = "0000:81:00.1"
	ssdVF1   = "0000:81:00.2"
	wholeSSD = "0000:82:00.0"
	gpu      = "0000:17:00.0"
	pairA    = "0000:a1:00.0" // two GPUs that share a group with a bridge
	pairB    = "0000:a2:00.0"
	desktop  = "0000:b1:00.0" // a GPU whose sound the host has
	sound    = "0000:b1:00.1"
	unreset  = "0000:b2:00.0"
	noIOMMU  = "0000:b3:00.0"
	tesla    = "0000:b4:00.0" // a T4, which no bus reset survives
	radeon   = "0000:b5:00.0" // an MI50 without the module that resets it
)

// newKernel is a machine with a device of each kind.
func newKernel() *fake.Kernel {
	const gpuClass, hcaClass, nicClass, nvmeClass = 0x0302, 0x0207, 0x0200, 0x0108
	return fake.New(
		fake.Function{Address: nic, Group: "20", Class: nicClass, Vendor: "8086", ID: "1592", Driver: "ice", Methods: "flr bus",
			VFs: 4, VFDriver: "iavf", Link: "ens1"},
		fake.Function{Address: hca, Group: "21", Class: hcaClass, Vendor: "15b3", ID: "101b", Driver: "mlx5_core", Methods: "flr",
			VFs: 4, VFDriver: "mlx5_core", Link: "ib0", InfiniBand: true},
		fake.Function{Address: ssd, Group: "22", Class: nvmeClass, Vendor: "144d", ID: "a824", Driver: "nvme", Methods: "flr",
			VFs: 4, VFDriver: "nvme", NVMe: "nvme0", Namespaces: 2},
		fake.Function{Address: wholeSSD, Group: "23", Class: nvmeClass, Vendor: "8086", ID: "0a54", Driver: "nvme",
			Methods: "flr bus", NVMe: "nvme1", Namespaces: 1},
		fake.Function{Address: gpu, Group: "24", Class: gpuClass, Vendor: "10de", ID: "2330", Methods: "flr bus"},
		fake.Function{Address: pairA, Group: "25", Class: gpuClass, Vendor: "10de", ID: "20b5", Methods: "flr"},
		fake.Function{Address: pairB, Group: "25", Class: gpuClass, Vendor: "10de", ID: "20b5", Methods: "flr"},
		fake.Function{Address: "0000:a0:00.0", Group: "25", Class: 0x0604, Vendor: "1000", ID: "c010", Driver: "pcieport"},
		fake.Function{Address: desktop, Group: "26", Class: 0x0300, Vendor: "10de", ID: "2204", Methods: "bus"},
		fake.Function{Address: sound, Group: "26", Class: 0x0403, Vendor: "10de", ID: "1aef", Driver: "snd_hda_intel"},
		fake.Function{Address: unreset, Group: "27", Class: gpuClass, Vendor: "10de", ID: "1db6"},
		fake.Function{Address: noIOMMU, Class: gpuClass, Vendor: "10de", ID: "1db6", Methods: "flr"},
		fake.Function{Address: tesla, Group: "28", Class: gpuClass, Vendor: "10de", ID: "1eb8", Methods: "bus flr"},
		fake.Function{Address: radeon, Group: "29", Class: gpuClass, Vendor: "1002", ID: "66a1", Methods: "bus"},
	)
}

// newDriver works on the fake with records in dir, and never waits for long.
func newDriver(t interface {
	Helper()
	Fatal(...any)
}, k *fake.Kernel, dir string) *devices.Driver {
	t.Helper()
	d, err := devices.New(devices.Options{Kernel: k, Links: k, Tools: k, Eraser: k, Dir: dir, Patience: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fixture is a machine with its driver.
type fixture struct {
	*testing.T
	kernel *fake.Kernel
	*devices.Driver
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	k := newKernel()
	d := newDriver(t, k, t.TempDir())
	return &fixture{T: t, kernel: k, Driver: d}
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// fails wants an error with some words in it.
func (f *fixture) fails(err error, words ...string) {
	f.Helper()
	if err == nil {
		f.Fatalf("no error; want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			f.Errorf("error %q lacks %q", err, w)
		}
	}
}

// is wants a device in a state, for a guest.
func (f *fixture) is(address string, state devices.State, guest string) {
	f.Helper()
	all, err := f.List()
	f.must(err)
	got := devices.Status{State: devices.Free}
	for _, s := range all {
		if s.PCI == address {
			got = s
		}
	}
	if got.State != state || got.Guest != guest {
		f.Errorf("device %s is %s for %q (%s), want %s for %q", address, got.State, got.Guest, got.Reason, state, guest)
	}
}

// driver wants a device with a driver; "" for none.
func (f *fixture) driver(address, want string) {
	f.Helper()
	if got, _ := f.kernel.Read("bus/pci/devices/" + address + "/driver"); got != want {
		f.Errorf("driver of %s is %q, want %q", address, got, want)
	}
}

// fastDir is a folder in memory where there is one: the driver writes through to the disk.
func fastDir(t interface{ Fatal(...any) }) string {
	dir, err := os.MkdirTemp("/dev/shm", "devices-test-")
	if err != nil {
		dir, err = os.MkdirTemp("", "devices-test-")
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
