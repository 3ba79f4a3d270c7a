package bootattack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"

	"muster/internal/core"
	"muster/internal/drivers"
	switches "muster/internal/drivers/switch"
	"muster/internal/identity"
	"muster/internal/inventory"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/kit/netns"
	"muster/internal/monitor"
	"muster/internal/netboot"
	"muster/internal/netboot/control"
	"muster/internal/netboot/onlink"
	"muster/internal/protocol"
	"muster/test/ovs"
)

func TestMain(m *testing.M) {
	Main()
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // cores have little to do with it
	path, err := program()             // before several write it at once
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.Remove(path)
	os.Exit(code)
}

const (
	victimMAC, thiefMAC   = "52:54:00:00:00:01", "52:54:00:00:00:02"
	victimAt, thiefAt     = "10.78.1.66", "10.78.1.77"
	boots, door           = "http://10.78.0.1:8069", "https://10.78.0.1:7421"
	victimName, thiefName = "r1", "r2"
)

// site is the real boot services and the real agents' door on a segment with two enrolled machines: the victim r1, and r2,
// on which the thief is. What is real is all but the machines, whose part the test plays.
type site struct {
	*testing.T
	ns            string
	network       inventory.Network
	boots         *control.Controller
	victim, thief string // namespaces
	marker        string // another, of an unknown machine
	mark          int
	log           *journal
}

type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

type image struct{}

func (image) Inspector() (string, error) { return "sha256:1d", nil }
func (image) BootFiles(digest string) (control.Files, error) {
	return control.Files{Root: protocol.Blob{Digest: digest}, Agent: protocol.Blob{Digest: "sha256:a"}, Kernel: "sha256:ce",
		Drivers: "none"}, nil
}
func (image) Blob(string) (netboot.Blob, error) { return nil, os.ErrNotExist }

func newNamespace(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "net")
	if err := netns.New(path, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	return path
}

func in(t *testing.T, ns string, args ...string) string {
	t.Helper()
	out, err := exec.Command("nsenter", append([]string{"--net=" + ns}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// newSite makes one in a mode, with a switch. Both machines have had their addresses before.
func newSite(t *testing.T, mode inventory.Mode, kind string, change func(*inventory.Network)) *site {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	s := &site{T: t, ns: newNamespace(t), log: &journal{}}
	in(t, s.ns, "ip", "link", "set", "lo", "up")
	in(t, s.ns, "ip", "link", "add", "br0", "type", "bridge", "forward_delay", "0")
	in(t, s.ns, "ip", "addr", "add", "10.78.0.1/16", "dev", "br0")
	in(t, s.ns, "ip", "link", "set", "br0", "up")
	s.network = inventory.Network{
		Name: "boot", Namespace: s.ns, Interface: "br0", Address: netip.MustParsePrefix("10.78.0.1/16"), Mode: mode, Switch: kind,
		First: netip.MustParseAddr("10.78.1.1"), Last: netip.MustParseAddr("10.78.1.100"), Unknown: inventory.UnknownEnrol,
	}
	if change != nil {
		change(&s.network)
	}
	s.victim, s.thief = s.host("m1n0", victimMAC), s.host("m2n0", thiefMAC)
	if kind == "ovs" {
		s.network.SwitchBridge = ovs.Bridge
		s.network.SwitchDatabase, _ = ovs.Start(t, s.ns, "m1n0", "m2n0")
	}
	driver, err := drivers.Switches().Open(s.network)
	if err != nil {
		t.Fatal(err)
	}
	for port, mac := range map[string]string{"m1n0": victimMAC, "m2n0": thiefMAC} {
		if err := driver.Put(t.Context(), switches.Port{Name: port, MACs: []net.HardwareAddr{hardware(mac)}},
			switches.Common); err != nil {
			t.Fatal(err)
		}
	}
	s.open()
	in(t, s.thief, "ip", "addr", "add", thiefAt+"/16", "dev", "eth0")
	return s
}

// host plugs one in.
func (s *site) host(port, mac string) string {
	s.Helper()
	ns := newNamespace(s.T)
	in(s.T, s.ns, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", ns)
	if s.network.Switch == "ovs" {
		in(s.T, s.ns, "ip", "link", "set", port, "up")
		in(s.T, ns, "ethtool", "-K", "eth0", "tx", "off") // else packets through a switch in user space have no checksum
	} else {
		in(s.T, s.ns, "ip", "link", "set", port, "master", "br0", "up")
	}
	in(s.T, ns, "ip", "link", "set", "lo", "up")
	in(s.T, ns, "ip", "link", "set", "eth0", "up")
	return ns
}

// open starts the services.
func (s *site) open() {
	s.Helper()
	authority, err := identity.Open(identity.NewRoot())
	if err != nil {
		s.Fatal(err)
	}
	s.boots = &control.Controller{
		DB: kindstest.Open(s.T, filepath.Join(s.TempDir(), "db")), Authority: authority, Images: image{},
	}
	s.update(func(ctx context.Context, tx *core.Tx) error {
		if err := network.Put(ctx, tx, s.network); err != nil {
			return err
		}
		for name, at := range map[string][2]string{victimName: {victimMAC, victimAt}, thiefName: {thiefMAC, thiefAt}} {
			m := inventory.Machine{ID: "id-" + name, Name: name, Substrate: "metal", Network: "boot", MACs: []string{at[0]}}
			if err := machine.Add(ctx, tx, m); err != nil {
				return err
			}
			if s.network.Mode != inventory.ModeOwn {
				continue
			}
			if err := network.PutLeases(ctx, tx, "boot",
				[]network.Lease{{Network: "boot", Address: netip.MustParseAddr(at[1]), MAC: at[0]}}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	link, err := onlink.Open(s.ns, "br0")
	if err != nil {
		s.Fatal(err)
	}
	listener, err := link.Listen("10.78.0.1:7421")
	if err != nil {
		s.Fatal(err)
	}
	config, err := authority.ServerTLS(time.Now())
	if err != nil {
		s.Fatal(err)
	}
	watch := monitor.New(s.boots.DB, authority, "test", log)
	watch.Schedulers, watch.Substrates = drivers.Schedulers(), drivers.Substrates()
	agents := &http.Server{Handler: watch.HandlerOn("boot"), ConnContext: onlink.WithCaller,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = agents.Serve(tls.NewListener(listener, config)) })
	running.Go(func() { _ = watch.Run(ctx) })
	running.Go(func() {
		err := netboot.Serve(ctx, netboot.Config{Network: s.network, Link: link, Controller: s.boots, Blobs: image{},
			Init: []byte("init"), Firmware: []string{"/usr/lib/ipxe"}, Log: log})
		if err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(func() {
		_ = agents.Close()
		cancel()
		running.Wait()
		link.Close()
		if s.Failed() {
			s.Logf("log:\n%s", s.log)
		}
	})
	s.until("the boot services are open", func() bool { return strings.Contains(in(s.T, s.ns, "ss", "-Hlnt"), ":8069") })
}

func (s *site) until(what string, is func() bool) {
	s.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not within two minutes: %s", what)
		}
	}
}

func (s *site) update(f func(context.Context, *core.Tx) error) {
	s.Helper()
	if err := s.boots.DB.Update(context.Background(), func(tx *core.Tx) error {
		return f(context.Background(), tx)
	}); err != nil {
		s.Fatal(err)
	}
}

// begin makes a machine boot for an inspection that erases, or for another duty.
func (s *site) begin(machineID string, duty protocol.Duty) (number int64, token string) {
	s.Helper()
	id := "id-" + machineID
	s.update(func(ctx context.Context, tx *core.Tx) error {
		if err := machine.StartInspection(ctx, tx, id, false); err != nil {
			return err
		}
		m, err := machine.Get(ctx, tx, id)
		if err != nil {
			return err
		}
		number = m.Boot
		file := protocol.BootFile{Node: id, Name: machineID, Boot: number, Duty: duty}
		begun, err := machine.BeginBoot(ctx, tx, machine.Boot{MachineID: id, Subject: id, Number: number, Image: "sha256:1d",
			File: file, Erase: duty == protocol.Inspect})
		if err == nil && !begun {
			err = errors.New("the boot has not begun")
		}
		return err
	})
	return number, s.boots.Authority.Token(id, number)
}

func (s *site) boot(machineID string) (b machine.Boot) {
	s.Helper()
	s.update(func(ctx context.Context, tx *core.Tx) (err error) {
		b, err = machine.BootOn(ctx, tx, "id-"+machineID)
		return err
	})
	return b
}

// leaseAt is the MAC that has an address; "" if none has.
func (s *site) leaseAt(address string) (mac string) {
	s.Helper()
	s.update(func(ctx context.Context, tx *core.Tx) error {
		l, err := network.LeaseAt(ctx, tx, "boot", netip.MustParseAddr(address))
		if errors.Is(err, core.ErrNotFound) {
			return nil
		}
		mac = l.MAC
		return err
	})
	return mac
}

// as does acts and gives what came of the last.
func (s *site) as(ns string, uid int, acts ...Act) Result {
	s.Helper()
	results, err := As(ns, uid, acts...)
	if err != nil {
		s.Fatal(err)
	}
	return results[len(results)-1]
}

func script(mac, source string) Act {
	return Act{Do: "http", Method: "GET", URL: boots + "/boot/v1/script?mac=" + mac, Source: source}
}

func proofOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "Boot " + hex.EncodeToString(sum[:])
}

func progress(mac, step, token, source string) Act {
	return Act{Do: "http", Method: "POST", URL: boots + "/boot/v1/progress", Body: `{"mac":"` + mac + `","step":"` + step + `"}`,
		Authorization: proofOf(token), Source: source}
}

func hardware(text string) net.HardwareAddr {
	mac, err := net.ParseMAC(text)
	if err != nil {
		panic(err)
	}
	return mac
}

// dhcp is a DHCP packet in a MAC's name.
func dhcp(kind dhcpv4.MessageType, mac string, more ...dhcpv4.Modifier) []byte {
	p, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(hardware(mac)), dhcpv4.WithMessageType(kind)}, more...)...)
	if err != nil {
		panic(err)
	}
	return p.ToBytes()
}

func wants(address string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.ParseIP(address)))
}

func toUs() dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP("10.78.0.1")))
}

// frame is a UDP packet to a DHCP server in a frame that root makes.
func frame(sender, from string, port uint16, to string, data []byte) []byte {
	return frameTo(sender, from, port, to, 67, data)
}

// frameTo is one to any port.
func frameTo(sender, from string, port uint16, to string, toPort uint16, data []byte) []byte {
	f := append(append([]byte{255, 255, 255, 255, 255, 255}, hardware(sender)...), 8, 0)
	header := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0}
	binary.BigEndian.PutUint16(header[2:], uint16(28+len(data)))
	header = append(append(header, net.ParseIP(from).To4()...), net.ParseIP(to).To4()...)
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(header[10:], ^uint16(sum))
	udp := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, port), toPort)
	udp = append(binary.BigEndian.AppendUint16(udp, uint16(8+len(data))), 0, 0)
	return append(append(append(f, header...), udp...), data...)
}

// certificate is one of the site's own authority, with a key that no agent joined with.
func (s *site) certificate(node string, boot int64) (certificate, private string) {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		s.Fatal(err)
	}
	request := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))
	certificate, _, err = s.boots.Authority.CertifyAgent(request, identity.Agent{Node: node, Boot: boot}, time.Now())
	if err != nil {
		s.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.Fatal(err)
	}
	return certificate, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// powerOn is the victim's own way as far as its script: it asks for an address, has it, and asks what to boot.
func (s *site) powerOn() Result {
	s.Helper()
	if s.network.Mode == inventory.ModeOwn {
		request := dhcp(dhcpv4.MessageTypeRequest, victimMAC, wants(victimAt))
		s.as(s.victim, 0, Act{Do: "udp", Local: 68, Device: "eth0", To: "255.255.255.255:67", Data: request})
		s.until("the machine has its lease", func() bool { return s.leaseAt(victimAt) == victimMAC })
	}
	in(s.T, s.victim, "ip", "addr", "replace", victimAt+"/16", "dev", "eth0")
	return s.as(s.victim, 0, script(victimMAC, ""))
}

// firstStage is its way from there to its agent, which does what there is to do.
func (s *site) firstStage(number int64, token string, agent Act) Result {
	s.Helper()
	if r := s.as(s.victim, 0, progress(victimMAC, "init", token, "")); r.Status != http.StatusNoContent {
		s.Errorf("the first stage's report: %+v", r)
	}
	agent.Do, agent.URL, agent.Join = "join", door, protocol.JoinRequest{Node: "id-" + victimName, Boot: number, Token: token}
	return s.as(s.victim, 0, agent)
}
