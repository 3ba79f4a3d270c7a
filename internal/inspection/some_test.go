package inspection

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestADiskAmongOthersIsErasedByItsOwnAddresses(t *testing.T) {
	var names []string
	for _, m := range confined(ladder()) {
		names = append(names, m.name)
	}
	if got := strings.Join(names, ", "); got != "discard and zero, zero, overwrite" {
		t.Errorf("methods for a disk whose neighbours are in use: %s", got)
	}
}

func TestGuestsSleepOnDisksThatAreTheMachinesOwnAndNoGuestIsGiven(t *testing.T) {
	root := t.TempDir()
	for _, d := range []struct{ name, where, ro string }{
		{"sda", "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0", "0"},
		{"sdb", "pci0000:00/0000:00:17.0/ata2/host1/target1:0:0/1:0:0:0", "1"},
		{"sdc", "platform/host2/session1/target2:0:0/2:0:0:1", "0"},
		{"sdd", "pci0000:00/0000:03:00.0/host3/rport-3:0-0/target3:0:0/3:0:0:1", "0"},
		{"sde", "pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0/host4/target4:0:0/4:0:0:0", "0"},
		{"vda", "pci0000:00/0000:00:03.0/virtio1", "0"},
		{"nvme0n1", "pci0000:00/0000:04:00.0/nvme/nvme0", "0"},
	} {
		dir := filepath.Join(root, "sys/devices", d.where, "block", d.name)
		write(t, filepath.Join(dir, "size"), "1953125\n")
		write(t, filepath.Join(dir, "ro"), d.ro+"\n")
		must(t, os.MkdirAll(filepath.Join(root, "sys/block"), 0o755))
		must(t, os.Symlink(dir, filepath.Join(root, "sys/block", d.name)))
	}
	for i, alias := range []string{"pci:v00008086d0000A352sv00001028sd0000087Ebc01sc06i01",
		"pci:v0000144Dd0000A808sv0sd0bc01sc08i02", "pci:v000010DEd00002330sv0sd0bc03sc02i00"} {
		write(t, filepath.Join(root, "sys/bus/pci/devices", fmt.Sprintf("0000:0%d:00.0", i), "modalias"), alias+"\n")
	}
	tools := &listener{}
	var names []string
	for _, d := range SpareDisks(t.Context(), io.Discard, Options{Root: root, Tools: tools}) {
		names = append(names, d.Name)
	}
	if got := strings.Join(names, " "); got != "sda vda" {
		t.Errorf("disks for memory: %s", got)
	}
	if got := strings.Join(tools.heard, "; "); got != "modprobe -a -b -q pci:v00008086d0000A352sv00001028sd0000087Ebc01sc06i01" {
		t.Errorf("programs: %s", got)
	}
}

// listener is tools that do nothing and remember what was asked.
type listener struct{ heard []string }

func (l *listener) Run(_ context.Context, argv ...string) ([]byte, error) {
	l.heard = append(l.heard, strings.Join(argv, " "))
	return nil, nil
}
