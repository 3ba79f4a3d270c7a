package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/boot/initramfs"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/local"
	"muster/internal/inventory"
	"muster/internal/kit/netns"
	"muster/internal/place"
	"muster/internal/protocol"
)

func TestMain(m *testing.M) {
	// As the agent of a host is, so that the tests see whether dead QEMUs are collected.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	if text := os.Getenv(siteVariable); text != "" {
		var s site
		panic(errors.Join(json.Unmarshal([]byte(text), &s), s.control()))
	}
	os.Exit(m.Run())
}

// fixture is a driver with what a test asks of it.
type fixture struct {
	*Driver
	shared *local.Driver
}

// cores are those that guests can have of this host.
func cores() []int {
	facts, _ := hostFacts(context.Background()) // it never fails
	kept, _ := facts.Kept()
	var all []int
	for _, c := range facts.Layout {
		if !slices.Contains(kept, c.ID) {
			all = append(all, c.ID)
		}
	}
	return all
}

// Ensure gives nodes that have nothing of the host a CPU of it, in turn.
func (w fixture) Ensure(ctx context.Context, n substrate.Node) error {
	return w.Driver.Ensure(ctx, withCore(n))
}

// Wake gives it to them again.
func (w fixture) Wake(ctx context.Context, n substrate.Node) error {
	return w.Driver.Wake(ctx, withCore(n))
}

func withCore(n substrate.Node) substrate.Node {
	if n.Allocation == nil {
		n.Allocation = &place.Allocation{Guest: n.Node, Share: 16,
			Cells: []place.Cell{{Cores: []int{cores()[int(n.MAC[5])%len(cores())]}, MemoryMiB: 64}}}
	}
	return n
}

// hostFacts are as many cores without threads as this one has CPUs, and all its memory on one node.
func hostFacts(context.Context) (inventory.Facts, error) {
	f := inventory.Facts{Arch: runtime.GOARCH, NUMA: []inventory.NUMANode{{MemoryMiB: 1 << 20}}}
	for id := range runtime.NumCPU() {
		f.Layout = append(f.Layout, inventory.Core{ID: id, CPUs: []int{id}})
	}
	return f, nil
}

// image is one of those that `make image` builds.
func image(t testing.TB, name string) Image {
	t.Helper()
	store := os.Getenv("MUSTER_TEST_IMAGES")
	if store == "" {
		store = "../../../../build/images"
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(store, name, "latest"))
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "vmlinuz"))
	}
	if err != nil {
		t.Skipf("skipped: image %s is not there with a kernel; `make image` builds it", name)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		t.Fatal(err)
	}
	return Image{Kernel: filepath.Join(dir, "vmlinuz"), Drivers: filepath.Join(dir, "drivers.cpio.zst"),
		Root: filepath.Join(dir, "root.squashfs")}
}

// build compiles a program for guests.
func build(t testing.TB, what string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), filepath.Base(what))
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, what)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", what, err, said)
	}
	return out
}

// needs skips a test where guests cannot be made.
func needs(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: guests need root")
	}
	for _, program := range []string{"qemu-system-x86_64", "libvirtd", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("skipped: %s is not installed; scripts/setup.sh test installs it", program)
		}
	}
	if _, err := user.Lookup(usualUsers()[0]); err != nil {
		t.Skipf("skipped: there is no user %s; scripts/setup.sh run makes it", usualUsers()[0])
	}
}

// site is what a driver is made of, here or in another process.
type site struct {
	Dir          string
	Image        Image
	First, Agent string // the program that guests' kernels start, and what it becomes
}

// drive makes a driver over the folders of a site, and one for the networks of clusters.
func (s site) drive() (*Driver, *local.Driver, error) {
	shared, err := local.New(local.Config{
		Dir: filepath.Join(s.Dir, "local"), Images: func(string) (string, error) {
			return s.Image.Root, nil
		}, Binary: s.Agent, Sockets: s.Dir,
	})
	if err != nil {
		return nil, nil, err
	}
	archive := func() ([]byte, error) {
		program, err := os.ReadFile(s.First)
		if err != nil {
			return nil, err
		}
		return initramfs.Pack(program)
	}
	d, err := New(Config{
		Dir: filepath.Join(s.Dir, "hypervisor"), Images: func(string) (Image, error) {
			return s.Image, nil
		}, FirstStage: sync.OnceValues(archive),
		Binary: s.Agent, Facts: hostFacts, Ports: shared, Accel: "tcg",
	})
	return d, shared, err
}

// idling is a site of guests that only have to be there: their kernel is the smallest that a boot loader takes (Linux,
// Documentation/arch/x86/boot.rst), and stops at once. So it needs no image, and takes no time from what is tested.
func idling(t testing.TB) site {
	t.Helper()
	kernel := make([]byte, 2<<10)
	kernel[0x1f1] = 1                                    // sectors behind the first that belong to the part for 16 bits
	copy(kernel[0x1fe:], []byte{0x55, 0xaa, 0xeb, 0x7e}) // the mark, and a jump to 0x280
	copy(kernel[0x202:], "HdrS\x06\x02")                 // the header, of version 2.06
	kernel[0x211] = 1                                    // the rest goes to 1 MiB
	copy(kernel[0x22c:], []byte{0xff, 0xff, 0xff, 0x37}) // the highest address of an initramfs
	copy(kernel[0x280:], []byte{0xfa /* cli */, 0xf4 /* hlt */, 0xeb, 0xfd /* jump to hlt */})
	dir := t.TempDir()
	files := map[string][]byte{"kernel": kernel, "drivers": nil, "root": []byte("no root"), "program": []byte("no program")}
	for name, content := range files {
		check(t, os.WriteFile(filepath.Join(dir, name), content, 0o755))
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	return site{t.TempDir(), Image{Kernel: at("kernel"), Drivers: at("drivers"), Root: at("root")}, at("program"), at("program")}
}

// open makes a driver over new folders.
func open(t testing.TB, i Image, first, agent string) fixture {
	t.Helper()
	return site{t.TempDir(), i, first, agent}.open(t)
}

func (s site) open(t testing.TB) fixture {
	t.Helper()
	d, shared, err := s.drive()
	if err != nil {
		t.Fatal(err)
	}
	w := fixture{d, shared}
	t.Cleanup(func() { w.down(t) })
	return w
}

// siteVariable names the environment variable that makes this program a controller of a site, which makes the first
// guest of cluster c1 and then waits for its end.
const siteVariable = "MUSTER_TEST_SITE"

func (s site) control() error {
	d, shared, err := s.drive()
	if err != nil {
		return err
	}
	w := fixture{d, shared}
	if err := w.Ensure(context.Background(), node("c1", 1, 1)); err != nil {
		return err
	}
	fmt.Println("the guest runs")
	select {}
}

// down removes everything, and shows what was said if the test has failed.
func (w fixture) down(t testing.TB) {
	t.Helper()
	if t.Failed() {
		logs, _ := filepath.Glob(filepath.Join(w.guests(), "*/*/"+consoleFile))
		logs = append(logs, filepath.Join(w.folder("log"), "libvirtd.log"))
		more, _ := filepath.Glob(filepath.Join(w.folder("log"), "qemu/*.log"))
		for _, path := range append(logs, more...) {
			text, _ := os.ReadFile(path)
			t.Logf("%s:\n%s", path, text)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	refs, err := w.List(ctx)
	check(t, err)
	for _, r := range refs {
		r.Boot = 0
		check(t, w.Remove(ctx, r))
	}
	check(t, w.Close(ctx))
	clusters, err := w.shared.ListShared(ctx)
	check(t, err)
	for _, c := range clusters {
		check(t, w.shared.RemoveShared(ctx, c))
	}
	w.wantNothingLeft(t)
}

// wantNothingLeft looks for whatever of guests could have stayed on the host.
func (w fixture) wantNothingLeft(t testing.TB) {
	t.Helper()
	var left []string
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		if text, _ := os.ReadFile(path); strings.Contains(string(text), w.config.Dir) {
			left = append(left, "process "+strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	children, _ := filepath.Glob("/proc/self/task/*/children")
	for _, path := range children {
		if text, _ := os.ReadFile(path); len(text) > 0 {
			left = append(left, "child processes "+string(text))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	check(t, err)
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, w.config.Dir) {
			left = append(left, "mount "+line)
		}
	}
	check(t, filepath.WalkDir(w.config.Dir, func(path string, entry os.DirEntry, err error) error {
		below, _ := filepath.Rel(w.config.Dir, path)
		switch top := strings.Split(below, "/"); {
		case below == "." || below == "locks" || below == "guests" || below == "libvirt":
		// The highest boot of a node, which is remembered.
		case top[0] == "guests" && (len(top) == 2 || top[2] == "boot" && len(top) == 3):
		case top[0] == "locks" || top[0] == "libvirt" && len(top) > 1 && top[1] == "cache":
		default:
			left = append(left, "file "+below)
		}
		return err
	}))
	if len(left) > 0 {
		t.Errorf("left:\n%s", strings.Join(left, "\n"))
	}
}

// node describes the number-th node of a cluster.
func node(cluster string, number int, boot int64) substrate.Node {
	return substrate.Node{
		Ref:  substrate.Ref{Cluster: cluster, Node: fmt.Sprintf("node-%d", number), Boot: boot},
		Name: fmt.Sprintf("n%d", number), Machine: "here", Image: "sha256:" + strings.Repeat("b0", 32),
		File:    protocol.BootFile{Node: "node", Name: "n", Boot: boot, Token: "secret-of-the-boot"},
		Address: substrate.Address(256 + number), MAC: substrate.MAC(1, 256+number),
	}
}

func (w fixture) sharedOf(t testing.TB, cluster string) {
	t.Helper()
	check(t, w.shared.EnsureShared(t.Context(), cluster, substrate.Network{Segment: 1}))
}

func (w fixture) bootOf(t testing.TB, r substrate.Ref) boot {
	t.Helper()
	home, err := w.home(r)
	check(t, err)
	return w.bootAt(home, r.Boot)
}

// crash kills a guest's QEMU.
func (w fixture) crash(t *testing.T, r substrate.Ref) {
	t.Helper()
	seen, ok := w.bootOf(t, r).read()
	if !ok {
		t.Fatalf("%v has no QEMU", r)
	}
	check(t, unix.Kill(seen.QEMU.PID, unix.SIGKILL))
	eventually(t, "QEMU ends", func() bool { return !seen.QEMU.Runs() })
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for range 30000 { // minutes: the host may be busy
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("waited in vain: %s", what)
}

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	check(t, err)
	return found
}

// check reports an error; it may be called from any goroutine.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// clusterNamespace is where a cluster's network is.
func (w fixture) clusterNamespace(cluster string) string {
	return filepath.Join(filepath.Dir(w.config.Dir), "local/clusters", cluster, "netns")
}

// inCluster runs a program of the host's in a cluster's network.
func (w fixture) inCluster(t testing.TB, cluster, name string, arguments ...string) string {
	t.Helper()
	var said []byte
	err := netns.Do(w.clusterNamespace(cluster), func() (err error) {
		said, err = exec.Command(name, arguments...).CombinedOutput()
		return err
	})
	if err != nil {
		t.Errorf("%s: %v: %s", name, err, said)
	}
	return string(said)
}
