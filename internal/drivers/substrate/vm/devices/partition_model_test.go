package devices_test

import (
	"context"
	"maps"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/drivers/substrate/vm/devices/fake"
	"muster/internal/fabric"
	"muster/internal/inventory"
	"muster/internal/kit/testall"
)

// sharing is a host whose guests share one port's table: the subnet manager writes it, the controller says in which order things
// happen, and each step of the host's driver can fail, be repeated, or be its process's last.
type sharing struct {
	kernel   *fake.Kernel
	driver   *devices.Driver
	dir      string
	slots    map[fabric.Key]int // that the manager has given, also of keys that are gone: they come back where they were
	told     map[fabric.Key]bool
	open     bool            // the manager could not read its file
	admitted map[string]bool // guests that the controller has placed here: their cluster's key stays as long
	prepared map[string]bool
	running  map[string]bool
	ran      int
	steps    int
	kill     bool
	trespass func() // looks at what guests see, at each step
}

// placed is a guest of these tests: its function and its cluster's key.
type placed struct {
	function string
	key      fabric.Key
}

func placements() map[string]placed {
	return map[string]placed{"g1": {cx3VF0, 1}, "g2": {cx3VF1, 1}, "g3": {"0000:04:00.3", 2}, "g4": {"0000:04:00.4", 3}}
}

func newSharing(t *rapid.T) *sharing {
	small := connectX3()
	small.VFs, small.Ports = 4, 1
	m := &sharing{
		kernel: fake.New(small), dir: fastDir(t), slots: map[fabric.Key]int{}, told: map[fabric.Key]bool{},
		admitted: map[string]bool{}, prepared: map[string]bool{}, running: map[string]bool{}, steps: -1,
	}
	m.driver = newDriver(t, m.kernel, m.dir)
	if err := m.driver.CreateVFs(t.Context(), cx3, 4); err != nil {
		t.Fatal(err)
	}
	m.admitted["g1"], m.admitted["g3"] = true, true
	m.tell(t)
	m.trespass = func() { m.check(t) }
	m.kernel.Fault = func(string) error {
		m.trespass()
		if m.steps--; m.steps != -1 {
			return nil
		}
		if m.kill {
			panic(killed{})
		}
		return errInjected
	}
	return m
}

// risky calls the driver, which may meet a fault or be killed in the middle; after that another process has its place.
func (m *sharing) risky(t *rapid.T, call func(context.Context) error) (err error) {
	m.steps = rapid.SampledFrom([]int{-1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 2, 3, 5, 9, 60, 128, 250, 252, 253, 254, 255, 256,
		257, 258, 260, 262}).Draw(t, "fault at step")
	m.kill = rapid.Bool().Draw(t, "killed")
	defer func() {
		m.steps = -1
		if thrown := recover(); thrown != nil {
			if _, ours := thrown.(killed); !ours {
				panic(thrown)
			}
			m.driver = newDriver(t, m.kernel, m.dir)
			err = errInjected
		}
	}()
	return call(t.Context())
}

// write has the port hold what the manager has told it.
func (m *sharing) write() {
	var table [fake.Slots]uint16
	table[0] = 0x7fff
	if m.open {
		table[0] = 0xffff
	} else {
		for key := range m.told {
			table[m.slots[key]] = uint16(key.In(fabric.Full))
		}
	}
	for slot, entry := range table {
		m.kernel.SetKey(cx3, 1, slot, entry)
	}
}

// room is a slot that no key has now. There are few, so that they are used again soon, and the last ones are among them: the one
// that is shown last, and the one behind.
func (m *sharing) room(t *rapid.T, last ...int) int {
	free := append([]int{1, 2, 3, 4}, last...)
	return rapid.SampledFrom(slices.DeleteFunc(free, func(slot int) bool {
		for key := range m.told {
			if m.slots[key] == slot {
				return true
			}
		}
		return false
	})).Draw(t, "slot")
}

// tell is the manager hearing what the controller wants: the keys of guests that are placed here, and of no others.
func (m *sharing) tell(t *rapid.T) {
	wanted := map[fabric.Key]bool{9: rapid.Bool().Draw(t, "another tenant of the host")} // which is no guest of these
	for guest := range m.admitted {
		wanted[placements()[guest].key] = true
	}
	for _, key := range []fabric.Key{1, 2, 3, 9} {
		switch {
		case wanted[key] && !m.told[key]:
			if old, had := m.slots[key]; !had || slices.ContainsFunc(slices.Collect(maps.Keys(m.told)), func(k fabric.Key) bool {
				return m.slots[k] == old
			}) {
				m.slots[key] = m.room(t, fake.Slots-2, fake.Slots-1)
			}
			m.told[key] = true
		case !wanted[key]:
			delete(m.told, key)
		}
	}
	m.write()
}

func (m *sharing) guest(t *rapid.T) string {
	return rapid.SampledFrom(slices.Sorted(maps.Keys(placements()))).Draw(t, "guest")
}

func (m *sharing) admit(t *rapid.T) { m.admitted[m.guest(t)] = true }

// among chooses one of those that are so; "" if none is.
func among(t *rapid.T, so map[string]bool) string {
	var all []string
	for guest, is := range so {
		if is {
			all = append(all, guest)
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return rapid.SampledFrom(all).Draw(t, "one of them")
}

func (m *sharing) prepare(t *rapid.T) {
	guest := among(t, m.admitted)
	if guest == "" {
		return
	}
	p := placements()[guest]
	err := m.risky(t, func(ctx context.Context) error {
		return m.driver.PrepareAll(ctx, guest, []inventory.Device{{PCI: p.function, Kind: "hca", Parent: cx3}}, nil,
			map[fabric.GUID]fabric.Key{cx3Port1: p.key})
	})
	if !m.running[guest] {
		m.prepared[guest] = err == nil
	}
}

func (m *sharing) start(t *rapid.T) {
	guest := among(t, m.prepared)
	if guest == "" || m.running[guest] {
		return
	}
	p := placements()[guest]
	if err := m.kernel.Open(int(guest[1]), p.function); err != nil {
		t.Fatal(err)
	}
	m.running[guest] = true
	m.ran++
}

func (m *sharing) end(t *rapid.T) {
	guest := m.guest(t)
	m.kernel.Exit(int(guest[1]))
	delete(m.running, guest)
}

// release is the controller's whole way back: only what has come back makes it take the guest's key away.
func (m *sharing) release(t *rapid.T) {
	guest := m.guest(t)
	err := m.risky(t, func(ctx context.Context) error { return m.driver.ReleaseAll(ctx, guest) })
	if !m.running[guest] {
		m.prepared[guest] = false
	}
	if err == nil {
		if m.running[guest] && m.held(t, guest) {
			return // it was not the driver's to release
		}
		delete(m.admitted, guest)
	}
}

func (m *sharing) held(t *rapid.T, guest string) bool {
	all, err := m.driver.List()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(s devices.Status) bool { return s.Guest == guest })
}

func (m *sharing) guard(t *rapid.T) {
	_ = m.risky(t, func(ctx context.Context) error { _, err := m.driver.Guard(ctx); return err })
}

// failOpen is the manager that could not read its file, and has been helped.
func (m *sharing) failOpen(t *rapid.T) {
	m.open = rapid.Bool().Draw(t, "open")
	m.write()
}

// pack is a manager that gives all keys other slots at the table's beginning, as one that restarts may: one look ends what
// guests see by that.
func (m *sharing) pack(t *rapid.T) {
	if m.open { // it would show when the manager has been helped
		return
	}
	before := m.told
	m.told, m.slots = map[fabric.Key]bool{}, map[fabric.Key]int{}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		m.slots[key] = m.room(t)
		m.told[key] = true
	}
	m.write()
	defer func(trespass func()) { m.trespass = trespass }(m.trespass)
	m.trespass = func() {} // until it has looked
	m.guard(t)
	if _, err := m.driver.Guard(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// check is what must hold at each step: whatever a guest that runs sees is its own.
func (m *sharing) check(t *rapid.T) {
	for guest := range m.running {
		p := placements()[guest]
		for _, e := range m.kernel.SeenKeys(p.function, 1) {
			if fabric.Entry(e).Key() != p.key {
				t.Fatalf("%s sees %#04x, and its own is %s; table %v", guest, e, p.key, m.slots)
			}
		}
	}
}

// settle is what must be reached once nothing fails any more.
func (m *sharing) settle(t *rapid.T) {
	m.open = false
	m.write()
	if _, err := m.driver.Guard(t.Context()); err != nil {
		t.Fatal(err)
	}
	for guest, p := range placements() {
		seen := m.kernel.SeenKeys(p.function, 1)
		behind := m.slots[p.key] == fake.Slots-1 // where no function can be led
		if m.running[guest] && !behind && !slices.Equal(seen, []uint16{uint16(p.key.In(fabric.Full))}) {
			t.Fatalf("%s runs and sees %#x", guest, seen)
		}
	}
	for guest := range placements() {
		m.kernel.Exit(int(guest[1]))
		delete(m.running, guest)
		if err := m.driver.ReleaseAll(t.Context(), guest); err != nil {
			t.Fatal(err)
		}
	}
	m.kernel.SetKey(cx3, 1, fake.Slots-1, 0)
	for _, p := range placements() {
		if seen := m.kernel.SeenKeys(p.function, 1); len(seen) > 0 || m.kernel.GUIDOf(p.function, 1) != 1<<64-1 &&
			m.kernel.GUIDOf(p.function, 1) != 0 {
			t.Fatalf("%s is nobody's and sees %#x, GUID %x", p.function, seen, m.kernel.GUIDOf(p.function, 1))
		}
	}
}

func TestNoGuestThatRunsSeesAnothersPartitionWhateverFails(t *testing.T) {
	testall.Only(t)
	ran := 0
	rapid.Check(t, func(t *rapid.T) {
		m := newSharing(t)
		defer func() { ran += m.ran }()
		defer os.RemoveAll(m.dir)
		t.Repeat(map[string]func(*rapid.T){
			"admit": m.admit, "tell": m.tell, "tell again": m.tell, "prepare": m.prepare, "prepare more": m.prepare,
			"start": m.start, "start more": m.start,
			"end": m.end, "release": m.release, "guard": m.guard, "fail open": m.failOpen, "pack": m.pack, "": m.check,
		})
		m.settle(t)
	})
	if ran < 5 { // or nothing was tried
		t.Errorf("guests ran %d times", ran)
	}
}
