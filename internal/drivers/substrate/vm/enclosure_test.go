package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/internal/drivers/substrate"
)

// wantEnclosed looks at a QEMU from outside.
func (w fixture) wantEnclosed(t *testing.T, pid int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check(t, err)
	fields := map[string]string{}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	user := strconv.Itoa(firstUser)
	for name, want := range map[string]string{
		"Uid": strings.Join([]string{user, user, user, user}, "\t"), "Seccomp": "2", "NoNewPrivs": "1",
		"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapAmb": "0000000000000000",
	} {
		if fields[name] != want {
			t.Errorf("QEMU has %s %q, want %q", name, fields[name], want)
		}
	}
	p, _ := w.libvirt()
	for _, kind := range []string{"mnt", "net"} {
		own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
		check(t, err)
		hosts, err := os.Readlink("/proc/self/ns/" + kind)
		check(t, err)
		libvirts, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", p.PID, kind))
		check(t, err)
		if own == hosts || kind == "mnt" && own == libvirts {
			t.Errorf("QEMU is in the %s namespace of the host or of libvirt", kind)
		}
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	check(t, err)
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	check(t, err)
	if strings.Contains(string(text)+string(environment), "secret-of-the-boot") {
		t.Error("the token is in QEMU's arguments or environment")
	}
	interfaces, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", pid))
	check(t, err)
	if found := regexp.MustCompile(`(?m)^ *(\S+):`).FindAllStringSubmatch(string(interfaces), -1); len(found) != 1 ||
		found[0][1] != "lo" {
		t.Errorf("QEMU's network namespace has interfaces beside lo: %q", found)
	}
	w.wantRoot(t, pid)
	w.wantFiles(t, pid)
	w.wantBounds(t, pid)
}

// wantRoot wants QEMU to see what it needs, and nothing else of the host.
func (w fixture) wantRoot(t *testing.T, pid int) {
	t.Helper()
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	check(t, err)
	// What is mounted, and whether it may be written: see layOut. libvirt lays a /dev of its own over ours.
	known := map[string]string{
		"/": "ro", "/bin": "ro", "/sbin": "ro", "/usr": "ro", "/lib": "ro", "/lib32": "ro", "/lib64": "ro", "/libx32": "ro",
		"/sys": "ro", "/proc": "rw",
		"/dev": "rw", "/dev/pts": "rw", "/etc/libvirt": "rw", "/var/lib/libvirt": "rw", "/var/cache/libvirt": "rw",
		"/var/log/libvirt": "rw",
		"/run/libvirt":     "rw", insideGuests: "rw",
	}
	for _, size := range hugePageSizes() {
		known[insideHuge+"/"+size] = "rw"
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		words := strings.Fields(line)
		at, options := words[4], words[5]
		seen[at] = true
		if how, ok := known[at]; !ok || !strings.HasPrefix(options, how) {
			t.Errorf("QEMU has a mount that it should not have: %s", line)
		}
		if at == "/proc" && !strings.Contains(line, "hidepid=") {
			t.Errorf("QEMU sees all processes: %s", line)
		}
	}
	for _, at := range []string{"/", "/usr", "/proc", "/sys", "/dev", insideGuests} {
		if !seen[at] {
			t.Errorf("QEMU has no mount at %s", at)
		}
	}
	for folder, most := range map[string]string{
		"/":    "bin dev etc lib lib32 lib64 libx32 proc run sbin sys usr var",
		"/etc": "group ld.so.cache libvirt passwd",
		"/run": "libvirt muster",
		"/dev": "full kvm net null ptmx pts random shm mqueue tty urandom vfio vhost-net zero",
	} {
		there, err := os.ReadDir(fmt.Sprintf("/proc/%d/root%s", pid, folder))
		check(t, err)
		for _, entry := range there {
			if !slices.Contains(strings.Fields(most), entry.Name()) {
				t.Errorf("QEMU sees %s", filepath.Join(folder, entry.Name()))
			}
		}
	}
}

// wantFiles wants QEMU to have few files open, and none of the host's but its own.
func (w fixture) wantFiles(t *testing.T, pid int) {
	t.Helper()
	const most = 80
	open := glob(t, fmt.Sprintf("/proc/%d/fd/*", pid))
	if len(open) == 0 || len(open) > most {
		t.Errorf("QEMU has %d files open", len(open))
	}
	own := regexp.MustCompile(`^(socket:|pipe:|anon_inode:|/memfd:|/dev/(null|urandom|net/tun|vhost-net|kvm|ptmx|vfio/.*)$|/run/(muster/guests|libvirt)/|/var/(lib|log)/libvirt/)`)
	for _, fd := range open {
		if target, err := os.Readlink(fd); err == nil && !own.MatchString(target) {
			t.Errorf("QEMU has %s open", target)
		}
	}
}

// wantBounds wants QEMU in a control group of its own, where this host lets one be made.
func (w fixture) wantBounds(t *testing.T, pid int) {
	t.Helper()
	if !w.cgroups.Memory {
		t.Log("what QEMU takes is not limited: this host lets no control groups be made")
		return
	}
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	check(t, err)
	found := regexp.MustCompile(`(?m):(?:|[^:]*,)memory[^:]*:/(.*)$|^0::/(.+)$`).FindStringSubmatch(string(groups))
	if found == nil || !strings.Contains(found[0], w.cgroups.Path("")) {
		t.Fatalf("QEMU is in the control groups %s", groups)
	}
	_, name, _ := strings.Cut(found[0], w.cgroups.Path(""))
	end := strings.LastIndex(name, ".")
	p, _, err := boot{dir: filepath.Join(w.guests(), name[:end], name[end+1:])}.part()
	check(t, err)
	memory := memoryMiB(substrate.Node{Allocation: &p.Allocation})
	if got, want := w.cgroups.Limits(name).Memory, fmt.Sprintf("%d MiB", memory+memory/tables+ownMiB+emulatorMiB); memory == 0 ||
		got != want {
		t.Errorf("QEMU's memory is limited to %s, want %s", got, want)
	}
}
