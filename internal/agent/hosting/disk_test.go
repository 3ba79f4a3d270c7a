package hosting

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/inventory"
)

func TestMemoryGoesToTheLargestOfTheFastDisks(t *testing.T) {
	hdd, small, large, same := inventory.Disk{Name: "sda", Kind: "hdd", SizeGB: 8000}, inventory.Disk{Name: "sdb", Kind: "ssd", SizeGB: 240},
		inventory.Disk{Name: "sdc", Kind: "ssd", SizeGB: 960}, inventory.Disk{Name: "vda", Kind: "virtual", SizeGB: 960}
	for want, disks := range map[string][]inventory.Disk{"sdc": {hdd, small, large, same}, "sda": {hdd}, "vda": {hdd, same, small}} {
		if got, found := spare(disks); !found || got.Name != want {
			t.Errorf("of %v it is %s, not %s", disks, got.Name, want)
		}
	}
	if got, found := spare(nil); found {
		t.Errorf("of none it is %s", got.Name)
	}
}

// failing is tools of which every one is missing.
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
	if err := layDisk(t.Context(), failing{}, "/dev/none", at); err == nil || !strings.Contains(err.Error(), "not found in $PATH") {
		t.Error(err)
	}
	var console bytes.Buffer
	if there, err := mounted("/proc"); !there || err != nil || makeBed(t.Context(), failing{}, &console, "/proc") != "" || console.Len() > 0 {
		t.Errorf("what is mounted already is made ready once more: %v %q", err, console.String())
	}
}
