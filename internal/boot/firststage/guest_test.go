package firststage

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/protocol"
)

func TestAPlanInTheInitramfsMakesAGuest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.json")
	if _, guest, err := guestPlan(path); guest || err != nil {
		t.Errorf("without a plan: guest %v, %v", guest, err)
	}
	good := goodPlan()
	good.Boot.Attachment = &protocol.Attachment{MAC: "02:4d:00:01:01:01"}
	text, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"good", string(text), ""},
		{"without a network", strings.Replace(string(text), `"attachment"`, `"x"`, 1), "names no network"},
		{"cut short", string(text[:len(text)-1]), "plan in the initramfs"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		plan, guest, err := guestPlan(path)
		switch {
		case !guest:
			t.Errorf("%s: no guest", c.name)
		case c.want == "" && (err != nil || plan.Boot.Attachment.MAC != "02:4d:00:01:01:01"):
			t.Errorf("%s: %+v, %v", c.name, plan, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want an error about %s", c.name, err, c.want)
		}
	}
}

func TestADiskIsKnownByItsSerial(t *testing.T) {
	sys := t.TempDir()
	for disk, serial := range map[string]string{"vda": "muster-agent\n", "vdb": "muster-root", "vdc": ""} {
		dir := filepath.Join(sys, "block", disk)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "serial"), []byte(serial), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := &hardware{sys: sys, console: console{io.Discard}}
	for serial, want := range map[string]string{protocol.GuestRoot: "/dev/vdb", protocol.GuestAgent: "/dev/vda"} {
		if got, err := h.awaitSerial(t.Context(), serial); got != want || err != nil {
			t.Errorf("%s is %s, %v; want %s", serial, got, err, want)
		}
	}
}
