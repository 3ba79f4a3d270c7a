package noded

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/drivers"
	"muster/internal/protocol"
)

// fakeMachine is hardware that writes down what was done with it.
type fakeMachine struct {
	mu      sync.Mutex
	log     []string
	away    bool // the head does not serve /home
	slept   time.Duration
	banners []string
}

func (m *fakeMachine) note(words ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, strings.Join(words, " "))
}

func (m *fakeMachine) wake(_ context.Context, name string, _ func(string, ...any)) {
	m.note("wake", name)
}
func (m *fakeMachine) drivers(context.Context, func(string, ...any)) { m.note("drivers") }
func (m *fakeMachine) mountHome(source string) error                 { m.note("mount", source); return nil }

func (m *fakeMachine) attach(a protocol.Attachment) error {
	m.note("attach", a.Address)
	return nil
}

func (m *fakeMachine) catchUp(time.Duration) (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	slept := m.slept
	m.slept = 0
	return slept, nil
}

func (m *fakeMachine) bridge() error { m.note("bridge"); return nil }

func (m *fakeMachine) mountCPUSets() error                                   { return nil }
func (m *fakeMachine) keepLease(ctx context.Context, _ func(string, ...any)) { <-ctx.Done() }

func (m *fakeMachine) served(context.Context, string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return errors.New("connection refused")
	}
	return nil
}

func (m *fakeMachine) banner(_ context.Context, address string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.banners = append(m.banners, address)
	return nil
}

func (m *fakeMachine) end(machine bool) error {
	if machine {
		m.note("off")
	}
	return nil
}

func (m *fakeMachine) did() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.log)
}

// onMetal makes the lab's node one with a machine of its own.
func (l *lab) onMetal(t *testing.T, change func(*protocol.BootFile)) {
	t.Helper()
	text, err := os.ReadFile(l.bootFile)
	must(t, err)
	var boot protocol.BootFile
	must(t, json.Unmarshal(text, &boot))
	boot.Attachment = &protocol.Attachment{MAC: "02:4d:00:01:02:00", Address: "10.99.0.2/16", Home: "10.99.0.1:/home"}
	change(&boot)
	text, err = json.Marshal(boot)
	must(t, err)
	must(t, os.WriteFile(l.bootFile, text, 0o600))
}

func TestAMachineWakesJoinsAndIsSwitchedOff(t *testing.T) {
	l := newLab(t)
	l.onMetal(t, func(*protocol.BootFile) {})
	l.machine.away = true
	l.controller.listen(t, filepath.Join(l.sockets, "one.sock"))
	stop := l.run(t)
	l.controller.until(t, "sshd runs", func() bool { return l.processes.has("start sshd") })
	time.Sleep(50 * time.Millisecond)
	if l.processes.has("start slurmd") {
		t.Error("slurmd runs without /home")
	}
	l.machine.mu.Lock()
	l.machine.away = false
	l.machine.mu.Unlock()
	l.untilReady(t)
	l.controller.until(t, "slurmd runs", func() bool { return l.processes.has("start slurmd") })
	must(t, stop())
	did := l.machine.did()
	slices.Sort(did[1:3]) // drivers are loaded beside
	if got, want := strings.Join(did, ", "), "wake n1, attach 10.99.0.2/16, drivers, mount 10.99.0.1:/home, off"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if text, _ := l.disk.read(sshdFile); !strings.Contains(text, "\nListenAddress 10.99.0.2\n") {
		t.Errorf("sshd listens where others may be: %s", text)
	}
	if l.machine.banners[0] != "10.99.0.2:22" {
		t.Errorf("sshd is looked for at %s", l.machine.banners[0])
	}
	if !strings.Contains(l.console.String(), "connection refused; trying on") {
		t.Errorf("console: %s", l.console.String())
	}
}

func TestAMachineSpeaksToAControllerThatComesLateByTCP(t *testing.T) {
	l := newLab(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	must(t, listener.Close())
	l.onMetal(t, func(b *protocol.BootFile) {
		b.Endpoints = []string{protocol.Endpoint(netip.MustParseAddr("127.0.0.1")), "https://" + address}
	})
	l.run(t)
	time.Sleep(200 * time.Millisecond)
	listener, err = net.Listen("tcp", address)
	must(t, err)
	l.controller.serve(t, listener)
	l.untilReady(t)
}

func TestARefusedMachineIsSwitchedOff(t *testing.T) {
	l := newLab(t)
	l.onMetal(t, func(*protocol.BootFile) {})
	l.controller.stale["n1"] = true
	l.controller.listen(t, filepath.Join(l.sockets, "one.sock"))
	if err := run(t.Context(), Options{Schedulers: drivers.Schedulers(), BootFile: l.bootFile, Console: &l.console},
		l.deps()); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	if did := l.machine.did(); did[len(did)-1] != "off" {
		t.Errorf("%v", did)
	}
}

func TestAMachineThatIsNoLongerWantedIsSwitchedOffAtItsNextReport(t *testing.T) {
	l := newLab(t)
	l.controller.every = 20 * time.Millisecond
	l.onMetal(t, func(*protocol.BootFile) {})
	l.controller.listen(t, filepath.Join(l.sockets, "one.sock"))
	done := make(chan error, 1)
	go func() {
		done <- run(t.Context(), Options{Schedulers: drivers.Schedulers(), BootFile: l.bootFile, Console: &l.console}, l.deps())
	}()
	l.untilReady(t)
	l.controller.mu.Lock()
	l.controller.stale["n1"] = true // which the poll under way does not hear of
	l.controller.mu.Unlock()
	select {
	case err := <-done:
		if did := l.machine.did(); !errors.Is(err, ErrRefused) || did[len(did)-1] != "off" {
			t.Errorf("%v, %v", err, did)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it goes on")
	}
}

func TestAMachinesHeadHasItsHomeBeforeAnythingIsWrittenThere(t *testing.T) {
	l := newLab(t)
	l.onMetal(t, func(b *protocol.BootFile) { b.Attachment.Home = "" })
	l.controller.listen(t, filepath.Join(l.sockets, "one.sock"))
	l.run(t)
	l.untilReady(t)
	did := l.machine.did()
	if i, j := slices.Index(did, "attach 10.99.0.2/16"), slices.Index(did, "mount "); i < 0 || j < i {
		t.Errorf("%v", did)
	}
}

func TestTheWordsOfAKernelsCommandLine(t *testing.T) {
	line := "initrd=initrd muster.server=http://10.78.0.1:8069 muster.mac=52:54:00:00:00:01 quiet\n"
	for name, want := range map[string]string{"muster.server": "http://10.78.0.1:8069", "muster.mac": "52:54:00:00:00:01",
		"quiet": "", "server": ""} {
		if got := protocol.BootArgument(line, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestDevicesAreLoadedByTheirAliasesButDisplays(t *testing.T) {
	dir := t.TempDir()
	for device, alias := range map[string]string{"a/nic": "pci:v00001AF4d00001000bc02sc00i00",
		"b": "pci:v00001234d00001111bc03sc00i00", "b/nic2": "pci:v00001AF4d00001000bc02sc00i00", "c": "acpi:PNP0501:"} {
		must(t, os.MkdirAll(filepath.Join(dir, device), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, device, "modalias"), []byte(alias+"\n"), 0o600))
	}
	if got, want := strings.Join(deviceAliases(dir), " "), "acpi:PNP0501: pci:v00001AF4d00001000bc02sc00i00"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSettingsThatAKernelDoesNotHaveAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "kernel"), 0o755))
	must(t, writeSettings(dir))
	if text, err := os.ReadFile(filepath.Join(dir, "kernel/panic")); err != nil || string(text) != "10" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestNobodyLeadsAnotherByALinkOnAMachine: kernels that are not Debian's come without these.
func TestNobodyLeadsAnotherByALinkOnAMachine(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"fs", "kernel/yama"} {
		must(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
	}
	must(t, writeSettings(dir))
	for name, want := range map[string]string{
		"fs/protected_symlinks": "1", "fs/protected_hardlinks": "1", "fs/protected_fifos": "2", "fs/protected_regular": "2",
		"kernel/yama/ptrace_scope": "0", // MPI
	} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != want {
			t.Errorf("%s is %q, %v", name, text, err)
		}
	}
}

func TestAProbeThatHangsIsNotStartedTwice(t *testing.T) {
	calls, hang := 0, make(chan struct{})
	probe := inTime(func() error { calls++; <-hang; return nil })
	for range 3 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("no result"))
		if err := probe(ctx); err == nil || err.Error() != "no result" {
			t.Error(err)
		}
		cancel()
	}
	close(hang)
	if err := probe(t.Context()); err != nil || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
