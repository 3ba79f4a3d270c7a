package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/testall"
	"muster/internal/place"
)

// counted is the last whole line that a guest has said that counts: by which number it goes, and how far it is.
func (w fixture) counted(t testing.TB, r substrate.Ref) (number string, count int) {
	t.Helper()
	text, err := os.ReadFile(w.bootOf(t, r).path(consoleFile))
	if err != nil {
		return "", 0
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, "\n") {
			_, _ = fmt.Sscanf(line, "COUNT %s %d", &number, &count) // other lines are the kernel's
		}
	}
	return number, count
}

// countsOn waits until a guest counts beyond a number.
func (w fixture) countsOn(t testing.TB, r substrate.Ref, beyond int) (number string, count int) {
	t.Helper()
	eventually(t, "the guest counts on", func() bool {
		number, count = w.counted(t, r)
		return count > beyond
	})
	return number, count
}

// emulated is how many processes of QEMU a guest has here.
func (w fixture) emulated(t testing.TB, r substrate.Ref) int {
	t.Helper()
	collect()
	all, err := w.emulators(w.bootOf(t, r).name)
	check(t, err)
	return len(all)
}

// road is two hosts, and what happens to a guest on its way from one to the other.
type road struct {
	t        *testing.T
	from, to fixture
	mu       sync.Mutex
	accident func() // happens once, in the middle of the copy
}

const source, target = "the source", "the target"

func (r *road) find(host string) (Host, error) {
	if host == source {
		return r.from, nil
	}
	return arrivals{r.to, r}, nil
}

// arrivals is the target, which watches what comes.
type arrivals struct {
	fixture
	road *road
}

// Arrive looks whether the guest could come to run twice.
func (a arrivals) Arrive(ctx context.Context, n substrate.Node) error {
	if left := a.road.from.emulated(a.road.t, n.Ref); left > 0 {
		a.road.t.Errorf("the guest is to run at its new host and has %d QEMUs at the old one", left)
	}
	return a.fixture.Arrive(ctx, n)
}

func (a arrivals) Dial(ctx context.Context) (net.Conn, error) {
	c, err := a.fixture.Dial(ctx)
	return &lane{Conn: c, road: a.road}, err
}

// lane is the connection that the guest goes through. It is used by one writer.
type lane struct {
	net.Conn
	road    *road
	carried int
}

func (l *lane) Write(p []byte) (int, error) {
	const middle = 2 << 20 // bytes: past all that is said before the memory comes
	if l.carried += len(p); l.carried > middle {
		l.road.mu.Lock()
		if l.road.accident != nil {
			l.road.accident()
			l.road.accident = nil
		}
		l.road.mu.Unlock()
	}
	return l.Conn.Write(p)
}

// move moves the guest; in the middle happens what is given. It fails the test if nothing came to be copied.
func (r *road) move(ctx context.Context, n substrate.Node, accident func()) error {
	r.t.Helper()
	r.accident = accident
	err := Fleet(r.find).Move(ctx, n, source, target)
	if r.accident != nil {
		r.t.Error("the move broke off before its middle: ", err)
	}
	return err
}

// counts is an image of guests that count and need no drivers for it, which makes them small.
func counts(t *testing.T) (i Image, program string) {
	t.Helper()
	i = image(t, "inspector")
	i.Drivers = filepath.Join(t.TempDir(), "drivers")
	check(t, os.WriteFile(i.Drivers, nil, 0o600))
	return i, build(t, "./testdata/counter")
}

// newRoad makes two hosts, and a guest that counts at the source. n is as it is to be at the target, on another core.
func newRoad(t *testing.T) (r *road, n substrate.Node) {
	t.Helper()
	needs(t)
	i, counter := counts(t)
	r = &road{t: t, from: open(t, i, counter, counter), to: open(t, i, counter, counter)}
	r.from.sharedOf(t, "c1")
	r.to.sharedOf(t, "c1")
	n = node("c1", 1, 1)
	on := func(core int) *place.Allocation {
		return &place.Allocation{Guest: "g", Share: 16, Cells: []place.Cell{{Cores: []int{core}, MemoryMiB: 96}}}
	}
	n.Allocation = on(cores()[0])
	if err := r.from.Ensure(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	n.Allocation = on(cores()[1])
	return r, n
}

func (r *road) killLibvirt(w fixture) {
	p, runs := w.libvirt()
	if !runs {
		r.t.Error("libvirt does not run")
		return
	}
	check(r.t, unix.Kill(p.PID, unix.SIGKILL))
}

func (r *road) killQEMU(w fixture, n substrate.Node) {
	all, err := w.emulators(w.bootOf(r.t, n.Ref).name)
	check(r.t, err)
	for _, p := range all {
		check(r.t, unix.Kill(p.PID, unix.SIGKILL))
	}
}

func TestAGuestMovesAndCountsOn(t *testing.T) {
	testall.Only(t)
	needs(t)
	r, n := newRoad(t)
	r.from.countsOn(t, n.Ref, 5)
	var number string
	var last int
	begin := time.Now()
	check(t, r.move(t.Context(), n, func() { number, last = r.from.counted(t, n.Ref) }))
	t.Logf("moved in %.1f s", time.Since(begin).Seconds())
	same, count := r.to.countsOn(t, n.Ref, last)
	if same != number {
		t.Errorf("another guest counts: %s, not %s", same, number)
	}
	t.Logf("it had counted to %d in the middle of its way, and has to %d", last, count)
	seen, err := r.to.Observe(t.Context(), n.Ref)
	check(t, err)
	if !seen.Running || seen.Boot != n.Boot || seen.Allocation == nil ||
		!slices.Equal(seen.Allocation.Cells[0].Cores, cores()[1:2]) || seen.Limits.Memory != "96 MiB" {
		t.Errorf("at its new host it is %+v with %+v", seen, seen.Allocation)
	}
	record, _ := r.to.bootOf(t, n.Ref).read()
	if got := affinity(t, record.QEMU.PID, "CPU 0/TCG"); !slices.Equal(got, cores()[1:2]) {
		t.Errorf("its CPU may run on %v, want %v", got, cores()[1:2])
	}
	r.to.wantEnclosed(t, record.QEMU.PID)
	if seen, err = r.from.Observe(t.Context(), n.Ref); err != nil || seen.Present {
		t.Errorf("at its old host it is %+v (%v)", seen, err)
	}
	if _, runs := r.from.libvirt(); runs {
		t.Error("libvirt runs at the old host, which has no guest")
	}
	text := r.to.inCluster(t, "c1", "bridge", "-d", "-j", "link", "show", "dev", substrate.PortName(n.Node))
	if !strings.Contains(text, `"locked":true`) {
		t.Errorf("its port at the new host is not fenced: %s", text)
	}

	check(t, Fleet(r.find).Move(t.Context(), n, source, target)) // again, when it is done
	if now, _ := r.to.bootOf(t, n.Ref).read(); now != record {
		t.Error("a move that was done was done again")
	}
	check(t, r.to.Remove(t.Context(), allOf(n.Ref)))
}

// Whatever dies in the middle of a move, there is one guest that runs, and it is the one that counts.
func TestAccidentsOnTheWay(t *testing.T) {
	testall.Only(t)
	r, n := newRoad(t)
	number, last := r.from.countsOn(t, n.Ref, 5)
	stays := func(t *testing.T, err error) {
		t.Helper()
		if !errors.Is(err, substrate.ErrStays) {
			t.Errorf("the move says %v", err)
		}
		var same string
		if same, last = r.from.countsOn(t, n.Ref, last); same != number {
			t.Errorf("another guest counts: %s, not %s", same, number)
		}
		if left, err := r.to.List(t.Context()); err != nil || len(left) > 0 || r.to.emulated(t, n.Ref) > 0 {
			t.Errorf("at the target are %v (%v)", left, err)
		}
	}
	on := func(t *testing.T) *road { return &road{t: t, from: r.from, to: r.to} }

	t.Run("the target's QEMU", func(t *testing.T) {
		r := on(t)
		stays(t, r.move(t.Context(), n, func() { r.killQEMU(r.to, n) }))
	})
	t.Run("the target's libvirt", func(t *testing.T) {
		r := on(t)
		stays(t, r.move(t.Context(), n, func() { r.killLibvirt(r.to) }))
	})
	t.Run("the source's libvirt", func(t *testing.T) {
		r := on(t)
		stays(t, r.move(t.Context(), n, func() { r.killLibvirt(r.from) }))
	})
	t.Run("a target that refuses", func(t *testing.T) {
		other := n
		other.Allocation = &place.Allocation{Guest: "g", Share: 16, Cells: []place.Cell{{Cores: cores()[:1], MemoryMiB: 128}}}
		err := Fleet(on(t).find).Move(t.Context(), other, source, target)
		stays(t, err)
		if !errors.Is(err, substrate.ErrRefused) || !strings.Contains(err.Error(), "98304 KiB, and would see") {
			t.Errorf("it says %v", err)
		}
	})
	t.Run("the controller", func(t *testing.T) {
		r := on(t)
		ctx, die := context.WithCancel(t.Context())
		if err := r.move(ctx, n, die); err == nil || errors.Is(err, substrate.ErrStays) {
			t.Errorf("a move that was cut off says %v", err)
		}
		check(t, Fleet(r.find).Move(t.Context(), n, source, target)) // the next one
		var same string
		if same, last = r.to.countsOn(t, n.Ref, last); same != number {
			t.Errorf("another guest counts: %s, not %s", same, number)
		}
	})
	r = &road{t: t, from: r.to, to: r.from} // and back
	t.Run("the controller, when all is sent", func(t *testing.T) {
		r := on(t)
		description, err := r.from.Leave(t.Context(), n.Ref)
		check(t, err)
		there, err := r.to.Receive(t.Context(), n, description)
		check(t, err)
		check(t, r.from.Send(t.Context(), n.Ref, there, r.to.Dial))
		if seen, err := r.to.Observe(t.Context(), n.Ref); err != nil || seen.Running {
			t.Errorf("nobody has let it run and it is %+v (%v)", seen, err)
		}
		check(t, Fleet(r.find).Move(t.Context(), n, source, target))
		var same string
		if same, last = r.to.countsOn(t, n.Ref, last); same != number {
			t.Errorf("another guest counts: %s, not %s", same, number)
		}
	})
	r = &road{t: t, from: r.to, to: r.from}
	t.Run("the source's QEMU", func(t *testing.T) {
		r := on(t)
		err := r.move(t.Context(), n, func() { r.killQEMU(r.from, n) })
		if err != nil && !errors.Is(err, substrate.ErrEnded) {
			err = Fleet(r.find).Move(t.Context(), n, source, target) // it was not known what had become of it
		}
		if !errors.Is(err, substrate.ErrEnded) {
			t.Errorf("the move of a guest that died says %v", err)
		}
		for _, w := range []fixture{r.from, r.to} {
			if w.emulated(t, n.Ref) > 0 {
				t.Error("something of the guest that died runs")
			}
			check(t, w.Remove(t.Context(), allOf(n.Ref)))
		}
	})
}
