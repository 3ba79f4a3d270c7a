package noded

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/boot/initramfs"
	"muster/internal/drivers"
	"muster/internal/hostd"
	"muster/internal/inventory/hardware"
	"muster/internal/kit/netns"
	"muster/internal/kit/testall"
	"muster/internal/place"
	"muster/internal/protocol"
)

// A hypervisor of two processes, as on a machine: this program's first process is the test's child, in a network namespace that
// stands for the machine's, and starts the second one.

// hostVariable names the environment variable with the hypervisor.
const hostVariable = "MUSTER_TEST_HOST"

// hypervisor is what its processes are told.
type hypervisor struct {
	Dir      string            // its disk
	BootFile string            // path
	Blobs    map[string]string // files by digest, which the boot services have
	Agent    string            // of guests
	Server   string            // the boot services
}

func hypervisorOf() (h hypervisor, err error) {
	return h, json.Unmarshal([]byte(os.Getenv(hostVariable)), &h)
}

// hostMain is the machine's first process, with the boot services beside it. Guests' emulators become its children.
func hostMain() int {
	h, err := hypervisorOf()
	if err == nil {
		err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	services, err2 := net.Listen("tcp", "127.0.0.1:0")
	if err != nil || err2 != nil {
		fmt.Println(err, err2)
		return 1
	}
	go func() {
		_ = http.Serve(services, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.ServeFile(w, r, h.Blobs[strings.TrimPrefix(r.URL.Path, protocol.BlobPath)])
		}))
	}()
	h.Server = "http://" + services.Addr().String()
	text, _ := json.Marshal(h)
	_ = os.Setenv(hostVariable, string(text)) // for the other process

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	reaper := NewReaper()
	go reaper.Collect(context.WithoutCancel(ctx))
	program, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return ExitStatus(run(ctx, Options{Schedulers: drivers.Schedulers(), BootFile: h.BootFile, Console: os.Stdout}, deps{
		processes: reaper, machine: &fakeMachine{}, disk: disk{root: h.Dir, chown: os.Chown}, program: program,
		dialer:      func(e []string, i *identity, a string) (controller, error) { return dialer(e, i, a) },
		openConsole: func() (io.Writer, error) { return os.Stdout, nil },
		end:         func(bool) error { return nil },
	}))
}

// guestsMain is the process that holds guests.
func guestsMain() int {
	h, err := hypervisorOf()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, again := context.WithCancel(ctx)
	defer again()
	trusted, err := Trust(filepath.Join(h.Dir, trustFile), again)
	if err == nil {
		defer trusted.Close()
		machine := hostd.Machine{Dir: filepath.Join(h.Dir, "host"), Server: h.Server, Binary: h.Agent, Accel: "tcg",
			Console: os.Stdout}
		o := machine.Options(ctx)
		o.Controller, o.Refused, o.Boot = trusted, ErrRefused, trusted.Boot
		o.Keys = hostd.Keys{Certificate: trusted.Certificate, Roots: trusted.Roots}
		err = hostd.Run(ctx, o)
	}
	if err != nil {
		fmt.Println(err)
	}
	return ExitStatus(err)
}

// needsGuests skips a test where guests cannot be made, and finds the folder of an image for them.
func needsGuests(t *testing.T) (image string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: guests need root")
	}
	for _, program := range []string{"qemu-system-x86_64", "libvirtd", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("skipped: %s is not installed; scripts/setup.sh run installs it", program)
		}
	}
	if _, err := user.Lookup("libvirt-qemu"); err != nil {
		t.Skip("skipped: there is no user libvirt-qemu; scripts/setup.sh run makes it")
	}
	if _, err := initramfs.Archive(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	store := os.Getenv("MUSTER_TEST_IMAGES")
	if store == "" {
		store = "../../build/images"
	}
	image, err := filepath.EvalSymlinks(filepath.Join(store, "inspector/latest"))
	if err == nil {
		image, err = filepath.Abs(image)
	}
	if err == nil {
		_, err = os.Stat(filepath.Join(image, "vmlinuz"))
	}
	if err != nil {
		t.Skip("skipped: image inspector is not there with a kernel; `make image` builds it")
	}
	return image
}

// guestOf is the first boot of a guest with one core of this host.
func guestOf(t *testing.T, node string) protocol.HostedGuest {
	t.Helper()
	facts := hardware.Read("/")
	kept, _ := facts.Kept()
	for _, c := range facts.Layout {
		if slices.Contains(kept, c.ID) {
			continue
		}
		allocation, err := json.Marshal(place.Allocation{Guest: node, Share: 16,
			Cells: []place.Cell{{NUMA: c.NUMA, Cores: []int{c.ID}, MemoryMiB: 256}}})
		must(t, err)
		asked, err := json.Marshal(place.Guest{CPUs: 1, MemoryMiB: 256, Share: 16})
		must(t, err)
		return protocol.HostedGuest{
			Cluster: "c1", Node: node, Boot: 1, Try: 1, Name: "n1", Machine: "hv-g1", Address: "10.77.2.1/16",
			MAC:   "02:4d:00:07:02:01",
			Image: "sha256:" + strings.Repeat("1a", 32), Allocation: allocation, Asked: asked,
			File: protocol.BootFile{Node: node, Name: "n1", Boot: 1, Token: "guest's secret"},
		}
	}
	t.Skip("skipped: this host keeps all its cores to itself")
	return protocol.HostedGuest{}
}

// blob is a file as the boot services know it.
func blob(t *testing.T, blobs map[string]string, path string) protocol.Blob {
	t.Helper()
	out, err := exec.Command("sha256sum", path).Output()
	must(t, err)
	info, err := os.Stat(path)
	must(t, err)
	b := protocol.Blob{Digest: "sha256:" + string(out[:64]), Size: info.Size()}
	blobs[b.Digest] = path
	return b
}

// pidOf finds the process whose arguments hold all the words; 0 if there is none.
func pidOf(words ...string) int {
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		text, _ := os.ReadFile(path)
		if len(text) > 0 && !slices.ContainsFunc(words, func(w string) bool { return !bytes.Contains(text, []byte(w)) }) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return pid
		}
	}
	return 0
}

// TestAHypervisorsGuestsOutliveTheProcessThatHoldsThem is the life of a hypervisor with real guests: one boots, the process that
// holds it is killed, then its emulator; at last it is not wanted any more, and neither is the hypervisor.
func TestAHypervisorsGuestsOutliveTheProcessThatHoldsThem(t *testing.T) {
	testall.Only(t)
	image := needsGuests(t)
	f, sockets, dir := newFakeController(t), t.TempDir(), t.TempDir()
	f.tokens["m1"] = "secret"
	f.listen(t, filepath.Join(sockets, "one.sock"))
	h := hypervisor{Dir: dir, BootFile: filepath.Join(dir, "boot.json"), Blobs: map[string]string{},
		Agent: filepath.Join(dir, "idle")}
	boot, err := json.Marshal(protocol.BootFile{
		Node: "m1", Name: "rack-1", Boot: 4, Token: "secret", Authority: f.authority, Endpoints: []string{"unix://" + sockets},
		Duty: protocol.Host,
	})
	must(t, err)
	must(t, os.WriteFile(h.BootFile, boot, 0o600))
	build := exec.Command("go", "build", "-trimpath", "-o", h.Agent, "muster/internal/drivers/substrate/vm/testdata/idle")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	of := protocol.HostedImage{Digest: "sha256:" + strings.Repeat("1a", 32),
		Root: blob(t, h.Blobs, filepath.Join(image, "root.squashfs"))}
	of.Kernel = blob(t, h.Blobs, filepath.Join(image, "vmlinuz")).Digest
	of.Drivers = blob(t, h.Blobs, filepath.Join(image, "drivers.cpio.zst")).Digest
	want := func(revision int64, guests ...protocol.HostedGuest) {
		f.mu.Lock()
		wanted := protocol.Hosting{Revision: revision, Guests: guests, Networks: []protocol.HostedNetwork{}}
		if len(guests) > 0 {
			wanted.Networks, wanted.Images = []protocol.HostedNetwork{{Cluster: "c1", Segment: 7}}, []protocol.HostedImage{of}
		}
		f.wanted["m1"] = wanted
		f.mu.Unlock()
		f.bell()
	}
	state := func() protocol.HostedState { // under the controller's lock
		if guests := f.hosted["m1"].Guests; len(guests) == 1 {
			return guests[0]
		}
		return protocol.HostedState{}
	}

	name := fmt.Sprintf("host%d", os.Getpid()) // other tests on this host have guests too
	namespace := filepath.Join(dir, "netns")
	must(t, netns.New(namespace, func() error { return nil }))
	t.Cleanup(func() { must(t, unix.Unmount(namespace, unix.MNT_DETACH)) })
	inside(t, namespace, "ip link set lo up && ip link add "+protocol.HostBridge+" type bridge && ip link set "+
		protocol.HostBridge+" up")
	program, err := os.Executable()
	must(t, err)
	text, err := json.Marshal(h)
	must(t, err)
	var console safeBuffer
	first := exec.Command(program)
	first.Env = append(os.Environ(), hostVariable+"="+string(text))
	first.Stdout, first.Stderr = &console, &console
	must(t, netns.Do(namespace, first.Start))
	ended := make(chan error, 1)
	go func() { ended <- first.Wait() }()
	defer func() {
		if t.Failed() {
			t.Logf("console:\n%s", console.String())
			if pid := pidOf("qemu-system", "guest=c1."+name); pid > 0 { // so that nothing of it stays on this host
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		_ = first.Process.Kill()
	}()

	f.until(t, "a hypervisor without guests", func() bool {
		r, ok := f.hosted["m1"]
		return ok && r.Boot == 4 && r.Trouble == ""
	})
	want(1, guestOf(t, name))
	f.until(t, "its guest runs", func() bool { return state().Running && state().Try == 1 })
	qemu, holder := pidOf("qemu-system", "guest=c1."+name+".1"), pidOf(program, "agent\x00host")
	if qemu == 0 || holder == 0 {
		t.Fatalf("QEMU is process %d, the one that holds it %d", qemu, holder)
	}
	if text := inside(t, filepath.Join(dir, "host/networks/clusters/c1/netns"), "ip addr; ip link"); strings.Contains(text,
		"10.77.0.1") || !strings.Contains(text, "br0") {
		t.Errorf("the cluster's network on a host where its gateway is not:\n%s", text)
	}

	f.mu.Lock()
	delete(f.hosted, "m1")
	f.mu.Unlock()
	must(t, unix.Kill(holder, unix.SIGKILL))
	f.until(t, "the next process tells of the guest", func() bool {
		_, heard := f.hosted["m1"]
		return heard && state().Running && state().Try == 1
	})
	if now := pidOf("qemu-system", "guest=c1."+name+".1"); now != qemu {
		t.Errorf("the guest was process %d and is process %d", qemu, now)
	}

	must(t, unix.Kill(qemu, unix.SIGKILL))
	f.until(t, "the guest has ended", func() bool {
		return state().Present && !state().Running && strings.HasPrefix(state().Detail, "its QEMU has ended")
	})
	want(2)
	f.until(t, "nothing is left", func() bool {
		r := f.hosted["m1"]
		return r.Revision == 2 && len(r.Guests) == 0 && len(r.Networks) == 0
	})
	for _, word := range []string{"secret", "guest's secret"} {
		if strings.Contains(console.String(), word) {
			t.Errorf("%q is on the console:\n%s", word, console.String())
		}
	}

	f.mu.Lock()
	f.stale["m1"] = true
	f.mu.Unlock()
	f.bell()
	select {
	case err := <-ended:
		if code := first.ProcessState.ExitCode(); code != StatusRefused {
			t.Errorf("the first process ends with %d: %v", code, err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a machine that is not wanted any more goes on")
	}
	if left := pidOf(dir); left != 0 {
		t.Errorf("process %d is left", left)
	}
}
