package devices

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

const (
	noMAC  = "00:00:00:00:00:00"
	noGUID = "00:00:00:00:00:00:00:00"
)

// setting is one thing that a physical function's network interface sets for a virtual one.
type setting struct {
	name, value string
	required    bool   // of the interface's driver: without it a guest could pretend to be another
	never       string // where the driver chooses a value of its own instead, it must not be this
}

// settings are those that a virtual function gets for its guest, and the interface that sets them; none for what is not
// on a network.
func (d *Driver) settings(f function, w Want) (link string, all []setting, err error) {
	if w.Withheld {
		return "", nil, nil
	}
	if f.parent == "" {
		if w.MAC != "" || w.GUID != "" || w.VLAN != 0 {
			return "", nil, errors.New("it is whole: only a virtual function is given an address or a VLAN, by its physical one")
		}
		return "", nil, nil
	}
	a, err := d.rdma(f.parent)
	if err != nil {
		return "", nil, err
	}
	needsGUID := func() error {
		if w.GUID == "" || w.VLAN != 0 {
			return errors.New("a virtual function on InfiniBand needs a GUID, and has no VLAN")
		}
		return nil
	}
	if a != nil {
		return "", nil, needsGUID()
	}
	link, infiniband, err := d.link(f.parent)
	if err != nil || link == "" {
		return "", nil, err
	}
	if infiniband {
		if err := needsGUID(); err != nil {
			return "", nil, err
		}
		// The port's link follows the policy of its own (Follow: "auto"; drivers/infiniband/hw/mlx5/ib_virt.c). GUIDs are
		// read back since Linux 5.5.
		return link, []setting{
			{name: "node_guid", value: w.GUID, required: true}, {name: "port_guid", value: w.GUID, required: true},
			{name: "state", value: "auto"},
		}, nil
	}
	if w.MAC == "" {
		return "", nil, errors.New("a virtual function on Ethernet needs a MAC address")
	}
	return link, []setting{
		{name: "mac", value: w.MAC, required: true}, {name: "vlan", value: strconv.Itoa(w.VLAN), required: true},
		{name: "spoofchk", value: "on", required: true}, {name: "trust", value: "off"}, {name: "state", value: "auto"},
	}, nil
}

// link is the network interface of a physical function that governs its virtual ones; "" if it has none.
func (d *Driver) link(physical string) (name string, infiniband bool, err error) {
	names, err := d.Kernel.List(device(physical, "net"))
	if missing(err) {
		f, err := d.look(physical)
		if err == nil && f.class>>8 == 0x02 {
			err = fmt.Errorf("its physical function %s has no network interface; for InfiniBand load ib_ipoib", physical)
		}
		return "", false, err
	}
	if err != nil {
		return "", false, fmt.Errorf("network interfaces of %s: %w", physical, err)
	}
	// An adapter in switchdev mode has an interface for each virtual function as well, whose port is called pf0vf3
	// (Documentation/networking/switchdev.rst).
	representor := regexp.MustCompile(`vf\d+$`)
	for _, n := range names {
		port, err := d.Kernel.Read("class/net/" + n + "/phys_port_name")
		if err == nil && representor.MatchString(port) {
			continue
		}
		if name != "" {
			return "", false, fmt.Errorf("%s has several network interfaces, %s and %s: which one governs its virtual "+
				"functions is not known", physical, name, n)
		}
		name = n
	}
	const infinibandType = "32" // include/uapi/linux/if_arp.h
	kind, err := d.Kernel.Read("class/net/" + name + "/type")
	if err != nil {
		return "", false, fmt.Errorf("network interface %s of %s: %w", name, physical, err)
	}
	return name, kind == infinibandType, nil
}

// configure gives a virtual function its guest's address.
func (d *Driver) configure(ctx context.Context, f function, w Want, link string, all []setting) error {
	if link != "" {
		return d.apply(ctx, link, f.number, all)
	}
	if f.parent != "" && !w.Withheld {
		if a, err := d.rdma(f.parent); err != nil {
			return err
		} else if a != nil {
			return d.show(ctx, a, record{Number: f.number, GUID: w.GUID, Keys: spellKeys(w.Keys)})
		}
		p, err := d.look(f.parent)
		if err != nil || p.class != classNVMe {
			return err
		}
		return d.nvmeOccupy(ctx, f.parent, f.number)
	}
	return nil
}

// park takes the guest's address from a virtual function, and its link.
func (d *Driver) park(ctx context.Context, r record) error {
	if a, err := d.rdma(r.Parent); err != nil {
		return err
	} else if a != nil {
		return d.withhold(ctx, a, r)
	}
	link, infiniband, err := d.link(r.Parent)
	if err != nil || link == "" {
		return err
	}
	if infiniband {
		return d.apply(ctx, link, r.Number, []setting{
			{name: "state", value: "disable"},
			{name: "node_guid", value: noGUID, required: true, never: r.GUID},
			{name: "port_guid", value: noGUID, required: true, never: r.GUID},
		})
	}
	return d.apply(ctx, link, r.Number, []setting{
		{name: "state", value: "disable"}, {name: "mac", value: noMAC, required: true, never: r.MAC},
		{name: "vlan", value: "0", required: true},
		{name: "spoofchk", value: "on", required: true}, {name: "trust", value: "off"},
	})
}

// apply sets what differs, and reads all back.
func (d *Driver) apply(ctx context.Context, link string, number int, all []setting) error {
	now, err := d.Links.VF(ctx, link, number)
	if err != nil {
		return fmt.Errorf("virtual function %d of %s: %w", number, link, err)
	}
	unknown := map[string]bool{}
	for _, s := range all {
		if now[s.name] == s.value {
			continue
		}
		err := d.Links.SetVF(ctx, link, number, s.name, s.value)
		if errors.Is(err, errors.ErrUnsupported) && !s.required {
			unknown[s.name] = true
			continue
		}
		if err != nil {
			return fmt.Errorf("set %s of virtual function %d of %s to %s: %w", s.name, number, link, s.value, err)
		}
	}
	if now, err = d.Links.VF(ctx, link, number); err != nil {
		return fmt.Errorf("read virtual function %d of %s back: %w", number, link, err)
	}
	for _, s := range all {
		got, told := now[s.name]
		chosen := s.never != "" && told && got != s.never
		if got != s.value && !chosen && !unknown[s.name] && (told || s.required) {
			return fmt.Errorf("%s of virtual function %d of %s reads %q, and was set to %s", s.name, number, link, got, s.value)
		}
	}
	return nil
}
