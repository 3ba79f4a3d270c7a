package drivers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/drivers"
	"muster/internal/drivers/power/powertest"
	"muster/internal/drivers/power/powertest/toy"
	"muster/internal/inventory"
)

// TestANewPowerControlIsAFolderAndALine: toy's folder, and a line in a copy of the list.
func TestANewPowerControlIsAFolderAndALine(t *testing.T) {
	all := append(drivers.Power(),
		toy.Factory(),
	)
	powertest.Test(t, toy.Factory(), func(t *testing.T) powertest.Peer {
		folder, silent := t.TempDir(), t.TempDir()
		powertest.Write(t, filepath.Join(silent, "silent"), 0o600, "")
		return powertest.Peer{
			Target: powertest.Target("", "toy:"+folder, ""), Dead: powertest.Target("", "toy:"+silent, ""),
			Boots: func() error { _, err := os.Stat(filepath.Join(folder, "network")); return err },
		}
	})
	if err := all.Validate(inventory.Power{Control: "toy:/srv/m1"}); err != nil {
		t.Error(err)
	}
	if err := all.Validate(inventory.Power{Control: "toy:/srv/m1", Credentials: "env:BMC"}); err == nil ||
		!strings.Contains(err.Error(), "a toy has none") {
		t.Error(err)
	}
	if _, err := all.Parse("toi"); err == nil || !strings.Contains(err.Error(), "command:PROGRAM or toy:FOLDER") {
		t.Error(err)
	}
	if !strings.Contains(all.Help(), "toy:FOLDER                   a machine that is a file") || !all.Capabilities("toy:/srv/m1").
		SwitchesOff {
		t.Error(all.Help())
	}
}
