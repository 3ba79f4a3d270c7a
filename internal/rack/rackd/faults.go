package rackd

import (
	"context"
	"errors"
	"fmt"

	"muster/internal/rack"
)

// faults are those that outlive a loss of power.
type faults struct {
	noPower bool
	badDisk bool // from the next start on
	spoil
}

func (f faults) names() []string {
	names := []string{}
	for _, fault := range []struct {
		is   bool
		name string
	}{{f.noPower, rack.NoPower}, {f.badDisk, rack.BadDisk}, {f.noDHCP, rack.NoDHCP}, {f.unplugged, rack.Unplug},
		{f.slow, rack.Slow}, {f.corrupt > 0, rack.Corrupt}} {
		if fault.is {
			names = append(names, fault.name)
		}
	}
	return names
}

var (
	errOff     = errors.New("the machine is off")
	errUnknown = errors.New("there is no such thing to do with a machine")
)

// do is what a person in front of the rack may do; after is where rack.Corrupt strikes.
func (m *machine) do(ctx context.Context, what string, after int64) error {
	switch what {
	case rack.On:
		return m.on(ctx)
	case rack.Off, rack.Kill:
		return m.off(ctx)
	case rack.Hang:
		return m.hang(ctx)
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	switch what {
	case rack.NoPower:
		m.faults.noPower = true
	case rack.BadDisk:
		m.faults.badDisk = true
	case rack.NoDHCP:
		m.faults.noDHCP = true
	case rack.Unplug:
		m.faults.unplugged = true
	case rack.Slow:
		m.faults.slow = true
	case rack.Corrupt:
		m.faults.corrupt = max(after, 1)
	case rack.Heal:
		m.faults = faults{}
		if err := m.resume(ctx); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s: %w", what, errUnknown)
	}
	return m.spoilCables()
}

func (m *machine) hang(ctx context.Context) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	if !m.powered() {
		return errOff
	}
	if err := m.run.monitor.do(ctx, "stop"); err != nil {
		return fmt.Errorf("hang %s: %w", m.Name, err)
	}
	m.hung = true
	return nil
}

// spoilCables makes the running machine's cables as bad as its faults say.
func (m *machine) spoilCables() error {
	if !m.powered() {
		return nil
	}
	for _, c := range m.run.cables {
		if err := c.spoil(m.faults.spoil); err != nil {
			return fmt.Errorf("network of %s: %w", m.Name, err)
		}
	}
	return nil
}
