package rackd

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/rack"
)

var update = flag.Bool("update", false, "write the golden file again")

func small(machines int) rack.Shape {
	return rack.Shape{
		Name: "rack", Machines: machines, Firmware: rack.Mixed, Power: rack.Mixed, CPUs: 1, MemoryMiB: 256,
		Disks: 1, DiskMiB: 64, DiskKind: rack.Virtio, NICs: 1, Accel: rack.TCG,
	}
}

func TestQEMUIsStartedWithTheseArguments(t *testing.T) {
	var text strings.Builder
	for _, firmware := range []string{rack.BIOS, rack.UEFI} {
		for _, kind := range []string{rack.Virtio, rack.NVMe} {
			for _, first := range []order{"", diskFirst} {
				s := small(1)
				s.Firmware, s.DiskKind, s.NICs = firmware, kind, 2
				v := virtual{
					Machine: s.Plan()[0], shape: s, accel: emulation(), first: first,
					disks: []string{"/r/disk0.raw", "/r/disk1.raw"},
					vars:  "/r/uefi-vars.fd", monitor: 3, taps: []int{4, 5}, console: "/r/a,b/console.log",
				}
				text.WriteString(strings.Join([]string{"#", firmware, kind, "first:", string(first)}, " "))
				for _, word := range v.arguments() {
					if strings.HasPrefix(word, "-") {
						text.WriteString("\n" + word)
					} else {
						text.WriteString(" " + word)
					}
				}
				text.WriteString("\n\n")
			}
		}
	}
	const path = "testdata/arguments.txt"
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("%s (go test -update writes it again):\n%s", path, diff)
	}
}
