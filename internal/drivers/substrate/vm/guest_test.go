package vm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/substratetest"
	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/drivers/substrate/vm/devices/fake"
	"muster/internal/drivers/substrate/vm/domain"
	"muster/internal/hostd/calls/callstest"
	"muster/internal/inventory"
	"muster/internal/kit/netns"
	"muster/internal/kit/testall"
	"muster/internal/place"
	"muster/internal/protocol"
)

// TestContract is what a controller gets that calls the agent of a host.
func TestContract(t *testing.T) {
	testall.Only(t)
	needs(t)
	here, there := idling(t), idling(t) // for all parts: libvirt asks QEMU but once what it can do
	substratetest.Test(t, func(t *testing.T) substratetest.Harness {
		for _, place := range []site{here, there} {
			for _, remembered := range glob(t, filepath.Join(place.Dir, "hypervisor/guests/*")) {
				check(t, os.RemoveAll(remembered)) // the highest boots of an earlier part's nodes
			}
		}
		w, other := here.open(t), there.open(t)
		hosts := map[string]fixture{"here": w, "there": other}
		fleet := Fleet(func(host string) (Host, error) { return hosts[host], nil })
		kernel := fake.New() // without devices
		moved, err := devices.New(devices.Options{Kernel: kernel, Links: kernel, Tools: kernel, Eraser: kernel, Dir: t.TempDir()})
		check(t, err)
		w.config.Devices = moved
		opened := host{w.Driver, substrate.Env{Log: slog.New(slog.DiscardHandler)}}
		d := callstest.Guests(t, opened)
		return substratetest.Harness{
			Caps: Factory().Caps, Substrate: d, Shared: w.shared, Sleeper: d, Mover: cabled{fleet, other}, Inspector: d,
			Emulator: d, Worker: opened, Image: "sha256:b0b0", Crash: w.crash,
			Untried: map[string]string{"Shared.Dial": "these guests only have to be there, and answer nobody; local's nodes do"},
			Allocation: func(number byte) *place.Allocation {
				return withCore(substrate.Node{MAC: substrate.MAC(1, int(number))}).Allocation
			},
			At: func(host string) substrate.Substrate { return hosts[host] },
			Kernel: func(t *testing.T, r substrate.Ref) string {
				b := w.bootOf(t, r)
				record, _ := b.read()
				command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", record.QEMU.PID))
				check(t, err)
				if !strings.Contains(string(command), "\x00-kernel\x00"+b.inside(kernelFile)+"\x00") {
					t.Errorf("QEMU was started as %q", command)
				}
				started, err := os.Stat(b.path(kernelFile))
				check(t, err)
				if of, err := os.Stat(here.Image.Kernel); err != nil || of.Size() != started.Size() {
					t.Errorf("its kernel has %d bytes: %v", started.Size(), err)
				}
				return "sha256:b0b0"
			},
			CPUs: func(t *testing.T, r substrate.Ref) (all []string) {
				record, _ := w.bootOf(t, r).read()
				for _, cpu := range affinity(t, record.QEMU.PID, "CPU 0/TCG") {
					all = append(all, strconv.Itoa(cpu))
				}
				return all
			},
			HalfMake: func(t *testing.T, n substrate.Node) {
				home, err := w.home(n.Ref)
				check(t, err)
				b := w.bootAt(home, n.Boot)
				check(t, os.MkdirAll(b.dir, 0o711))
				check(t, os.WriteFile(filepath.Join(home, "boot"), []byte(strconv.FormatInt(n.Boot, 10)), 0o600))
				check(t, w.writeFiles(b, n, firstUser))
				check(t, ensureNamespace(w.netns()))
				check(t, makeTap(w.netns(), substrate.PortName(n.Node), 1))
			},
		}
	})
}

// cabled gives clusters their networks at a host before a guest comes there.
type cabled struct {
	Fleet
	there fixture
}

func (c cabled) Move(ctx context.Context, n substrate.Node, from, to string) error {
	if err := c.there.shared.EnsureShared(ctx, n.Cluster, substrate.Network{Segment: 1}); err != nil {
		return err
	}
	return c.Fleet.Move(ctx, withCore(n), from, to)
}

// bootsWithin is how long an emulated guest may take until it speaks, on a host that is busy.
const bootsWithin = 6 * time.Minute

// heard is a call of a guest's, and what it says of itself, at the gateway of its cluster.
func (w fixture) heard(t *testing.T, cluster string) (net.Conn, net.Listener, map[string]string) {
	t.Helper()
	listener, err := netns.Listen(w.clusterNamespace(cluster), "tcp",
		net.JoinHostPort(substrate.Gateway().Addr().String(), strconv.Itoa(protocol.AgentPort)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			listener.Close()
		}
	}()
	var connection net.Conn
	for end := time.Now().Add(bootsWithin); connection == nil; {
		check(t, listener.(*net.TCPListener).SetDeadline(time.Now().Add(2*time.Second)))
		if connection, err = listener.Accept(); err != nil && time.Now().After(end) {
			t.Fatal("the guest told nothing: ", err)
		}
		w.wantRunning(t, cluster)
	}
	var saw map[string]string
	check(t, json.NewDecoder(connection).Decode(&saw))
	return connection, listener, saw
}

// wantRunning ends the test when a guest of a cluster has ended, which tells nothing more.
func (w fixture) wantRunning(t *testing.T, cluster string) {
	t.Helper()
	refs, err := w.List(t.Context())
	check(t, err)
	for _, r := range refs {
		if seen, err := w.Observe(t.Context(), r); r.Cluster == cluster && (err != nil || seen.Present && !seen.Running) {
			t.Fatalf("the guest of node %s does not run: %s %v", r.Node, seen.Detail, err)
		}
	}
}

func TestAGuestBootsItsImageOnItsClustersNetwork(t *testing.T) {
	testall.Only(t)
	needs(t)
	looker := build(t, "./testdata/looker")
	w := open(t, image(t, "inspector"), build(t, "muster/cmd/muster-init"), looker)
	w.sharedOf(t, "c1")
	n := node("c1", 1, 1)
	two := cores()[:2]
	n.Allocation = &place.Allocation{Share: 16, Cells: []place.Cell{{Cores: two, MemoryMiB: 512}}}
	begin := time.Now()
	check(t, w.Ensure(t.Context(), n))
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("started after %.1f s", time.Since(begin).Seconds())
	connection, listener, saw := w.heard(t, "c1")
	listener.Close()
	connection.Close()
	t.Logf("it spoke after %.1f s", time.Since(begin).Seconds())
	for what, want := range map[string]string{
		"token": "secret-of-the-boot", "/sys/class/net/eth0/address": n.MAC.String(), "plan gone": "true", "usb": "0",
		"queues":                "2",
		"/sys/block/vda/serial": protocol.GuestRoot, "/sys/block/vda/ro": "1", "/sys/block/vdb/serial": protocol.GuestAgent,
		"/sys/block/vdb/ro":              "1",
		"/sys/devices/system/cpu/online": "0-1", "/proc/cmdline": commandLine, "/proc/1/cmdline": protocol.AgentPath +
			"\x00agent\x00",
	} {
		if saw[what] != strings.TrimSpace(want) {
			t.Errorf("the guest sees %q as %s, want %q", saw[what], what, want)
		}
	}
	b := w.bootOf(t, n.Ref)
	console, err := os.ReadFile(b.path(consoleFile))
	check(t, err)
	t.Logf("its console:\n%s", console)
	if _, err := os.Stat(b.path(initramfsFile)); !os.IsNotExist(err) {
		t.Errorf("the file with the token is still there: %v", err)
	}
	r, ok := b.read()
	if !ok {
		t.Fatal("no record")
	}
	w.wantEnclosed(t, r.QEMU.PID)
	times, err := exec.Command("ps", "-o", "cputimes=,rss=", "-p", strconv.Itoa(r.QEMU.PID)).Output()
	check(t, err)
	t.Logf("QEMU has used so many seconds of CPU and KiB of memory: %s", times)
	for cpu, want := range [][]int{two[:1], two[1:]} {
		if got := affinity(t, r.QEMU.PID, fmt.Sprintf("CPU %d/TCG", cpu)); !slices.Equal(got, want) {
			t.Errorf("virtual CPU %d may run on %v, want %v", cpu, got, want)
		}
	}

	t.Run("it sends as nobody else", func(t *testing.T) {
		text := w.inCluster(t, "c1", "bridge", "-d", "-j", "link", "show", "dev", substrate.PortName(n.Node))
		for _, flag := range []string{`"locked":true`, `"learning":false`, `"flood":false`, `"mcast_flood":false`,
			`"bcast_flood":false`} {
			if !strings.Contains(text, flag) {
				t.Errorf("the guest's port is not %s: %s", flag, text)
			}
		}
	})
	t.Run("its virtual CPUs have a queue each", func(t *testing.T) { wantQueues(t, saw, len(two)) })
	t.Run("a tenant's root reaches nobody", func(t *testing.T) { w.wantKeptIn(t, n) })
	t.Run("libvirt dies", func(t *testing.T) {
		p, ok := w.libvirt()
		if !ok {
			t.Fatal("libvirt does not run")
		}
		check(t, unix.Kill(p.PID, unix.SIGKILL))
		eventually(t, "libvirt ends", func() bool { return !p.Runs() })
		if !r.QEMU.Runs() {
			t.Fatal("QEMU died with libvirt")
		}
		seen, err := w.Observe(t.Context(), n.Ref)
		check(t, err)
		if seen.Allocation == nil || !slices.Equal(seen.Allocation.Cells[0].Cores, two) {
			t.Errorf("observed that it has %+v", seen.Allocation)
		}
		if !seen.Running || seen.Limits.CPU != "2 cpus" || seen.Limits.Memory != "512 MiB" {
			t.Errorf("observed %+v", seen)
		}
		check(t, w.Ensure(t.Context(), n))
		if now, _ := b.read(); now != r {
			t.Error("a guest that runs was restarted")
		}
	})
	t.Run("QEMU dies", func(t *testing.T) {
		w.crash(t, n.Ref)
		seen, err := w.Observe(t.Context(), n.Ref)
		check(t, err)
		if !seen.Present || seen.Running || !strings.HasPrefix(seen.Detail, "its QEMU has ended") {
			t.Errorf("observed %+v", seen)
		}
		check(t, w.Remove(t.Context(), n.Ref))
		check(t, w.Remove(t.Context(), substrate.Ref{Cluster: "c1", Node: n.Node}))
		w.wantNothingLeft(t)
		if _, runs := w.libvirt(); runs {
			t.Error("libvirt runs without a guest")
		}
	})
	t.Run("libvirt and QEMU die", func(t *testing.T) {
		n := node("c1", 1, 1)
		check(t, w.Ensure(t.Context(), n))
		p, _ := w.libvirt()
		check(t, unix.Kill(p.PID, unix.SIGKILL))
		w.crash(t, n.Ref)
		check(t, w.Remove(t.Context(), substrate.Ref{Cluster: "c1", Node: n.Node}))
		w.wantNothingLeft(t)
	})
}

func TestAGuestOutlivesItsController(t *testing.T) {
	needs(t)
	s := idling(t)
	w := s.open(t)
	w.sharedOf(t, "c1")
	text, err := json.Marshal(s)
	check(t, err)
	controller := exec.Command(os.Args[0])
	controller.Env = append(os.Environ(), siteVariable+"="+string(text))
	said, err := controller.StdoutPipe()
	check(t, err)
	check(t, controller.Start())
	line, err := bufio.NewReader(said).ReadString('\n')
	check(t, err)
	if line != "the guest runs\n" {
		t.Errorf("the controller says %q", line)
	}
	check(t, controller.Process.Kill())
	_ = controller.Wait() // it was killed
	n := node("c1", 1, 1)
	before, _ := w.bootOf(t, n.Ref).read()
	if _, runs := w.libvirt(); !runs {
		t.Error("libvirt died with the controller")
	}
	check(t, w.Ensure(t.Context(), n))
	seen, err := w.Observe(t.Context(), n.Ref)
	check(t, err)
	if now, _ := w.bootOf(t, n.Ref).read(); !seen.Running || now != before {
		t.Errorf("the guest did not live on: %+v", seen)
	}
}

// wantQueues wants each of a guest's virtual CPUs to have queues of its own, of the NIC and of a disk, whose interrupts it
// handles itself.
func wantQueues(t *testing.T, saw map[string]string, cpus int) {
	t.Helper()
	found := map[string]int{}
	for _, line := range regexp.MustCompile(`(?m)^ *(\d+):.* virtio\d+-(input|output|req)\.(\d+)$`).
		FindAllStringSubmatch(saw["/proc/interrupts"], -1) {
		found[line[2]]++
		if on := saw["/proc/irq/"+line[1]+"/smp_affinity_list"]; on != line[3] {
			t.Errorf("queue %s.%s is handled on CPU %s", line[2], line[3], on)
		}
	}
	const disks = 2
	if found["input"] != cpus || found["output"] != cpus || found["req"] != disks*cpus {
		t.Errorf("interrupts of its queues are %v:\n%s", found, saw["/proc/interrupts"])
	}
}

// affinity is where a thread of a process may run.
func affinity(t *testing.T, pid int, thread string) []int {
	t.Helper()
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
	for _, path := range names {
		text, _ := os.ReadFile(path)
		if strings.TrimSpace(string(text)) != thread {
			continue
		}
		tid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		var set unix.CPUSet
		check(t, unix.SchedGetaffinity(tid, &set))
		var cpus []int
		for cpu := range 1024 {
			if set.IsSet(cpu) {
				cpus = append(cpus, cpu)
			}
		}
		return cpus
	}
	t.Errorf("QEMU has no thread %q", thread)
	return nil
}

// hears waits until the console of a guest that runs matches. An emulated kernel with several CPUs stalls for good in its first
// minute, rarely, and says so on the console (QEMU 7.2, TCG). Such a guest is reset, which is counted and printed.
func hears(t *testing.T, v *virt, b boot, pattern *regexp.Regexp) (match [][]byte) {
	t.Helper()
	seen, resets := 0, 0
	eventually(t, "the console of the guest matches "+pattern.String(), func() bool {
		text, err := os.ReadFile(b.path(consoleFile))
		check(t, err)
		if match = pattern.FindSubmatch(text); match != nil {
			return true
		}
		if stalls := bytes.Count(text, []byte("detected stall")); stalls > seen && resets < 3 {
			seen, resets = stalls, resets+1
			t.Logf("the emulated kernel has stalled; reset %d", resets)
			check(t, v.with(t.Context(), b.name, func(d libvirt.Domain) error { return v.rpc.DomainReset(d, 0) }))
		}
		return false
	})
	return match
}

// The machine that is promised here is no machine that this host is: NUMA nodes cannot be bound to what is not there, so
// the guest is started by hand, without that and without pins. It has nothing but a kernel, and tells its console.
func TestAGuestSeesTheTopologyThatWasPromised(t *testing.T) {
	testall.Only(t)
	needs(t)
	s := idling(t)
	s.Image.Kernel, s.First = image(t, "inspector").Kernel, build(t, "./testdata/looker")
	w := s.open(t)
	w.sharedOf(t, "c1")
	n := node("c1", 1, 1)
	facts := inventory.Facts{Arch: "amd64", NUMA: []inventory.NUMANode{{ID: 0, Distances: []int{10, 21, 31}},
		{ID: 1, Distances: []int{21, 10, 31}}, {ID: 2, Distances: []int{31, 31, 10}}}}
	for id := range 6 {
		facts.Layout = append(facts.Layout, inventory.Core{ID: 2 * id, CPUs: []int{2 * id, 2*id + 1}, NUMA: id / 2,
			Package: id / 4, Cache: 4 * (id / 2)})
	}
	allocation := place.Allocation{Share: 1, Cells: []place.Cell{{NUMA: 0, Cores: []int{0}, MemoryMiB: 128},
		{NUMA: 2, Cores: []int{8}, MemoryMiB: 128}}}
	b := w.bootOf(t, n.Ref)
	check(t, os.MkdirAll(b.dir, 0o711))
	check(t, os.WriteFile(filepath.Join(filepath.Dir(b.dir), "boot"), []byte("1"), 0o600))
	check(t, os.Chmod(filepath.Dir(b.dir), 0o711))
	check(t, w.writeFiles(b, n, firstUser))
	described, err := domain.Describe(domain.Guest{
		Name: b.name, User: firstUser, Facts: facts, Allocation: allocation, Kernel: b.inside(kernelFile),
		Initramfs: b.inside(initramfsFile), CommandLine: commandLine,
		Root:    domain.Disk{Path: b.inside(rootFile), Serial: protocol.GuestRoot},
		Agent:   domain.Disk{Path: b.inside(agentFile), Serial: protocol.GuestAgent},
		Console: b.inside(consoleFile), NIC: substrate.PortName(n.Node), MAC: n.MAC,
	})
	check(t, err)
	for _, part := range []string{"cputune", "numatune"} {
		described.XML = regexp.MustCompile(`(?s)<`+part+`>.*</`+part+`>`).ReplaceAllString(described.XML, "")
	}
	v, err := w.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.close()
	check(t, makeTap(w.netns(), substrate.PortName(n.Node), domain.Queues(4)))
	if _, err := w.start(t.Context(), v, b, described.XML); err != nil {
		t.Fatal(err)
	}
	check(t, v.resume(t.Context(), b.name))
	begin := time.Now()
	said := hears(t, v, b, regexp.MustCompile(`(?m)^SAW (.*?)\r?\n`))
	t.Logf("it spoke after %.1f s", time.Since(begin).Seconds())
	var saw map[string]string
	check(t, json.Unmarshal(said[1], &saw))
	node, cpu := "/sys/devices/system/node/node", "/sys/devices/system/cpu/cpu"
	for path, want := range map[string]string{
		node + "0/cpulist": "0-1", node + "1/cpulist": "2-3", node + "0/distance": "10 31", node + "1/distance": "31 10",
		cpu + "0/topology/thread_siblings_list": "0-1", cpu + "3/topology/thread_siblings_list": "2-3",
		cpu + "0/topology/physical_package_id": "0", cpu + "3/topology/physical_package_id": "1",
	} {
		if saw[path] != want {
			t.Errorf("%s: %q, want %q", path, saw[path], want)
		}
	}
	if t.Failed() {
		for _, name := range slices.Sorted(maps.Keys(saw)) {
			t.Log(name, saw[name])
		}
	}
}
