package noded

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/testall"
	"muster/internal/protocol"
)

// dreamer is a guest that is put to sleep and woken, as the controller asks.
type dreamer struct {
	*siteHost
	guest protocol.HostedGuest
}

// ask asks for something once more.
func (d *dreamer) ask(do protocol.HostedDo) {
	d.guest.Try, d.guest.Do = d.guest.Try+1, do
	d.want([]protocol.HostedGuest{d.guest})
}

// over waits until what was asked has come to an end, which must be good.
func (d *dreamer) over(what string) (s protocol.HostedState) {
	d.Helper()
	d.f.until(d, what, func() bool {
		s = d.state()
		return s.Try == d.guest.Try && s.Doing == ""
	})
	if s.Failed+s.Gone+s.NoRoom+s.Refused != "" {
		d.Fatalf("not %s: %+v", what, s)
	}
	return s
}

// memory is the file of the guest's memory while it sleeps.
func (d *dreamer) memory() string {
	return filepath.Join(d.dir, "host/memory/c1."+d.guest.Node+".1.memory")
}

// killLibvirt ends the libvirt of the host, as a crash would.
func (h *siteHost) killLibvirt() {
	h.Helper()
	var pid int
	text, err := os.ReadFile(filepath.Join(h.dir, "host/guests/libvirt/run/libvirtd.pid"))
	must(h.T, err)
	_, err = fmt.Sscan(string(text), &pid)
	must(h.T, err)
	must(h.T, unix.Kill(pid, unix.SIGKILL))
}

// TestAGuestOfAHypervisorSleepsAndCountsOn is a sleep with a real guest and a real agent, which is killed while the guest
// sleeps, and while it falls asleep; so is libvirt.
func TestAGuestOfAHypervisorSleepsAndCountsOn(t *testing.T) {
	testall.Only(t)
	s := newSite(t, "muster/internal/drivers/substrate/vm/testdata/counter", false)
	name := fmt.Sprintf("sleep%d", os.Getpid())
	d := &dreamer{s.host(1), guestOf(t, name)}
	s.clears(name)
	d.want([]protocol.HostedGuest{d.guest})
	s.f.until(t, "its guest runs", func() bool { return d.state().Running && d.state().Try == 1 })
	number, _ := d.countsBeyond(5, 2*time.Minute)

	began := time.Now()
	d.ask(protocol.DoSleep)
	asleep := d.over("asleep")
	_, last := d.counted()
	t.Logf("asleep after %.1f s: %d bytes on disk; it had counted to %d", time.Since(began).Seconds(), asleep.Bytes, last)
	info, err := os.Stat(d.memory())
	must(t, err)
	if !asleep.Present || asleep.Running || asleep.Bytes < 1<<20 || info.Size() != asleep.Bytes || info.Mode().Perm() != 0o600 {
		t.Errorf("asleep it is told as %+v, and its memory is a file of %d bytes with mode %v", asleep, info.Size(), info.Mode())
	}
	if pid := pidOf("qemu-system", "guest=c1."+name+".1"); pid > 0 || len(asleep.Allocation) > 0 &&
		string(asleep.Allocation) != "null" {
		t.Errorf("asleep it has a QEMU, process %d, and %s of its host", pid, asleep.Allocation)
	}
	d.kill()
	s.f.mu.Lock()
	s.f.hosted[d.id] = protocol.HostReport{}
	s.f.mu.Unlock()
	if again := d.over("asleep after the agent was killed"); again.Running || again.Bytes != asleep.Bytes {
		t.Errorf("whoever comes next says %+v", again)
	}

	began = time.Now()
	d.ask(protocol.DoWake)
	d.over("awake")
	t.Logf("awake after %.1f s", time.Since(began).Seconds())
	same, count := d.countsBeyond(last, 2*time.Minute)
	if same != number || count > last+1000 {
		t.Errorf("another guest counts: %s from %d, not %s from %d", same, count, number, last)
	}
	if left := glob(filepath.Join(d.dir, "host/memory/*")); len(left) > 0 {
		t.Errorf("awake its memory is on disk still: %v", left)
	}

	d.ask(protocol.DoSleep)
	time.Sleep(50 * time.Millisecond) // it has begun, maybe
	d.kill()
	d.killLibvirt()
	d.over("asleep, though agent and libvirt were killed")
	_, last = d.counted()
	d.ask(protocol.DoWake)
	d.kill()
	d.over("awake, though the agent was killed")
	if same, count = d.countsBeyond(last, 2*time.Minute); same != number {
		t.Errorf("another guest counts: %s to %d", same, count)
	}

	d.ask(protocol.DoSleep)
	d.over("asleep a last time")
	memory, err := os.Open(d.memory())
	must(t, err)
	defer memory.Close()
	d.gone()
	left, err := io.ReadAll(memory)
	must(t, err)
	if len(left) == 0 || len(bytes.Trim(left, "\x00")) > 0 {
		t.Errorf("of the memory of a guest that was removed %d bytes of %d are on disk", len(bytes.Trim(left, "\x00")), len(left))
	}
}
