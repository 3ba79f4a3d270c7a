package devices_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/drivers/substrate/vm/devices/fake"
	"muster/internal/inventory"
)

// model is what the world expects of the driver: who may have what.
type model struct {
	kernel   *fake.Kernel
	driver   *devices.Driver
	dir      string
	prepared map[string]string // by device: for which guest Prepare has returned without an error
	open     map[string]string // by device: the guest that runs with it
	vanished bool              // some adapter was reset under its functions
	steps    int               // until the fault; below 0: none
	kill     bool              // the fault is the end of the process, not an error
}

// killed is what a process that is killed throws.
type killed struct{}

var errInjected = errors.New("injected fault")

func newModel(t *rapid.T) *model {
	m := &model{kernel: newKernel(), dir: fastDir(t), prepared: map[string]string{}, open: map[string]string{}, steps: -1}
	m.kernel.Fault = func(string) error {
		if m.steps--; m.steps != -1 {
			return nil
		}
		if m.kill {
			panic(killed{})
		}
		return errInjected
	}
	m.driver = newDriver(t, m.kernel, m.dir)
	for _, physical := range divided() {
		if err := m.driver.CreateVFs(t.Context(), physical, 2); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// divided are the functions that have virtual ones.
func divided() []string { return []string{nic, hca, ssd} }

// risky calls the driver, which may meet a fault or be killed in the middle; after that another process has its place.
func (m *model) risky(t *rapid.T, call func(context.Context) error) (err error) {
	m.steps = rapid.SampledFrom([]int{-1, -1, -1, -1, 0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 17, 20, 24, 28}).
		Draw(t, "fault at step")
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

// guests, and what they may want.
func (m *model) guest(t *rapid.T) string {
	return rapid.SampledFrom([]string{"g1", "g2", "g3"}).Draw(t, "guest")
}

func candidates() []string {
	return []string{gpu, pairA, pairB, wholeSSD, nicVF0, nicVF1, hcaVF0, ssdVF0, ssdVF1, desktop, nic}
}

func (m *model) device(t *rapid.T) string {
	return rapid.SampledFrom(candidates()).Draw(t, "device")
}

// wanted has an address that no other guest and no other device has.
func wanted(guest, address string) devices.Want {
	w := devices.Want{Guest: guest, PCI: address}
	tail := fmt.Sprintf("%s%x", guest[1:], slices.Index(candidates(), address))
	switch address {
	case nicVF0, nicVF1:
		w.MAC, w.VLAN = "02:00:00:00:00:"+tail, int(guest[1]-'0')
	case hcaVF0:
		w.GUID = "0011:2233:4455:66" + tail
	}
	return w
}

func (m *model) prepare(t *rapid.T) {
	guest, address := m.guest(t), m.device(t)
	err := m.risky(t, func(ctx context.Context) error {
		if address == desktop { // whose sound goes with it
			return m.driver.PrepareAll(ctx, guest, []inventory.Device{{PCI: desktop}}, []inventory.Device{{PCI: sound}}, nil)
		}
		return m.driver.Prepare(ctx, wanted(guest, address))
	})
	if err == nil {
		if other := m.prepared[address]; other != "" && other != guest {
			t.Fatalf("%s is prepared for %s and for %s", address, other, guest)
		}
		m.prepared[address] = guest
	} else if m.prepared[address] == guest && m.open[address] == "" {
		delete(m.prepared, address) // a failed repetition may have left it half done
	}
}

// start is a guest that begins with what was prepared for it.
func (m *model) start(t *rapid.T) {
	address := m.device(t)
	guest := m.prepared[address]
	if guest == "" || m.open[address] != "" {
		return
	}
	if address == pairA && m.open[pairB] == guest || address == pairB && m.open[pairA] == guest {
		return // one process opens a group once, with all its devices
	}
	if err := m.kernel.Open(int(guest[1]), address); err != nil {
		t.Fatalf("%s cannot open %s, which was prepared for it: %v", guest, address, err)
	}
	m.open[address] = guest
	for _, mark := range m.kernel.Marks(address) {
		if mark != guest+"'s" { // its own, where the adapter was reset under it
			t.Fatalf("%s finds %q in %s", guest, mark, address)
		}
	}
	m.kernel.Use(address, guest+"'s")
}

// end is the end of a guest's process, and of all that it has open.
func (m *model) end(t *rapid.T) {
	guest := m.guest(t)
	m.kernel.Exit(int(guest[1]))
	for address, holder := range m.open {
		if holder == guest {
			delete(m.open, address)
		}
	}
}

func (m *model) release(t *rapid.T) {
	guest, address := m.guest(t), m.device(t)
	err := m.risky(t, func(ctx context.Context) error {
		if err := m.driver.Release(ctx, address, guest); err != nil || address != desktop {
			return err
		}
		return m.driver.Release(ctx, sound, guest)
	})
	if err == nil && m.prepared[address] == guest {
		if m.open[address] != "" {
			t.Fatalf("%s was released while %s runs with it", address, guest)
		}
		delete(m.prepared, address)
	}
	m.forgo(t)
}

// forgo strikes out what a release has begun to take back, whatever it returned.
func (m *model) forgo(t *rapid.T) {
	all, err := m.driver.List()
	if err != nil {
		t.Fatal(err)
	}
	for address, guest := range m.prepared {
		if !slices.ContainsFunc(all, func(s devices.Status) bool {
			return s.PCI == address && s.Guest == guest && (s.State == devices.Prepared || s.State == devices.Given)
		}) {
			delete(m.prepared, address)
		}
	}
}

func (m *model) divide(t *rapid.T) {
	physical := rapid.SampledFrom(divided()).Draw(t, "physical function")
	n := rapid.IntRange(0, 4).Draw(t, "virtual functions")
	_ = m.risky(t, func(ctx context.Context) error { return m.driver.CreateVFs(ctx, physical, n) })
}

// vanish is a reset of an adapter behind everybody's back. QEMU ends what loses its device.
func (m *model) vanish(t *rapid.T) {
	physical := rapid.SampledFrom(divided()).Draw(t, "physical function")
	m.kernel.Vanish(physical)
	m.vanished = true
	for _, address := range candidates() {
		if address != physical && address[:len(address)-1] == physical[:len(physical)-1] {
			delete(m.prepared, address)
			delete(m.open, address)
		}
	}
}

func (m *model) spoil(t *rapid.T) {
	address := m.device(t)
	m.kernel.Deafen(address, rapid.Bool().Draw(t, "deaf"))
}

func (m *model) mend(t *rapid.T) {
	_ = m.risky(t, func(ctx context.Context) error { return m.driver.Mend(ctx) })
	m.forgo(t)
}

// check is what must hold at any time.
func (m *model) check(t *rapid.T) {
	all, err := m.driver.List()
	if err != nil {
		t.Fatal(err)
	}
	for address, guest := range m.open {
		if !slices.ContainsFunc(all, func(s devices.Status) bool {
			return s.PCI == address && s.State == devices.Given && s.Guest == guest
		}) {
			t.Fatalf("%s runs with %s; the driver says %+v", guest, address, all)
		}
		w, s := wanted(guest, address), m.kernel.Settings(address)
		if w.MAC != "" && (s["mac"] != w.MAC || s["vlan"] != fmt.Sprint(w.VLAN) || s["spoofchk"] != "on") {
			t.Fatalf("%s runs with %s and %v, want %+v", guest, address, s, w)
		}
		if w.GUID != "" && s["node_guid"] != "00:11:22:33:44:55:66:"+w.GUID[len(w.GUID)-2:] {
			t.Fatalf("%s runs with %s and %v, want %+v", guest, address, s, w)
		}
		places := 1
		if address == wholeSSD || w.PCI == ssdVF0 || w.PCI == ssdVF1 {
			places = 2 // its memory and its disk
		}
		if marks := m.kernel.Marks(address); !slices.Equal(marks, slices.Repeat([]string{guest + "'s"}, places)) {
			t.Fatalf("%s runs with %s and finds %q", guest, address, marks)
		}
	}
}

// settle is what must be reached once nothing fails any more and all guests have ended.
func (m *model) settle(t *rapid.T) {
	ctx := t.Context()
	for pid := range 128 {
		m.kernel.Exit(pid)
	}
	for _, address := range candidates() {
		m.kernel.Deafen(address, false)
	}
	m.driver = newDriver(t, m.kernel, m.dir)
	all, err := m.driver.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if err := m.driver.Release(ctx, s.PCI, s.Guest); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := m.driver.List(); err != nil || len(all) > 0 {
		t.Fatalf("after all was released: %+v, %v", all, err)
	}
	for _, physical := range divided() {
		if err := m.driver.CreateVFs(ctx, physical, 2); err != nil {
			t.Fatal(err)
		}
	}
	for _, address := range []string{nicVF0, nicVF1, hcaVF0} {
		s := m.kernel.Settings(address)
		if old := s["mac"] + s["node_guid"]; !m.vanished && strings.Trim(old, "0:") != "" {
			t.Fatalf("%s has %v when it is nobody's", address, s)
		}
	}
	own := map[string]string{nic: "ice", wholeSSD: "nvme", sound: "snd_hda_intel"}
	for _, address := range append(candidates(), sound) {
		if got, _ := m.kernel.Read("bus/pci/devices/" + address + "/driver"); got != own[address] {
			t.Fatalf("%s has driver %q, want %q", address, got, own[address])
		}
		if marks := m.kernel.Marks(address); len(marks) > 0 {
			t.Fatalf("%s holds %q", address, marks)
		}
		if address == nic || address == sound || address == desktop {
			continue
		}
		if err := m.driver.Prepare(ctx, wanted("g9", address)); err != nil {
			t.Fatal(err)
		}
		if marks := m.kernel.Marks(address); len(marks) > 0 {
			t.Fatalf("a new guest finds %q in %s", marks, address)
		}
	}
}

func TestNoDeviceIsGivenTwiceWhateverFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		defer os.RemoveAll(m.dir)
		t.Repeat(map[string]func(*rapid.T){
			"prepare": m.prepare, "prepare more": m.prepare, "start": m.start, "start more": m.start, "end": m.end,
			"release": m.release, "release more": m.release,
			"divide": m.divide, "vanish": m.vanish, "spoil": m.spoil, "mend": m.mend, "": m.check,
		})
		m.settle(t)
	})
}
