package rack

import (
	"context"
	"errors"
	"fmt"
)

// What may be done to a machine by Client.Do, as the command line calls it.
const (
	On      = "on"
	Off     = "off"
	Kill    = "kill"     // loses its power, and gets it again when it is switched on
	Hang    = "hang"     // its CPUs stop; a reset or a loss of power ends that
	NoPower = "no-power" // switching it on has no effect, whatever the BMC says
	NoDHCP  = "no-dhcp"  // its packets to and from DHCP servers get lost
	Unplug  = "unplug"   // its network cable is out: no frame comes or goes
	Slow    = "slow"     // its network carries 256 kbit/s
	Corrupt = "corrupt"  // one byte of what it fetches by HTTP is another
	BadDisk = "bad-disk" // from its next start on, what would change its first disk fails
	Heal    = "heal"     // all faults are taken back
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
	}{{f.noPower, NoPower}, {f.badDisk, BadDisk}, {f.noDHCP, NoDHCP}, {f.unplugged, Unplug}, {f.slow, Slow},
		{f.corrupt > 0, Corrupt}} {
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

// do is what a person in front of the rack may do; after is where Corrupt strikes.
func (m *machine) do(ctx context.Context, what string, after int64) error {
	switch what {
	case On:
		return m.on(ctx)
	case Off, Kill:
		return m.off(ctx)
	case Hang:
		return m.hang(ctx)
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	switch what {
	case NoPower:
		m.faults.noPower = true
	case BadDisk:
		m.faults.badDisk = true
	case NoDHCP:
		m.faults.noDHCP = true
	case Unplug:
		m.faults.unplugged = true
	case Slow:
		m.faults.slow = true
	case Corrupt:
		m.faults.corrupt = max(after, 1)
	case Heal:
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
