package noded

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/boot/initramfs"
	"muster/internal/drivers/substrate"
	"muster/internal/kit/netns"
	"muster/internal/kit/testall"
	"muster/internal/protocol"
)

// site is a controller with hypervisors that have a cable between them.
type site struct {
	*testing.T
	f    *fakeController
	wire string // path of the network namespace in which the cables end
	of   protocol.HostedImage
	h    hypervisor // what they have in common
}

// siteHost is one of them.
type siteHost struct {
	*site
	id, dir, namespace string
	boot, revision     int64
	console            safeBuffer
}

// newSite has an image of guests. They become a program of ours: after a boot from what the image has, or in place of it, which
// is quick.
func newSite(t *testing.T, program string, boots bool) *site {
	image := needsGuests(t)
	s := &site{T: t, f: newFakeController(t), wire: filepath.Join(t.TempDir(), "wire"), h: hypervisor{Blobs: map[string]string{}}}
	dir := t.TempDir()
	s.h.Agent = filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-trimpath", "-o", s.h.Agent, program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	drivers := filepath.Join(image, "drivers.cpio.zst")
	if !boots {
		text, err := os.ReadFile(s.h.Agent)
		must(t, err)
		packed, err := initramfs.Pack(text) // of two archives of an initramfs the later one wins
		must(t, err)
		drivers = filepath.Join(dir, "drivers")
		must(t, os.WriteFile(drivers, packed, 0o600))
	}
	s.of = protocol.HostedImage{Digest: "sha256:" + strings.Repeat("1a", 32),
		Root: blob(t, s.h.Blobs, filepath.Join(image, "root.squashfs"))}
	s.of.Kernel, s.of.Drivers = blob(t, s.h.Blobs, filepath.Join(image, "vmlinuz")).Digest, blob(t, s.h.Blobs, drivers).Digest
	must(t, netns.New(s.wire, func() error { return nil }))
	t.Cleanup(func() { must(t, unix.Unmount(s.wire, unix.MNT_DETACH)) })
	inside(t, s.wire, "ip link set lo up && ip link add switch type bridge && ip link set switch up && ip address add "+
		"10.99.0.1/24 dev switch")
	return s
}

// host starts the number-th hypervisor.
func (s *site) host(number int) *siteHost {
	s.Helper()
	dir := s.TempDir()
	host := &siteHost{site: s, id: fmt.Sprintf("m%d", number), dir: dir, namespace: filepath.Join(dir, "netns"),
		boot: int64(number) + 3}
	s.f.tokens[host.id] = "secret"
	sockets := filepath.Join(dir, "sockets")
	must(s.T, os.Mkdir(sockets, 0o700))
	s.f.listen(s, filepath.Join(sockets, "one.sock"))
	must(s.T, netns.New(host.namespace, func() error { return nil }))
	s.Cleanup(func() { must(s.T, unix.Unmount(host.namespace, unix.MNT_DETACH)) })
	inside(s.T, host.namespace, fmt.Sprintf(
		"ip link set lo up && ip link add %[1]s type bridge && ip link set %[1]s up && ip address add 10.99.0.%[2]d/24 dev %[1]s",
		protocol.HostBridge, 10+number))
	inside(s.T, host.namespace, "ip link add nic type veth peer name port && ip link set nic master "+protocol.HostBridge+" up")
	holder := exec.Command("sleep", "60") // whose namespace the other end is given to
	must(s.T, netns.Do(s.wire, holder.Start))
	inside(s.T, host.namespace, fmt.Sprintf("ip link set port netns %d", holder.Process.Pid))
	must(s.T, holder.Process.Kill())
	_ = holder.Wait()
	inside(s.T, s.wire, fmt.Sprintf("ip link set port name port%[1]d && ip link set port%[1]d master switch up", number))

	h := s.h
	h.Dir, h.BootFile = dir, filepath.Join(dir, "boot.json")
	boot, err := json.Marshal(protocol.BootFile{
		Node: host.id, Name: "rack-" + host.id, Boot: host.boot, Token: "secret", Authority: s.f.authority,
		Endpoints: []string{"unix://" + sockets}, Duty: protocol.Host,
	})
	must(s.T, err)
	must(s.T, os.WriteFile(h.BootFile, boot, 0o600))
	text, err := json.Marshal(h)
	must(s.T, err)
	program, err := os.Executable()
	must(s.T, err)
	first := exec.Command(program)
	first.Env = append(os.Environ(), hostVariable+"="+string(text))
	first.Stdout, first.Stderr = &host.console, &host.console
	must(s.T, netns.Do(host.namespace, first.Start))
	s.Cleanup(func() {
		if s.Failed() {
			s.Logf("console of %s:\n%s", host.id, host.console.String())
			for path, text := range host.guestConsoles() {
				s.Logf("%s:\n%s", path, text[max(0, len(text)-8000):])
			}
		}
		_ = first.Process.Signal(unix.SIGTERM)
		_ = first.Wait()
	})
	s.f.until(s, host.id+" is a hypervisor without guests", func() bool {
		r, ok := s.f.hosted[host.id]
		return ok && r.Trouble == ""
	})
	return host
}

// want makes these all that the hypervisor is to hold.
func (h *siteHost) want(guests []protocol.HostedGuest, moves ...protocol.HostedMove) {
	h.f.mu.Lock()
	h.revision++
	wanted := protocol.Hosting{Revision: h.revision, Guests: guests, Moves: moves, Networks: []protocol.HostedNetwork{}}
	if len(guests)+len(moves) > 0 {
		wanted.Networks, wanted.Images = []protocol.HostedNetwork{{Cluster: "c1", Segment: 7}}, []protocol.HostedImage{h.of}
	}
	h.f.wanted[h.id] = wanted
	h.f.mu.Unlock()
	h.f.bell()
}

// state is what it says of its one guest. The caller has the controller's lock.
func (h *siteHost) state() protocol.HostedState {
	if guests := h.f.hosted[h.id].Guests; len(guests) == 1 {
		return guests[0]
	}
	return protocol.HostedState{}
}

// does has it do one step of a move, which must not fail.
func (h *siteHost) does(guests []protocol.HostedGuest, m protocol.HostedMove) (over protocol.HostedMoved) {
	h.Helper()
	h.want(guests, m)
	h.f.until(h, fmt.Sprintf("%s of step %d at %s", m.Do, m.Step, h.id), func() bool {
		for _, o := range h.f.hosted[h.id].Moves {
			if o.Number == m.Number && o.Step == m.Step {
				over = o
				return true
			}
		}
		return false
	})
	if over.Failed+over.Gone != "" {
		h.Fatalf("%s at %s: %s%s", m.Do, h.id, over.Failed, over.Gone)
	}
	return over
}

// counted is how far a guest has counted here, by its console.
func (h *siteHost) counted() (number string, count int) {
	for _, text := range h.guestConsoles() {
		for line := range strings.Lines(text) {
			if strings.HasSuffix(line, "\n") {
				_, _ = fmt.Sscanf(line, "COUNT %s %d", &number, &count)
			}
		}
	}
	return number, count
}

// guestConsoles are what its guests have written, by file.
func (h *siteHost) guestConsoles() map[string]string {
	consoles := map[string]string{}
	_ = filepath.WalkDir(filepath.Join(h.dir, "host/guests"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "console.log" {
			text, _ := os.ReadFile(path)
			consoles[path] = string(text)
		}
		return nil
	})
	return consoles
}

func (h *siteHost) countsBeyond(beyond int, within time.Duration) (number string, count int) {
	h.Helper()
	for end := time.Now().Add(within); ; time.Sleep(200 * time.Millisecond) {
		if number, count = h.counted(); count > beyond {
			return number, count
		}
		if time.Now().After(end) {
			h.Fatalf("the guest at %s does not count beyond %d", h.id, beyond)
		}
	}
}

// kill ends the process that holds its guests, as a crash would.
func (h *siteHost) kill() {
	h.Helper()
	for _, path := range glob("/proc/[0-9]*/environ") {
		environ, _ := os.ReadFile(path)
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if strings.Contains(string(environ), h.dir) && strings.HasSuffix(string(command), "agent\x00host\x00") {
			var pid int
			_, _ = fmt.Sscanf(path, "/proc/%d/", &pid)
			must(h.T, unix.Kill(pid, unix.SIGKILL))
			return
		}
	}
	h.Fatal("no process holds guests at " + h.id)
}

func glob(pattern string) []string {
	all, _ := filepath.Glob(pattern)
	return all
}

// passage is a move, as the controller leads it.
type passage struct {
	from, to *siteHost
	guest    protocol.HostedGuest
	step     int64
}

// at is the next step; the other host is told of it.
func (p *passage) at(other *siteHost, do protocol.MoveStep) protocol.HostedMove {
	p.step++
	g := p.guest
	g.File = protocol.BootFile{}
	return protocol.HostedMove{Guest: g, Number: 17, Step: p.step, Do: do, Peer: other.id, PeerBoot: other.boot}
}

// send takes the guest to where it stands still at its new host; between happens what is given.
func (p *passage) send(between func()) {
	p.from.Helper()
	held := []protocol.HostedGuest{p.guest}
	left := p.from.does(held, p.at(p.to, protocol.MoveLeave))
	m := p.at(p.from, protocol.MoveReceive)
	m.Description = left.Description
	place := p.to.does(nil, m)
	between()
	heard := p.to.does(nil, p.at(p.from, protocol.MoveListen))
	if heard.Address != "10.99.0.12:7422" {
		p.from.Errorf("it listens at %s", heard.Address)
	}
	m = p.at(p.to, protocol.MoveSend)
	m.Description, m.Address = place.Description, heard.Address
	began := time.Now()
	p.from.does(held, m)
	p.from.Logf("sent in %.1f s", time.Since(began).Seconds())
}

// arrive lets it run.
func (p *passage) arrive() {
	p.from.Helper()
	p.to.does(nil, p.at(p.from, protocol.MoveArrive))
}

// clear makes it the new host's own, and looks whether anything is left at the old one.
func (p *passage) clear() {
	p.from.Helper()
	p.from.gone()
	p.to.want([]protocol.HostedGuest{p.guest}) // as of any guest of its own, tried long ago
	p.to.f.until(p.to, "it is the new host's", func() bool {
		r := p.to.f.hosted[p.to.id]
		return r.Revision == p.to.revision && p.to.state().Running && p.to.state().Try == 1 && len(r.Moves) == 0
	})
}

// gone has the host hold nothing any more.
func (h *siteHost) gone() {
	h.Helper()
	h.want(nil)
	h.f.until(h, "nothing is left at "+h.id, func() bool {
		r := h.f.hosted[h.id]
		return r.Revision == h.revision && len(r.Guests) == 0 && len(r.Networks) == 0
	})
}

// clears looks, at the test's end, whether a QEMU of the guest is left.
func (s *site) clears(name string) {
	s.Cleanup(func() {
		if pid := pidOf("qemu-system", "guest=c1."+name+".1"); pid > 0 {
			s.Errorf("its QEMU is left: process %d", pid)
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
}

// TestAGuestMovesBetweenHypervisorsAndCountsOn is a move with real guests, between two agents that have nothing in common but a
// network: as the controller leads it, step by step. On its way both agents are killed once, between two steps.
func TestAGuestMovesBetweenHypervisorsAndCountsOn(t *testing.T) {
	testall.Only(t)
	s := newSite(t, "muster/internal/drivers/substrate/vm/testdata/counter", false)
	from, to := s.host(1), s.host(2)
	name := fmt.Sprintf("move%d", os.Getpid())
	g := guestOf(t, name)
	s.clears(name)
	from.want([]protocol.HostedGuest{g})
	s.f.until(t, "its guest runs", func() bool { return from.state().Running && from.state().Try == 1 })
	number, _ := from.countsBeyond(5, 2*time.Minute)

	p := &passage{from: from, to: to, guest: g}
	p.send(to.kill) // what has been made ready is found by the agent that comes next
	_, last := from.counted()
	if from.state().Running {
		t.Error("it is told to run where it was")
	}
	to.want(nil, p.at(from, protocol.MoveHold))
	to.kill() // the memory is whole, and no agent may throw it away
	p.arrive()
	same, count := to.countsBeyond(last, 2*time.Minute)
	if same != number {
		t.Errorf("another guest counts: %s, not %s", same, number)
	}
	t.Logf("it had counted to %d when it was sent, and has to %d", last, count)
	network := filepath.Join(to.dir, "host/networks/clusters/c1/netns")
	if text := inside(t, network, "bridge -d link show"); !strings.Contains(text, "locked on") {
		t.Errorf("its port at the new host is not fenced:\n%s", text)
	}
	p.clear()
	if now, beyond := to.countsBeyond(count, time.Minute); now != number {
		t.Errorf("it was made again: %s counts to %d", now, beyond)
	}
	to.gone()
}

// TestAGuestsConnectionsMoveWithIt is a move of a guest that boots its image and speaks on its cluster's network: the one
// connection that it has to its cluster's gateway, which is at neither host, goes on.
func TestAGuestsConnectionsMoveWithIt(t *testing.T) {
	testall.Only(t)
	s := newSite(t, "muster/internal/noded/testdata/caller", true)
	from, to := s.host(1), s.host(2)
	name := fmt.Sprintf("call%d", os.Getpid())
	g := guestOf(t, name)
	s.clears(name)
	gateway := substrate.MAC(7, substrate.GatewaySlot).String()
	inside(t, s.wire, "ip link add gate type veth peer name gateport && ip link set gateport master switch up && ip link set "+
		"gate address "+gateway+
		" arp off up && ip address add 10.77.0.1/16 dev gate && ip neigh add 10.77.2.1 lladdr "+g.MAC+" dev gate nud permanent")
	listener, err := netns.Listen(s.wire, "tcp", net.JoinHostPort("10.77.0.1", fmt.Sprint(protocol.AgentPort)))
	must(t, err)
	defer listener.Close()
	g.File.Attachment = &protocol.Attachment{
		NIC: g.MAC, MAC: g.MAC, Address: g.Address, Gateway: protocol.Neighbour{Address: "10.77.0.1", MAC: gateway},
	}
	from.want([]protocol.HostedGuest{g})
	s.f.until(t, "its guest runs", func() bool { return from.state().Running })
	must(t, listener.(*net.TCPListener).SetDeadline(time.Now().Add(6*time.Minute)))
	c, err := listener.Accept()
	if err != nil {
		t.Fatal("the guest did not call: ", err)
	}
	defer c.Close()
	lines := bufio.NewReader(c)
	hear := func() (number string, count int) {
		t.Helper()
		must(t, c.SetReadDeadline(time.Now().Add(2*time.Minute)))
		line, err := lines.ReadString('\n')
		if err == nil {
			_, err = fmt.Sscanf(line, "COUNT %s %d", &number, &count)
		}
		if err != nil {
			t.Fatalf("it says %q: %v", line, err)
		}
		return number, count
	}
	number, first := hear()
	p := &passage{from: from, to: to, guest: g}
	p.send(func() {})
	began := time.Now()
	p.arrive()
	for last := first; last < first+400; { // what it said before it moved, and 20 s of its own after
		same, count := hear()
		if same != number || count != last+1 {
			t.Fatalf("after %d of %s it says %d of %s", last, number, count, same)
		}
		last = count
	}
	t.Logf("heard on, without a gap, for %.1f s after it arrived", time.Since(began).Seconds())
	p.clear()
	if same, _ := hear(); same != number {
		t.Errorf("it was made again: %s", same)
	}
	to.gone()
}
