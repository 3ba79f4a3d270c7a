package hostd

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/inventory"
)

func TestMemoryGoesToTheLargestOfTheFastDisks(t *testing.T) {
	hdd, small, large, same := inventory.Disk{Name: "sda", Kind: "hdd", SizeGB: 8000},
		inventory.Disk{Name: "sdb", Kind: "ssd", SizeGB: 240},
		inventory.Disk{Name: "sdc", Kind: "ssd", SizeGB: 960}, inventory.Disk{Name: "vda", Kind: "virtual", SizeGB: 960}
	for want, disks := range map[string][]inventory.Disk{"sdc": {hdd, small, large, same}, "sda": {hdd},
		"vda": {hdd, same, small}} {
		if got, found := spare(disks); !found || got.Name != want {
			t.Errorf("of %v it is %s, not %s", disks, got.Name, want)
		}
	}
	if got, found := spare(nil); found {
		t.Errorf("of none it is %s", got.Name)
	}
}

func TestADiskThatIsMadeReadyIsEmptyAndIsNotMadeReadyTwice(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: to mount a disk needs root")
	}
	for _, program := range []string{"losetup", "mkfs.ext4"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("skipped: %s is not installed", program)
		}
	}
	dir, tools := t.TempDir(), devices.HostTools{}
	image, at := filepath.Join(dir, "disk"), filepath.Join(dir, "memory")
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, 64<<20))
	device, err := tools.Run(t.Context(), "losetup", "--find", "--show", image)
	if err != nil {
		t.Skipf("skipped: this host lends no disk: %v", err)
	}
	name := strings.TrimSpace(string(device))
	t.Cleanup(func() {
		_, err := tools.Run(context.Background(), "losetup", "-d", name)
		check(t, err)
	})
	if there, err := mounted(at); there || err != nil {
		t.Fatalf("a new folder is a mount: %v %v", there, err)
	}
	check(t, layDisk(t.Context(), tools, name, at))
	t.Cleanup(func() { check(t, unix.Unmount(at, 0)) })
	if there, err := mounted(at); !there || err != nil {
		t.Errorf("a disk that is mounted is none: %v", err)
	}
	var disk unix.Statfs_t
	check(t, unix.Statfs(at, &disk))
	if free := int64(disk.Bavail) * disk.Bsize >> 20; free < 40 || free > 64 {
		t.Errorf("of 64 MiB %d are free", free)
	}
	check(t, os.WriteFile(filepath.Join(at, "c.n.1.memory"), []byte("memory"), 0o600))
	var console bytes.Buffer
	if why := mountMemoryDisk(t.Context(), failing{}, &console, at); why != "" { // as the next agent does
		t.Error(why)
	}
	if text, err := os.ReadFile(filepath.Join(at, "c.n.1.memory")); string(text) != "memory" {
		t.Errorf("what sleeps there is lost: %q %v", text, err)
	}
}

// failing is a set of tools that are all missing.
type failing struct{}

func (failing) Run(context.Context, ...string) ([]byte, error) {
	return nil, errors.New("executable file not found in $PATH")
}

func TestADiskThatCannotBeMadeReadyIsLeftAlone(t *testing.T) {
	at := filepath.Join(t.TempDir(), "memory")
	there, err := mounted(at)
	if there || err != nil {
		t.Errorf("a new folder is a mount: %v %v", there, err)
	}
	if info, err := os.Stat(at); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("%v %v", info, err)
	}
	if err := layDisk(t.Context(), failing{}, "/dev/none", at); err == nil ||
		!strings.Contains(err.Error(), "not found in $PATH") {
		t.Error(err)
	}
	var console bytes.Buffer
	if there, err := mounted("/proc"); !there || err != nil || mountMemoryDisk(t.Context(), failing{}, &console, "/proc") != "" ||
		console.Len() > 0 {
		t.Errorf("what is mounted already is made ready once more: %v %q", err, console.String())
	}
}
