package netboot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/inventory"
	"muster/internal/kit/netns"
	"muster/internal/netboot/onlink"
	"muster/internal/protocol"
)

// segment is a network of a test's own, in a namespace: a bridge with the controller's address, and what is plugged in.
type segment struct {
	t  *testing.T
	ns string
}

// newSegment makes one; it is gone when the test ends.
func newSegment(t *testing.T) *segment {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	s := &segment{t, newNamespace(t)}
	s.run("ip", "link", "set", "lo", "up")
	s.run("ip", "link", "add", "br0", "type", "bridge", "forward_delay", "0")
	s.run("ip", "addr", "add", "10.78.0.1/16", "dev", "br0")
	s.run("ip", "link", "set", "br0", "up")
	return s
}

func newNamespace(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "net")
	if err := netns.New(path, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return path
}

// in is a command in a network namespace.
func in(ns string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=" + ns}, args...)...)
}

func (s *segment) run(args ...string) string { s.t.Helper(); return output(s.t, in(s.ns, args...)) }

func output(t testing.TB, c *exec.Cmd) string {
	t.Helper()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
	return string(out)
}

// host plugs in a host of a namespace of its own, whose eth0 has that MAC and no address. It answers the namespace.
func (s *segment) host(mac string) string {
	s.t.Helper()
	ns := newNamespace(s.t)
	port := "p" + strings.ReplaceAll(mac[6:], ":", "")
	s.run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", ns)
	s.run("ip", "link", "set", port, "master", "br0", "up")
	output(s.t, in(ns, "ip", "link", "set", "lo", "up"))
	output(s.t, in(ns, "ip", "link", "set", "eth0", "up"))
	return ns
}

// network is the segment as the boot services know it.
func (s *segment) network(mode inventory.Mode) inventory.Network {
	return inventory.Network{
		Name: "rack", Namespace: s.ns, Interface: "br0", Address: netip.MustParsePrefix("10.78.0.1/16"), Mode: mode,
		First: netip.MustParseAddr("10.78.0.10"), Last: netip.MustParseAddr("10.78.255.250"), Unknown: inventory.UnknownIgnore,
	}
}

// serve runs the boot services until the test ends.
func (s *segment) serve(mode inventory.Mode, controller Controller, blobs Blobs, init []byte) {
	s.t.Helper()
	start(s.t, Config{
		Network:    s.network(mode),
		Controller: controller,
		Blobs:      blobs,
		Init:       init,
		Firmware:   []string{"/nonexistent", "/usr/lib/ipxe"},
		Log:        slog.New(slog.NewTextHandler(testLog{s.t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
}

// start returns when the services answer.
func start(t *testing.T, c Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, c) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	eventually(t, 2*time.Minute, "the boot services are open", func() bool {
		select {
		case err := <-ended:
			ended <- nil
			t.Fatal(err)
		default:
		}
		return strings.Contains(output(t, in(c.Network.Namespace, "ss", "-Hlnt")), ":8069")
	})
}

func eventually(t *testing.T, within time.Duration, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

type testLog struct{ t *testing.T }

func (l testLog) Write(line []byte) (int, error) {
	l.t.Logf("%s", strings.TrimSpace(string(line)))
	return len(line), nil
}

// fakeController knows machines by their MACs and remembers what it was told.
type fakeController struct {
	mu        sync.Mutex
	known     map[string]bool // by MAC; true: it has something to boot
	boot      BootConfig
	leases    map[string]netip.Addr // by MAC
	declined  map[netip.Addr]bool
	seen      []protocol.BootProgress
	proofs    []string
	enrolled  []protocol.Enrolment
	committed int
	broken    error
}

func newController(macs ...string) *fakeController {
	h := &fakeController{known: map[string]bool{}, leases: map[string]netip.Addr{}, declined: map[netip.Addr]bool{}}
	for _, mac := range macs {
		h.known[mac] = true
	}
	return h
}

func (h *fakeController) Leases(_ context.Context, _ string, asks []Ask) ([]Granted, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil {
		return nil, h.broken
	}
	granted := make([]Granted, len(asks))
	for i, a := range asks {
		granted[i] = h.grant(a)
	}
	return granted, nil
}

func (h *fakeController) grant(a Ask) Granted {
	mac := a.MAC.String()
	if _, known := h.known[mac]; !known {
		return Granted{Err: ErrUnknown}
	}
	if a.Decline {
		h.declined[a.Want] = true
		delete(h.leases, mac)
		return Granted{}
	}
	taken := map[netip.Addr]bool{}
	for other, address := range h.leases {
		taken[address] = other != mac
	}
	address := h.leases[mac]
	if a.Want.IsValid() && a.Want != address {
		if taken[a.Want] || h.declined[a.Want] {
			return Granted{Err: ErrTaken}
		}
		address = a.Want
	}
	if !address.IsValid() {
		for address = netip.MustParseAddr("10.78.0.10"); taken[address] || h.declined[address]; address = address.Next() {
		}
	}
	if a.Commit {
		h.leases[mac] = address
		h.committed++
	}
	return Granted{Lease: Lease{MAC: a.MAC, Address: address, Until: time.Now().Add(a.For), Known: true}}
}

func (h *fakeController) Release(_ context.Context, _ string, mac net.HardwareAddr, address netip.Addr) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leases[mac.String()] == address {
		delete(h.leases, mac.String())
	}
	return nil
}

func (h *fakeController) knows(mac net.HardwareAddr) error {
	boots, known := h.known[mac.String()]
	switch {
	case h.broken != nil:
		return h.broken
	case !known:
		return ErrUnknown
	case !boots:
		return ErrNothing
	}
	return nil
}

func (h *fakeController) Known(_ context.Context, _ string, macs []net.HardwareAddr) ([]bool, error) {
	known := make([]bool, len(macs))
	for i, mac := range macs {
		err := h.knows(mac)
		if known[i] = err == nil || errors.Is(err, ErrNothing); !known[i] && !errors.Is(err, ErrUnknown) {
			return nil, err
		}
	}
	return known, nil
}

func (h *fakeController) BootConfig(_ context.Context, _ string, mac net.HardwareAddr) (BootConfig, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.boot
	b.Address = h.leases[mac.String()]
	return b, h.knows(mac)
}

func (h *fakeController) Plan(_ context.Context, _ string, mac net.HardwareAddr) (protocol.Plan, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return protocol.Plan{Keep: "node-1"}, h.knows(mac)
}

func (h *fakeController) Seen(_ context.Context, _ string, p protocol.BootProgress, proof string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.Step == protocol.StepInit && proof != proofOfToken {
		return ErrProof
	}
	h.seen, h.proofs = append(h.seen, p), append(h.proofs, proof)
	return h.broken
}

// Admit believes a caller whose frames are the machine's; in tests without a link, every caller.
func (h *fakeController) Admit(_ context.Context, _ string, mac net.HardwareAddr, who onlink.Caller) error {
	if who.Neighbours == nil {
		return nil
	}
	return who.Is([]string{mac.String()})
}

func (h *fakeController) Held(context.Context, string) ([]Lease, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var held []Lease
	for mac, address := range h.leases {
		held = append(held, Lease{MAC: hardware(mac), Address: address})
	}
	return held, nil
}

func (h *fakeController) Enrol(_ context.Context, _ string, _ net.HardwareAddr, e protocol.Enrolment) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enrolled = append(h.enrolled, e)
	return h.broken
}

// steps are those that a machine was seen to reach.
func (h *fakeController) steps(mac string) []protocol.BootStep {
	h.mu.Lock()
	defer h.mu.Unlock()
	var steps []protocol.BootStep
	for _, p := range h.seen {
		if p.MAC == mac {
			steps = append(steps, p.Step)
		}
	}
	return steps
}

func (h *fakeController) leaseOf(mac string) netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leases[mac]
}

var proofOfToken = digestOf([]byte("one-time"))[len("sha256:"):]

// folder is blobs in a directory, named by their digests.
type folder string

func newFolder(t *testing.T) folder { return folder(t.TempDir()) }

func (f folder) Blob(digest string) (Blob, error) {
	file, err := os.Open(filepath.Join(string(f), digest))
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (f folder) add(t *testing.T, content []byte) string {
	t.Helper()
	digest := digestOf(content)
	if err := os.WriteFile(filepath.Join(string(f), digest), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return digest
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// program is a path of a program that the test needs.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{"/usr/bin", "/usr/sbin", "/bin", "/sbin"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatalf("%s is missing: scripts/setup.sh test installs it", name)
	return ""
}

// daemon is a program that runs until the test ends.
type daemon struct {
	*exec.Cmd
	log string
}

func (d daemon) said() string { text, _ := os.ReadFile(d.log); return string(text) }

// run starts a program in a namespace.
func run(t *testing.T, ns string, args ...string) daemon {
	t.Helper()
	d := daemon{in(ns, args...), filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(d.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	d.Stdout, d.Stderr = log, log
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.Process.Kill()
		_ = d.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", args[0], tail(d.said(), 4000))
		}
	})
	return d
}

func tail(text string, n int) string {
	if len(text) > n {
		return "…" + text[len(text)-n:]
	}
	return text
}

func fileOf(t *testing.T, format string, args ...any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(fmt.Sprintf(format, args...)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
