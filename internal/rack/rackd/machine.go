package rackd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"muster/internal/rack"
)

// machine is a machine with what may change of it.
type machine struct {
	rack.Machine
	shape  rack.Shape
	folder rack.Folder // the rack's
	accel  []string

	lock   sync.Mutex
	run    *process // nil, or ended: no power
	hung   bool     // the run's CPUs are stopped
	gone   bool     // the rack is going down: there is no power any more
	faults faults
	boot   override
}

// override is what a BMC was told to boot from; "" leaves it to the firmware, which begins with the network.
type override struct {
	first order
	once  bool // for one start only
	efi   bool // as it was asked for; the firmware's kind cannot be changed
}

// prepare makes the machine's folder, with disks, if it is not there yet.
func (m *machine) prepare() error {
	if err := os.MkdirAll(m.dir(), 0o700); err != nil {
		return err
	}
	for _, path := range m.disks() {
		if err := sparse(path, m.shape.DiskMiB); err != nil {
			return fmt.Errorf("disk of %s: %w", m.Name, err)
		}
	}
	if m.Firmware != rack.UEFI {
		return nil
	}
	if _, err := os.Stat(m.vars()); err == nil {
		return nil
	}
	if err := copyFile(ovmfVars, m.vars()); err != nil {
		return fmt.Errorf("UEFI firmware of %s (Debian's package ovmf): %w", m.Name, err)
	}
	return nil
}

func (m *machine) disks() []string {
	var paths []string
	for i := range m.shape.Disks {
		paths = append(paths, filepath.Join(m.dir(), "disk"+strconv.Itoa(i)+".raw"))
	}
	return paths
}

// dir is its own folder.
func (m *machine) dir() string { return m.folder.Machine(m.Name) }

func (m *machine) vars() string { return filepath.Join(m.dir(), "uefi-vars.fd") }

func (m *machine) powered() bool { return m.run != nil && !m.run.ended() }

// on gives the machine power; on a machine that has it, or whose power is broken, it does nothing.
func (m *machine) on(ctx context.Context) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.start(ctx)
}

func (m *machine) start(ctx context.Context) error {
	if m.powered() || m.faults.noPower || m.gone {
		return nil
	}
	console := m.folder.ConsoleLog(m.Name)
	if err := os.Rename(console, console+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("console of %s: %w", m.Name, err)
	}
	v := virtual{Machine: m.Machine, shape: m.shape, accel: m.accel, first: m.boot.first, disks: m.disks(), vars: m.vars(),
		console: console}
	if m.faults.badDisk {
		v.bad = filepath.Join(m.dir(), "bad-disk.conf")
		if err := os.WriteFile(v.bad, []byte(badDisk), 0o600); err != nil {
			return fmt.Errorf("bad disk of %s: %w", m.Name, err)
		}
	}
	run, err := power(ctx, m.folder.Netns(), v)
	if err != nil {
		return fmt.Errorf("power on %s: %w", m.Name, err)
	}
	m.run, m.hung = run, false
	if m.boot.once {
		m.boot = override{}
	}
	return m.spoilCables()
}

// off takes the power away.
func (m *machine) off(context.Context) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.stop()
	return nil
}

// retire takes the power away for good.
func (m *machine) retire() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.gone = true
	m.stop()
}

func (m *machine) stop() {
	if m.powered() {
		m.run.end()
	}
}

// cycle takes the power of a running machine away and gives it back.
func (m *machine) cycle(ctx context.Context) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	if !m.powered() {
		return errOff
	}
	m.stop()
	return m.start(ctx)
}

// reset restarts a running machine. QEMU asks for the order of booting at its start only, so where that shall differ the
// machine is restarted.
func (m *machine) reset(ctx context.Context) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	switch {
	case !m.powered():
		return errOff
	case m.boot.first != "":
		m.stop()
		return m.start(ctx)
	}
	if err := m.run.monitor.do(ctx, "system_reset"); err != nil {
		return fmt.Errorf("reset %s: %w", m.Name, err)
	}
	return m.resume(ctx)
}

// press asks the running system to power off, as a short press on the power button does.
func (m *machine) press(ctx context.Context) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	if !m.powered() {
		return errOff
	}
	if err := m.run.monitor.do(ctx, "system_powerdown"); err != nil {
		return fmt.Errorf("power button of %s: %w", m.Name, err)
	}
	return nil
}

// resume lets stopped CPUs run.
func (m *machine) resume(ctx context.Context) error {
	if !m.hung || !m.powered() {
		return nil
	}
	if err := m.run.monitor.do(ctx, "cont"); err != nil {
		return fmt.Errorf("resume %s: %w", m.Name, err)
	}
	m.hung = false
	return nil
}

func (m *machine) setBoot(o override) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.boot = o
}

func (m *machine) getBoot() override {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.boot
}

func (m *machine) isOn() bool {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.powered()
}

// status is the machine as it is now.
func (m *machine) status(certificate string) rack.Status {
	m.lock.Lock()
	defer m.lock.Unlock()
	s := rack.Status{Machine: m.Machine, State: "off", Control: m.Control(certificate), Faults: m.faults.names()}
	if m.powered() {
		since := m.run.since.UTC().Truncate(time.Second)
		s.State, s.Since = "on", &since
		if m.hung {
			s.Faults = append(s.Faults, rack.Hang)
		}
	}
	return s
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
