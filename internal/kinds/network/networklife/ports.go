// Package networklife has the life of networks that machines are on: where their ports are, and where they belong.
//
// What enters: rows of machines and of what they boot, and what switches say. What leaves: ports in their segments, and events of
// those that were not.
package networklife

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	switches "muster/internal/drivers/switch"
	"muster/internal/inventory"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/network"
	"muster/internal/kinds/node"
	"muster/internal/kit/clock"
	"muster/internal/protocol"
)

// portLooks is how often it is looked where the ports of machines are.
const portLooks = 10 * time.Second

// Ports puts machines' ports where they belong, and looks whether they are still there.
type Ports struct {
	DB       *core.Store
	Log      *slog.Logger
	Switches switches.Registry // the drivers

	lock sync.Mutex        // held while a port is put somewhere
	said map[string]string // by machine and port: what was told of it last

	strays map[string][]string // by network: the ports that the last look isolated; the watch's alone
}

// Place puts a machine's ports into a segment. On a network whose switch Muster does not set it does nothing.
func (s *Ports) Place(ctx context.Context, m substrate.Machine, to switches.Segment) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.put(ctx, m.Machine, m.On, to)
}

func (s *Ports) put(ctx context.Context, m inventory.Machine, on inventory.Network, to switches.Segment) error {
	if !s.Switches.Isolates(on) {
		return nil
	}
	if len(m.Ports) == 0 || len(m.Ports) != len(m.MACs) {
		return fmt.Errorf("nobody said on which ports of the switch of network %s it is; remove it with `muster machines "+
			"remove %s`, and enrol it again with --port", on.Name, m.Name)
	}
	driver, err := s.Switches.Open(on)
	if err != nil {
		return err
	}
	for i, name := range m.Ports {
		mac, err := net.ParseMAC(m.MACs[i])
		if err != nil {
			return err
		}
		if err := driver.Put(ctx, switches.Port{Name: name, MACs: []net.HardwareAddr{mac}}, to); err != nil {
			return fmt.Errorf("the switch of network %s: %w", on.Name, err)
		}
	}
	return nil
}

// Joins makes the uplinks of shared parts end in the cluster's own segments of the networks they are on.
func (s *Ports) Joins(shared substrate.Shared) substrate.Shared { return segmented{shared, s} }

type segmented struct {
	substrate.Shared
	*Ports
}

// EnsureShared opens the segments and joins the cluster's network to their bridges.
func (s segmented) EnsureShared(ctx context.Context, cluster string, n substrate.Network) error {
	var networks []inventory.Network
	present := map[string]network.Presence{}
	err := s.DB.View(ctx, func(tx *core.Tx) error {
		all, err := network.PresencesOf(ctx, tx, cluster)
		if err != nil {
			return err
		}
		for _, p := range all {
			present[p.Network] = p
		}
		networks, err = network.List(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	var uplinks []substrate.Uplink
	for _, u := range n.Uplinks {
		i := slices.IndexFunc(networks, func(on inventory.Network) bool {
			return on.Namespace == u.Namespace && on.Interface == u.Interface
		})
		if i < 0 || !s.Switches.Isolates(networks[i]) {
			uplinks = append(uplinks, u)
			continue
		}
		own, err := s.uplinks(ctx, networks[i], present[networks[i].Name], n.Segment)
		if err != nil {
			return fmt.Errorf("the switch of network %s: %w", networks[i].Name, err)
		}
		uplinks = append(uplinks, own...)
	}
	n.Uplinks = uplinks
	return s.Shared.EnsureShared(ctx, cluster, n)
}

// uplinks are to the segments of one network where the cluster has nodes.
func (s segmented) uplinks(ctx context.Context, on inventory.Network, p network.Presence, segment int) ([]substrate.Uplink,
	error) {
	driver, err := s.Switches.Open(on)
	if err != nil {
		return nil, err
	}
	var all []substrate.Uplink
	for _, in := range []struct {
		there   bool
		segment switches.Segment
	}{{p.Wholes, switches.Segment(segment)}, {p.Guests, switches.Hosts}} {
		if !in.there {
			continue
		}
		bridge, err := driver.Open(ctx, in.segment)
		if err != nil {
			return nil, err
		}
		all = append(all, substrate.Uplink{Namespace: on.Namespace, Interface: bridge, Joined: true})
	}
	return all, nil
}

// Watch looks, until ctx ends, where the ports of machines are.
func (s *Ports) Watch(ctx context.Context) error {
	for {
		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			s.Log.Error("cannot look where the ports of machines are", "error", err)
		}
		if clock.Sleep(ctx, portLooks) != nil {
			return nil
		}
	}
}

// look is one look at all switches. A network whose switch does not answer keeps none of the others from it.
func (s *Ports) look(ctx context.Context) error {
	networks, err := core.Look(ctx, s.DB, func(tx *core.Tx) ([]inventory.Network, error) { return network.List(ctx, tx) })
	for _, n := range networks {
		if s.Switches.Isolates(n) {
			if failed := s.lookAt(ctx, n); failed != nil {
				err = errors.Join(err, fmt.Errorf("the switch of network %s: %w", n.Name, failed))
			}
		}
	}
	return err
}

func (s *Ports) lookAt(ctx context.Context, n inventory.Network) error {
	driver, err := s.Switches.Open(n)
	if err != nil {
		return err
	}
	opened, err := driver.Opened(ctx) // before the rows are read: whatever is open had its row before
	if err != nil {
		return err
	}
	ports, err := driver.Ports(ctx)
	if err != nil {
		return err
	}
	var machines []machine.Machine
	used := map[switches.Segment]bool{switches.Hosts: true}
	err = s.DB.View(ctx, func(tx *core.Tx) error {
		clusters, err := cluster.List(ctx, tx, "")
		for _, c := range clusters {
			used[switches.Segment(c.Segment)] = true
		}
		if err != nil {
			return err
		}
		machines, err = machine.List(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	for _, segment := range opened {
		if !used[segment] {
			if failed := driver.Close(ctx, segment); failed != nil && !errors.Is(failed, switches.ErrInUse) {
				err = errors.Join(err, failed)
			}
		}
	}
	var placed []switches.Placed
	var named []string
	for _, m := range machines {
		if m.Network == n.Name && !m.IsGuest() {
			named = append(named, m.Ports...)
			right, failed := s.compare(ctx, m.Machine, n, ports)
			placed, err = append(placed, right...), errors.Join(err, failed)
		}
	}
	return errors.Join(err, s.isolate(ctx, n, driver, named), s.remind(ctx, n, driver, placed))
}

// isolate has the ports of a switch that are no machine's reach the controller alone, and tells of each. One that somebody
// else opens again and again is told of once.
func (s *Ports) isolate(ctx context.Context, n inventory.Network, driver switches.Switch, named []string) error {
	s.lock.Lock()
	strays, err := driver.Isolate(ctx, named)
	s.lock.Unlock()
	before := s.strays[n.Name]
	if s.strays == nil {
		s.strays = map[string][]string{}
	}
	s.strays[n.Name] = strays
	for _, p := range strays {
		if slices.Contains(before, p) {
			continue
		}
		text := fmt.Sprintf("port %s of network %s is no machine's, and was not isolated; now it reaches the controller alone "+
			"(the alias %s leaves a port open)", p, n.Name, switches.Trusted)
		s.Log.Warn("a port of no machine was not isolated", "network", n.Name, "what", text)
		err = errors.Join(err, s.DB.Update(ctx, func(tx *core.Tx) error {
			tx.Log(core.Event{Type: "network.port", Text: text})
			return nil
		}))
	}
	return err
}

// remind tells a switch again what it has forgotten of ports that are where they belong, as one does that was restarted.
func (s *Ports) remind(ctx context.Context, n inventory.Network, driver switches.Switch, placed []switches.Placed) error {
	forgetful, can := driver.(switches.Forgetful)
	if !can || len(placed) == 0 {
		return nil
	}
	forgotten, err := forgetful.Forgotten(ctx, placed)
	if err != nil || len(forgotten) == 0 {
		return err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	ports, err := driver.Ports(ctx) // one may have been put elsewhere meanwhile
	for _, p := range forgotten {
		if in, there := ports[p.Name]; err == nil && there && in == p.In {
			if err = forgetful.Remind(ctx, p); err == nil {
				s.Log.Info("a switch is configured again with a machine's port", "network", n.Name, "port", p.Name, "segment",
					p.In.String())
			}
		}
	}
	return err
}

// compare tells of ports that are not where they belong. Those of a machine that boots nothing are put into the common segment;
// those of others are left alone, since only their own next boot knows for certain that nothing else runs there. It returns
// those that are where they belong.
func (s *Ports) compare(ctx context.Context, m inventory.Machine, n inventory.Network,
	ports map[string]switches.Segment) (right []switches.Placed, err error) {
	want, free, err := s.wanted(ctx, m)
	if err != nil || want == switches.Nowhere {
		return nil, err
	}
	stray := false
	for i, p := range m.Ports {
		in, there := ports[p]
		text := ""
		if !there {
			text = fmt.Sprintf("the switch of network %s has no port %s", n.Name, p)
		} else if in != want {
			text = fmt.Sprintf("port %s was in %s, and belongs in %s", p, in, want)
			stray = true
		} else if i < len(m.MACs) {
			if mac, err := net.ParseMAC(m.MACs[i]); err == nil {
				right = append(right, switches.Placed{Port: switches.Port{Name: p, MACs: []net.HardwareAddr{mac}}, In: want})
			}
		}
		if err := s.tell(ctx, m, p, text); err != nil {
			return nil, err
		}
	}
	if !free || !stray {
		return right, nil
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if _, free, err := s.wanted(ctx, m); err != nil || !free { // a boot may have begun
		return nil, err
	}
	return nil, s.put(ctx, m, n, switches.Common)
}

// tell notes what is wrong with a port, once.
func (s *Ports) tell(ctx context.Context, m inventory.Machine, port, text string) error {
	key := m.ID + "/" + port
	s.lock.Lock()
	known := s.said[key] == text
	if s.said == nil {
		s.said = map[string]string{}
	}
	s.said[key] = text
	s.lock.Unlock()
	if known || text == "" {
		return nil
	}
	s.Log.Warn("a machine's port is in the wrong segment", "machine", m.Name, "what", text)
	return s.DB.Update(ctx, func(tx *core.Tx) error {
		tx.Log(core.Event{Type: "machine.port", Machine: m.Name, Text: text})
		return nil
	})
}

// wanted is where a machine's ports belong, and whether it boots nothing. Nowhere: it is between two places.
func (s *Ports) wanted(ctx context.Context, m inventory.Machine) (want switches.Segment, free bool, err error) {
	err = s.DB.View(ctx, func(tx *core.Tx) error {
		boot, err := machine.BootOn(ctx, tx, m.ID)
		switch {
		case errors.Is(err, core.ErrNotFound):
			want, free = switches.Common, true
			return nil
		case err != nil:
			return err
		case boot.PoweredAt.IsZero() || boot.Ending:
			want = switches.Nowhere
			return nil
		case boot.File.Duty == protocol.Host:
			want = switches.Hosts
			return nil
		case boot.Inspection():
			want = switches.Common
			return nil
		}
		n, err := node.Get(ctx, tx, boot.Subject)
		if err != nil {
			return err
		}
		cluster, err := cluster.Get(ctx, tx, n.Cluster)
		want = switches.Segment(cluster.Segment)
		// A node that goes is switched off and put aside by steps that no row tells of.
		if n.Phase == core.Releasing || n.Phase == core.Failed || n.Phase == node.Attaching {
			want = switches.Nowhere
		}
		return err
	})
	return want, free, err
}
