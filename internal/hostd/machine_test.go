package hostd

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The folder of a hypervisor's guests is in its memory.
func TestConsolesAndLogsOfAHypervisorsGuestsKeepTheirLastWords(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: guests need root")
	}
	for _, program := range []string{"qemu-system-x86_64", "libvirtd"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("skipped: %s is not installed; scripts/setup.sh run installs it", program)
		}
	}
	if _, err := user.Lookup("libvirt-qemu"); err != nil {
		t.Skip("skipped: there is no user libvirt-qemu; scripts/setup.sh run makes it")
	}
	dir := filepath.Join(t.TempDir(), "host")
	var paths []string
	for _, name := range []string{"guests/c1.node-1/1/console.log", "libvirt/log/qemu/c1.node-1.1.log"} {
		path := filepath.Join(dir, "guests", name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o700))
		check(t, os.WriteFile(path, bytes.Repeat([]byte("x"), 20<<20), 0o600))
		paths = append(paths, path)
	}
	m := Machine{Dir: dir, Server: "http://127.0.0.1:1", Binary: "/bin/true", Accel: "tcg", Console: io.Discard}
	if o := m.Options(t.Context()); o.Trouble != "" {
		t.Fatal(o.Trouble)
	}
	const most = 8 << 20 // beyond it a file is cut
	for _, path := range paths {
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			var info unix.Stat_t
			check(t, unix.Stat(path, &info))
			if info.Blocks*512 <= most {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s takes %d MiB", path, info.Blocks*512>>20)
			}
		}
	}
}

func TestKVMIsSharedWithQEMUsGroup(t *testing.T) {
	group, err := user.LookupGroup("kvm")
	if err != nil || os.Geteuid() != 0 {
		t.Skipf("skipped: needs root and a group kvm (%v); scripts/setup.sh run makes it", err)
	}
	device := filepath.Join(t.TempDir(), "kvm")
	none := shareKVM(device)
	var seen unix.Stat_t
	if err := errors.Join(none, os.WriteFile(device, nil, 0o600), shareKVM(device), unix.Stat(device, &seen)); err != nil {
		t.Fatal(err)
	}
	if strconv.Itoa(int(seen.Gid)) != group.Gid || seen.Mode&0o777 != 0o660 {
		t.Errorf("it is of group %d, mode %o", seen.Gid, seen.Mode)
	}
}
