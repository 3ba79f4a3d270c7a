package firststage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/boot/initramfs"
	"muster/internal/kit/testall"
	"muster/internal/protocol"
)

const testMAC = "52:54:00:00:00:01"

// machine is a QEMU machine that boots the first stage, and the controller that it talks to.
type machine struct {
	testing.TB
	dir, kernel, initramfs string
	more                   []string // arguments of QEMU
	plan                   protocol.Plan
	files                  map[string]string // digest → path

	mu    sync.Mutex
	steps []protocol.BootProgress
	proof string
}

// image is the folder of an image with a kernel, out of those that `make image` builds.
func image(t testing.TB, name string) string {
	t.Helper()
	store := os.Getenv("MUSTER_TEST_IMAGES")
	if store == "" {
		store = "../../../build/images"
	}
	dir, err := filepath.Abs(filepath.Join(store, name, "latest"))
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "vmlinuz"))
	}
	if err != nil {
		t.Skipf("no machine is booted: image %s is not there with a kernel; `make image` builds it", name)
	}
	for _, program := range []string{"qemu-system-x86_64", "mksquashfs"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no machine is booted: %s is missing; scripts/setup.sh test installs it", program)
		}
	}
	return dir
}

func newMachine(t testing.TB, image string) *machine {
	t.Helper()
	m := &machine{TB: t, dir: t.TempDir(), kernel: filepath.Join(image, "vmlinuz"), files: map[string]string{}}
	build := func(out, what string) []byte {
		path := filepath.Join(m.dir, out)
		c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, what)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := c.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", what, err, said)
		}
		program, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return program
	}
	first, err := initramfs.Pack(build("init", "muster/cmd/muster-init"))
	if err != nil {
		t.Fatal(err)
	}
	drivers, err := os.ReadFile(filepath.Join(image, "drivers.cpio.zst"))
	if err != nil {
		t.Fatal(err)
	}
	// Debian 13's drivers are a sixth larger than those of Debian 12.
	if sum := len(first) + len(drivers); sum >= 9e6 {
		t.Errorf("first stage and drivers are %d bytes; 9 MB are what a slow TFTP or a small machine bears", sum)
	}
	m.initramfs = filepath.Join(m.dir, "initramfs")
	m.write(m.initramfs, append(first, drivers...))
	build("agent", "./testdata/agent")
	m.plan = protocol.Plan{
		Agent: m.blob(filepath.Join(m.dir, "agent")),
		Boot:  protocol.BootFile{Node: "n1", Name: "metal-1", Boot: 7, Endpoints: []string{"https://10.0.2.2:1"}},
	}
	return m
}

func (m *machine) write(path string, content []byte) {
	m.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		m.Fatal(err)
	}
}

// blob offers a file.
func (m *machine) blob(path string) protocol.Blob {
	m.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		m.Fatal(err)
	}
	sum := sha256.Sum256(content)
	b := protocol.Blob{Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(content))}
	m.files[b.Digest] = path
	return b
}

// smallRoot makes a root with nothing but folders.
func (m *machine) smallRoot() protocol.Blob {
	m.Helper()
	root, out := filepath.Join(m.dir, "root"), filepath.Join(m.dir, "root.squashfs")
	for _, dir := range []string{"proc", "sys", "dev", "run", "var", "etc", "usr/local/sbin"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			m.Fatal(err)
		}
	}
	m.write(filepath.Join(root, "etc/marker"), []byte("of the image"))
	if said, err := exec.Command("mksquashfs", root, out, "-noappend", "-no-progress", "-quiet", "-comp", "zstd").
		CombinedOutput(); err != nil {
		m.Fatalf("mksquashfs: %v\n%s", err, said)
	}
	return m.blob(out)
}

// rootWithExt4 makes a root of what an image has for ext4.
func (m *machine) rootWithExt4(image string) protocol.Blob {
	m.Helper()
	paths := []string{
		"bin", "sbin", "lib", "lib64", "usr/lib64", "usr/sbin/mke2fs", "usr/sbin/mkfs.ext4", "etc/mke2fs.conf",
		"usr/lib/modules/*/modules.dep", "usr/lib/modules/*/modules.softdep", "usr/lib/modules/*/kernel/fs/ext4",
		"usr/lib/modules/*/kernel/fs/jbd2",
		"usr/lib/modules/*/kernel/fs/mbcache.ko*", "usr/lib/modules/*/kernel/lib", "usr/lib/modules/*/kernel/crypto",
		"usr/lib/modules/*/kernel/arch/x86/crypto/crc*",
	}
	for _, library := range []string{"ext2fs", "com_err", "blkid", "uuid", "e2p", "c"} {
		paths = append(paths, "usr/lib/*/lib"+library+".so.*")
	}
	paths = append(paths, "usr/lib/*/ld-linux-*")
	args := append([]string{"-no-progress", "-quiet", "-dest", filepath.Join(m.dir, "root"),
		filepath.Join(image, "root.squashfs")}, paths...)
	if said, err := exec.Command("unsquashfs", args...).CombinedOutput(); err != nil {
		m.Fatalf("unsquashfs: %v\n%s", err, said)
	}
	lists, err := filepath.Glob(filepath.Join(m.dir, "root/usr/lib/modules/*/modules.dep"))
	if err != nil || len(lists) != 1 {
		m.Fatalf("the image has the modules of %q, %v", lists, err)
	}
	// What ext4 asks for; the drivers of devices are not in this root.
	m.write(filepath.Join(filepath.Dir(lists[0]), "modules.alias"), []byte("alias crypto-crc32c crc32c_generic\n"))
	return m.smallRoot()
}

func (m *machine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	digest, blob := strings.CutPrefix(r.URL.Path, protocol.BlobPath)
	switch {
	case r.URL.Path == protocol.PlanPath && r.URL.Query().Get("mac") == testMAC:
		_ = json.NewEncoder(w).Encode(m.plan)
	case blob && m.files[digest] != "":
		http.ServeFile(w, r, m.files[digest])
	case r.URL.Path == protocol.ProgressPath:
		var p protocol.BootProgress
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.steps, m.proof = append(m.steps, p), r.Header.Get("Authorization")
	default:
		http.NotFound(w, r)
	}
}

// boot runs the machine until it is off, and returns its console.
func (m *machine) boot(arguments string) string {
	m.Helper()
	controller := httptest.NewServer(m)
	defer controller.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(controller.URL, "http://"), ":")
	m.mu.Lock()
	m.steps, m.proof = nil, ""
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(m.Context(), 3*time.Minute)
	defer cancel()
	start := time.Now()
	line := "console=ttyS0 quiet panic=-1 muster.server=http://10.0.2.2:" + port + " muster.mac=" + testMAC + " " + arguments
	qemu := exec.CommandContext(ctx, "qemu-system-x86_64", append([]string{
		"-M", "q35", "-accel", "tcg", "-cpu", "qemu64", "-smp", "1", "-m", "512", "-nodefaults", "-display", "none", "-vga",
		"none",
		"-serial", "stdio", "-no-reboot", "-kernel", m.kernel, "-initrd", m.initramfs, "-append", line,
		"-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0,romfile=,mac=" + testMAC,
	}, m.more...)...)
	out, err := qemu.CombinedOutput()
	m.Logf("%.1f s\n%s", time.Since(start).Seconds(), out)
	if err != nil {
		m.Fatalf("qemu: %v", err)
	}
	return string(out)
}

// view is what the agent's stand-in found.
type view struct {
	PID    int      `json:"pid"`
	Args   []string `json:"args"`
	Mounts []string `json:"mounts"`
	Root   []string `json:"root"`
	Marker string   `json:"marker"`
	Stay   string   `json:"stay"`
	Write  string   `json:"write"`
	Boot   struct {
		Mode string            `json:"mode"`
		Text protocol.BootFile `json:"text"`
	} `json:"/run/muster/boot.json"`
	Network struct {
		Text protocol.BootNetwork `json:"text"`
	} `json:"/run/muster/network.json"`
}

func (m *machine) view(console string) view {
	m.Helper()
	found := regexp.MustCompile(`(?m)^VIEW (\{.*\}) <nil>\r?$`).FindStringSubmatch(console)
	if found == nil {
		m.Fatal("the agent did not run")
	}
	var v view
	if err := json.Unmarshal([]byte(found[1]), &v); err != nil {
		m.Fatal(err)
	}
	return v
}

// damage changes one byte of a file.
func (m *machine) damage(path string, at int64) {
	m.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		m.Fatal(err)
	}
	defer f.Close()
	one := make([]byte, 1)
	if _, err := f.ReadAt(one, at); err != nil {
		m.Fatal(err)
	}
	one[0] ^= 1
	if _, err := f.WriteAt(one, at); err != nil {
		m.Fatal(err)
	}
}

func (m *machine) stepNames() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for _, s := range m.steps {
		names = append(names, string(s.Step))
	}
	return strings.Join(slices.Compact(names), " ") // one that takes its time says so more than once
}

func TestAMachineBootsIntoTheAgent(t *testing.T) {
	m := newMachine(t, image(t, "inspector"))
	m.plan.Root = m.smallRoot()
	v := m.view(m.boot("muster.address=10.0.2.15/24 muster.token=secret"))
	if v.PID != 1 || !slices.Equal(v.Args, []string{protocol.AgentPath, "agent"}) {
		t.Errorf("the agent is process %d: %q", v.PID, v.Args)
	}
	if v.Marker != "of the image" || v.Write != "<nil>" {
		t.Errorf("the root is not the image's (%q), or not writable (%s)", v.Marker, v.Write)
	}
	if want := []string{"dev", "etc", "proc", "run", "sys", "usr", "var"}; !slices.Equal(v.Root, want) {
		t.Errorf("the root has %q, want %q", v.Root, want)
	}
	want := m.plan.Boot
	want.Token = "secret"
	if v.Boot.Mode != "-rw-------" || fmt.Sprint(v.Boot.Text) != fmt.Sprint(want) {
		t.Errorf("boot file %s %+v", v.Boot.Mode, v.Boot.Text)
	}
	if n := v.Network.Text; n != (protocol.BootNetwork{NIC: "eth0", MAC: testMAC, Address: "10.0.2.15/24", By: "script"}) {
		t.Errorf("network file %+v", n)
	}
	var kinds []string
	for _, line := range v.Mounts {
		f := strings.Fields(line)
		kinds = append(kinds, f[2]+" on "+f[1])
	}
	slices.Sort(kinds)
	if want := []string{"devtmpfs on /dev", "overlay on /", "proc on /proc", "sysfs on /sys",
		"tmpfs on /run"}; !slices.Equal(kinds, want) {
		t.Errorf("mounts %q, want %q", kinds, want)
	}
	if got := m.stepNames(); got != "init root" {
		t.Errorf("steps %q", got)
	}
	proof := sha256.Sum256([]byte("secret"))
	if m.proof != "Boot "+hex.EncodeToString(proof[:]) {
		t.Errorf("proof %q", m.proof)
	}
}

func TestAMachineWithADamagedImageSaysSoAndSwitchesOff(t *testing.T) {
	testall.Only(t)
	m := newMachine(t, image(t, "inspector"))
	m.plan.Root = m.smallRoot()
	m.damage(m.files[m.plan.Root.Digest], m.plan.Root.Size/2)
	bad, err := os.ReadFile(m.files[m.plan.Root.Digest])
	if err != nil {
		t.Fatal(err)
	}
	console := m.boot("") // by DHCP
	if !strings.Contains(console, "has address 10.0.2.15/24 by dhcp") {
		t.Error("no address by DHCP")
	}
	sum := sha256.Sum256(bad)
	want := "root image arrived damaged: want " + m.plan.Root.Digest + ", got sha256:" + hex.EncodeToString(sum[:])
	if !strings.Contains(console, "this boot cannot go on: "+want) || !strings.Contains(console, "once more from the start") {
		t.Errorf("the console does not say: %s", want)
	}
	if got := m.stepNames(); got != "init problem" || m.steps[len(m.steps)-1].Detail != want {
		t.Errorf("steps %q, %+v", got, m.steps)
	}
}

func TestTheShippedImagesBoot(t *testing.T) {
	testall.Only(t)
	for _, name := range []string{"inspector", "debian13-hpc"} {
		t.Run(name, func(t *testing.T) {
			folder := image(t, name)
			m := newMachine(t, folder)
			m.plan.Root = m.blob(filepath.Join(folder, "root.squashfs"))
			m.more = []string{"-m", "1024"}
			console := m.boot("muster.address=10.0.2.15/24")
			m.view(console)
			if strings.Contains(console, "muster: load ") {
				t.Error("a driver of this machine could not be loaded")
			}
		})
	}
}

func TestARootOnDiskStays(t *testing.T) {
	testall.Only(t)
	folder := image(t, "debian13-hpc")
	m := newMachine(t, folder)
	disk := filepath.Join(m.dir, "disk")
	m.write(disk, nil)
	if err := os.Truncate(disk, 2<<30); err != nil {
		t.Fatal(err)
	}
	m.more = []string{"-drive", "if=none,format=raw,id=d0,file=" + disk, "-device", "virtio-blk-pci,drive=d0"}
	m.plan.Root, m.plan.Disk, m.plan.Keep = m.rootWithExt4(folder), true, "n1"
	boot := func() (console, stay string) {
		console = m.boot("muster.address=10.0.2.15/24")
		return console, m.view(console).Stay
	}
	if console, stay := boot(); stay != "" || !strings.Contains(console, "writing the root of n1 to vda") {
		t.Errorf("first boot: the file was there: %q", stay)
	}
	if console, stay := boot(); stay != "from the boot before" || strings.Contains(console, "root image: ") ||
		!strings.Contains(console, "vda holds this node's root") {
		t.Errorf("second boot: the file is %q", stay)
	}
	m.damage(disk, rootStart+m.plan.Root.Size/2)
	if console, stay := boot(); stay != "from the boot before" || !strings.Contains(console, "writing it again") {
		t.Errorf("boot with a damaged image on the disk: the file is %q", stay)
	}
	m.plan.Keep = "n2"
	if _, stay := boot(); stay != "" {
		t.Errorf("another node's boot: the file was there: %q", stay)
	}
}
