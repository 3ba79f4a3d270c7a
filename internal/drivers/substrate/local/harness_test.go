package local

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/drivers/substrate/substratetest"
	"muster/internal/hostd/calls"
	"muster/internal/hostd/calls/callstest"
	"muster/internal/kit/netns"
	"muster/internal/protocol"
)

// crashEnv makes the test binary a controller that works until it is killed; see TestAKilledController….
const crashEnv = "MUSTER_LOCAL_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashSharedEnv); dir != "" {
		sharedForever(dir)
	}
	if dir := os.Getenv(crashEnv); dir != "" {
		ensureForever(dir)
	}
	// As the controller is meant to be, so that the tests see whether dead first processes are collected.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestContract(t *testing.T) {
	contract(t, func(_ *testing.T, h calls.Host) calls.Host { return h })
}

// TestContractFromElsewhere is what a controller gets that calls the agent of a host.
func TestContractFromElsewhere(t *testing.T) {
	contract(t, func(t *testing.T, h calls.Host) calls.Host { return callstest.From(t, h) })
}

func contract(t *testing.T, reach func(*testing.T, calls.Host) calls.Host) {
	dir := site(t)
	substratetest.Test(t, func(t *testing.T) substratetest.Harness {
		w := open(t, dir)
		opened := answering{host(w)}
		d := reach(t, opened)
		return substratetest.Harness{
			Caps: Factory().Caps, Substrate: d, Shared: d, Keep: d, Inspector: d,
			Caller: d, Worker: opened, Write: w.write, Read: w.read, Image: busybox, Crash: w.crash, HalfMake: w.halfMake,
			Answers: answers,
			Process: func(t *testing.T, r substrate.Ref) int {
				first, ok := w.first(w.bootOf(t, r))
				if !ok {
					t.Fatalf("%v has no first process", r)
				}
				return first.PID
			},
			Room: func(t *testing.T, cluster string) int64 {
				c, err := w.shared(cluster)
				check(t, err)
				var disk unix.Statfs_t
				check(t, unix.Statfs(c.home(), &disk))
				return int64(disk.Blocks) * disk.Bsize
			},
		}
	})
}

const busybox = "sha256:b0b0"

// answering is a driver whose nodes answer at a port.
type answering struct{ host }

const answers = 8000

func (d answering) Ensure(ctx context.Context, n substrate.Node) error {
	n.File.Token = base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "nc -ll -p %d -e echo hello &", answers))
	return d.Driver.Ensure(ctx, n)
}

// alone is a network that does not leave this host.
var alone = substrate.Network{Segment: 1}

// fixture is a driver with what a test asks of it.
type fixture struct{ *Driver }

// site prepares a directory with an image of little more than busybox and a first process that does what the token
// in its boot file says and then sleeps. It skips the test where nodes cannot be made.
func site(t testing.TB) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: nodes in namespaces need root")
	}
	for _, tool := range []string{"runc", "mksquashfs", "busybox"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("skipped: %s is not installed", tool)
		}
	}
	dir, root := t.TempDir(), t.TempDir()
	for _, sub := range []string{"bin", "usr/sbin", "proc", "sys", "dev", "run", "home", "tmp", "etc"} {
		check(t, os.MkdirAll(filepath.Join(root, sub), 0o755))
	}
	from, _ := exec.LookPath("busybox")
	text, err := os.ReadFile(from)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(root, "bin/busybox"), text, 0o755))
	for _, name := range []string{"sh", "sleep", "nc", "cat", "dd", "echo", "id", "hostname", "df", "touch", "mount", "grep",
		"wc", "sed", "base64"} {
		check(t, os.Symlink("busybox", filepath.Join(root, "bin", name)))
	}
	command(t, "mksquashfs", root, filepath.Join(dir, "image.sqfs"), "-comp", "zstd", "-Xcompression-level", "1", "-quiet",
		"-no-progress")
	script := "#!/bin/sh\ntrap 'exit 0' TERM\n" +
		`eval "$(sed 's/.*"token":"\([^"]*\)".*/\1/' /run/muster/boot.json | base64 -d)"` +
		"\nwhile :; do sleep 3600 & wait; done\n"
	check(t, os.WriteFile(filepath.Join(dir, "muster"), []byte(script), 0o755))
	check(t, os.Mkdir(filepath.Join(dir, "sockets"), 0o755))
	return dir
}

// open makes a new driver in the site, in a state directory of the test's own.
func open(t testing.TB, site string) fixture {
	t.Helper()
	d, err := openAt(site, filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	return fixture{d}
}

func openAt(site, state string) (*Driver, error) {
	return New(Config{
		Dir:    state,
		Images: func(string) (string, error) { return filepath.Join(site, "image.sqfs"), nil },
		Binary: filepath.Join(site, "muster"), Sockets: filepath.Join(site, "sockets"),
	})
}

// node describes the number-th node of a cluster, whose first process runs the script.
func node(cluster string, number int, boot int64, script string) substrate.Node {
	return substrate.Node{
		Ref:  substrate.Ref{Cluster: cluster, Node: fmt.Sprintf("node-%d", number), Boot: boot},
		Name: fmt.Sprintf("n%d", number), Machine: "here",
		Address: substrate.Address(256 + number), MAC: substrate.MAC(alone.Segment, 256+number), Image: busybox,
		File: protocol.BootFile{Token: base64.StdEncoding.EncodeToString([]byte(script))},
	}
}

// up makes the node run, and its cluster; both are gone after the test.
func (w fixture) up(t testing.TB, n substrate.Node) boot {
	t.Helper()
	check(t, w.EnsureShared(t.Context(), n.Cluster, alone))
	t.Cleanup(func() { w.down(t) })
	check(t, w.Ensure(t.Context(), n))
	return w.bootOf(t, n.Ref)
}

// down removes everything.
func (w fixture) down(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	refs, err := w.List(ctx)
	check(t, err)
	for _, r := range refs {
		r.Boot = 0
		check(t, w.Remove(ctx, r))
	}
	clusters, err := w.ListShared(ctx)
	check(t, err)
	for _, cluster := range clusters {
		check(t, w.RemoveShared(ctx, cluster))
	}
}

func (w fixture) bootOf(t testing.TB, r substrate.Ref) boot {
	t.Helper()
	h, err := w.home(r)
	check(t, err)
	return h.boot(r.Boot)
}

func (w fixture) crash(t *testing.T, r substrate.Ref) {
	t.Helper()
	p, ok := w.first(w.bootOf(t, r))
	if !ok {
		t.Fatalf("%v has no first process", r)
	}
	check(t, unix.Kill(p.PID, unix.SIGKILL))
	eventually(t, "the first process ends", func() bool { return !p.Runs() })
}

// halfMake goes as far as the root and stops.
func (w fixture) halfMake(t *testing.T, n substrate.Node) {
	t.Helper()
	b := w.bootOf(t, n.Ref)
	check(t, onhost.Raise(b.home.dir, n.Boot))
	c, err := w.shared(n.Cluster)
	check(t, err)
	check(t, w.makeDirs(b, c, n))
	check(t, w.plug(t.Context(), c.netns(), b, n))
	check(t, w.mountRoot(t.Context(), b, c, n))
}

// leftovers lists all that exists on the host because of the driver, and dead processes that were not collected.
func (w fixture) leftovers(t testing.TB) []string {
	t.Helper()
	var left []string
	check(t, eachMount(func(at, _ string) {
		if strings.HasPrefix(at, w.config.Dir) {
			left = append(left, "mount "+at)
		}
	}))
	check(t, filepath.WalkDir(w.config.Dir, func(path string, _ os.DirEntry, err error) error {
		if !slices.Contains([]string{"state", "locks", "images", "clusters", "snapshots", "nodes", "runc"}, filepath.Base(path)) {
			left = append(left, "file "+path)
		}
		return err
	}))
	groups, _ := filepath.Glob("/sys/fs/cgroup/*" + w.cgroups.Path("*"))
	loops, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, loop := range loops {
		if text, _ := os.ReadFile(loop); strings.HasPrefix(string(text), filepath.Dir(filepath.Dir(w.config.Dir))) &&
			strings.TrimSpace(string(text)) != filepath.Dir(filepath.Dir(w.config.Dir))+"/disk" { // the directory's own
			groups = append(groups, "loop device "+loop)
		}
	}
	children, _ := filepath.Glob("/proc/self/task/*/children")
	for _, path := range children {
		if text, _ := os.ReadFile(path); len(text) > 0 {
			left = append(left, "child processes "+string(text))
		}
	}
	return append(left, groups...)
}

func (w fixture) write(t *testing.T, cluster, content string) {
	t.Helper()
	c, err := w.shared(cluster)
	check(t, err)
	for _, dir := range []string{c.home(), c.state()} {
		check(t, os.WriteFile(filepath.Join(dir, "file"), []byte(content), 0o600))
	}
}

func (w fixture) read(t *testing.T, cluster string) string {
	t.Helper()
	c, err := w.shared(cluster)
	check(t, err)
	home, err := os.ReadFile(filepath.Join(c.home(), "file"))
	check(t, err)
	state, err := os.ReadFile(filepath.Join(c.state(), "file"))
	check(t, err)
	if string(home) != string(state) {
		t.Errorf("cluster %s has %q in /home and %q in its state", cluster, home, state)
	}
	return string(home)
}

// wantNothingLeft waits: the kernel frees loop devices on its own time.
func (w fixture) wantNothingLeft(t testing.TB) {
	t.Helper()
	var left []string
	for range 30000 {
		if left = w.leftovers(t); len(left) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("left:\n%s", strings.Join(left, "\n"))
}

// inNode runs a command of the host's in a node's network.
func inNode(t testing.TB, b boot, name string, arguments ...string) (string, error) {
	t.Helper()
	var output []byte
	err := netns.Do(b.path("netns"), func() (err error) {
		output, err = exec.Command(name, arguments...).CombinedOutput()
		return err
	})
	return string(output), err
}

func command(t testing.TB, name string, arguments ...string) string {
	t.Helper()
	output, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, output)
	}
	return string(output)
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

// check reports an error; it may be called from any goroutine.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
