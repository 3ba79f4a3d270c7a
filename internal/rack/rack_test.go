package rack

import (
	"bytes"
	"encoding/csv"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"muster/internal/inventory"
)

var update = flag.Bool("update", false, "write golden files again")

// golden compares with a file in testdata.
func golden(t *testing.T, name, have string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), have); diff != "" {
		t.Errorf("%s (go test -update writes it again):\n%s", path, diff)
	}
}

func small(machines int) Shape {
	return Shape{
		Name: "rack", Machines: machines, Firmware: Mixed, Power: Mixed, CPUs: 1, MemoryMiB: 256,
		Disks: 1, DiskMiB: 64, DiskKind: Virtio, NICs: 1, Accel: TCG,
	}
}

func TestMixedIsByTurns(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range small(6).Plan() {
		seen[m.Firmware+" "+m.Power] = true
		if m.BMC.IsValid() != (m.Power != WoL) {
			t.Errorf("%s: %s with a BMC at %v", m.Name, m.Power, m.BMC)
		}
	}
	if len(seen) != 6 {
		t.Errorf("six machines are of only %d kinds: %v", len(seen), seen)
	}
}

func TestEveryNICHasItsOwnMAC(t *testing.T) {
	s := small(most)
	s.NICs = 8
	seen := map[string]bool{}
	for _, m := range s.Plan() {
		for _, mac := range m.MACs {
			seen[mac] = true
		}
	}
	if len(seen) != most*8 {
		t.Errorf("%d machines with 8 NICs have %d MACs", most, len(seen))
	}
}

func TestTheListIsWhatAnOperatorImports(t *testing.T) {
	s := small(3)
	s.NICs = 2
	text := List("rack", "/srv/rack/bmc.credentials", strings.Repeat("ab", 32), s.Plan())
	golden(t, "rack.csv", string(text))
	if rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll(); err != nil || len(rows) != 4 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

func TestTheNetworkIsOneThatAControllerTakes(t *testing.T) {
	n := Folder("/srv/rack").Network("rack")
	if err := n.Validate(); err != nil || n.Mode != inventory.ModeOwn || n.Namespace != "/srv/rack/netns" {
		t.Error(n, err)
	}
}

func TestAShapeThatMakesNoSenseIsToldWithWhatWould(t *testing.T) {
	for want, spoil := range map[string]func(*Shape){
		"machines: 0; use 1 to 250":                            func(s *Shape) { s.Machines = 0 },
		`firmware: "coreboot"; use bios, uefi, mixed`:          func(s *Shape) { s.Firmware = "coreboot" },
		`power: ""; use wol, ipmi, redfish, mixed`:             func(s *Shape) { s.Power = "" },
		"memory (MiB): 1; use 64 to 1048576":                   func(s *Shape) { s.MemoryMiB = 1 },
		`disk kind: "floppy"; use virtio, nvme`:                func(s *Shape) { s.DiskKind = "floppy" },
		`name: "Rack/1"; use lower-case letters, digits and -`: func(s *Shape) { s.Name = "Rack/1" },
		"nics: 9; use 1 to 8":                                  func(s *Shape) { s.NICs = 9 },
	} {
		s := small(1)
		spoil(&s)
		if err := s.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want %s, have %v", want, err)
		}
	}
}

func TestAConsoleIsReadFromItsLastStart(t *testing.T) {
	rack := Folder(t.TempDir())
	if _, err := rack.writeShape(small(1)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(rack.Machine("rack-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	var have bytes.Buffer
	if err := rack.Console(t.Context(), "rack-1", false, &have); err != nil || have.Len() > 0 {
		t.Errorf("a machine that never was on: %q, %v", have.String(), err)
	}
	if err := os.WriteFile(rack.ConsoleLog("rack-1"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rack.Console(t.Context(), "rack-1", false, &have); err != nil || have.String() != "hello" {
		t.Errorf("%q, %v", have.String(), err)
	}
}

func TestAForeignFolderIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Folder(dir).Up(t.Context(), small(1), []string{"false"}); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	if err := Folder(dir).Down(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "thesis.txt")); err != nil {
		t.Error(err)
	}
}

func TestARackThatDoesNotComeUpSaysWhyAndLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	_, err := Folder(dir).Up(t.Context(), small(1), []string{"sh", "-c", "echo 'error: no luck' >&2; exit 1"})
	if err == nil || err.Error() != "the rack did not come up: no luck" {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("its folder is left")
	}
}
