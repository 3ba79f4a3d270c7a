package fake

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Sizes of a port's table of partitions: how many slots there are, and how many the driver shows (mlx4_parav_master_pf_caps).
const (
	Slots   = 128
	visible = Slots - 1
)

// mapped is what an adapter of mlx4 has for partitions (Linux, drivers/infiniband/hw/mlx4: sysfs.c, main.c).
type mapped struct {
	name    string
	bus     string             // "0000:04:"
	tables  [][Slots]uint16    // of the ports
	mapping [][][visible]uint8 // by slave and port; slave 0 is the physical function
	guids   []map[int]uint64   // admin_guids of the ports
	smi     []map[int]bool     // enable_smi_admin of the ports
	layers  []string           // of the ports
	told    int                // guests that were told of a change
}

func newMapped(f Function) *mapped {
	m := &mapped{name: f.Mapped, bus: f.Address[:len("0000:00:")]}
	for range max(f.Ports, 1) {
		m.tables = append(m.tables, [Slots]uint16{0xffff})
		m.guids, m.smi = append(m.guids, map[int]uint64{}), append(m.smi, map[int]bool{})
		m.layers = append(m.layers, "InfiniBand")
	}
	for slave := range f.VFs + 1 {
		var ports [][visible]uint8
		for range m.tables {
			var entries [visible]uint8
			for i := range entries {
				switch {
				case slave == 0:
					entries[i] = uint8(i)
				case i > 0:
					entries[i] = Slots - 1 // the first one is 0: the default partition
				}
			}
			ports = append(ports, entries)
		}
		m.mapping = append(m.mapping, ports)
	}
	return m
}

// portGUID is that of one of the adapter's own ports.
func (m *mapped) portGUID(port int) string {
	return fmt.Sprintf("0002:c903:00%s:000%d", strings.Trim(m.bus[len("0000"):], ":"), port)
}

// folder is the name of a slave's folder.
func (m *mapped) folder(slave int) string { return fmt.Sprintf("%s%02d.%d", m.bus, slave/8, slave%8) }

// adapter finds what a path below class/infiniband is about.
func (k *Kernel) adapter(name string) (m *mapped, at []string) {
	if !strings.HasPrefix(name, "class/infiniband/") {
		return nil, nil
	}
	words := strings.Split(name, "/")
	for _, f := range k.functions {
		if f.mapped != nil && f.mapped.name == words[2] && f.bound == f.Driver {
			return f.mapped, words[3:]
		}
	}
	return nil, nil
}

// spot is one of the numbered files: its kind, slave and port.
type spot struct {
	kind        string
	slave, port int // port from 0
	index       int // -1: the folder
}

// spot reads "iov/ports/1/pkeys/3" and "iov/0000:04:00.1/ports/1/pkey_idx/3".
func (m *mapped) spot(at []string) (s spot, ok bool) {
	if len(at) < 4 || at[0] != "iov" {
		return s, false
	}
	s.slave, s.index = -1, -1
	rest := at[1:]
	if rest[0] != "ports" {
		for slave := range m.mapping {
			if m.folder(slave) == rest[0] {
				s.slave = slave
			}
		}
		if rest = rest[1:]; s.slave < 0 || len(rest) < 3 || rest[0] != "ports" {
			return s, false
		}
	}
	port, err := strconv.Atoi(rest[1])
	if err != nil || port < 1 || port > len(m.tables) {
		return s, false
	}
	s.port, s.kind = port-1, rest[2]
	if len(rest) > 3 {
		if s.index, err = strconv.Atoi(rest[3]); err != nil || s.index < 0 || s.index >= m.files(s.kind) {
			return s, false
		}
	}
	shared := s.kind == "pkeys" || s.kind == "admin_guids" || s.kind == "gids"
	return s, shared == (s.slave < 0) && len(rest) < 5
}

func (m *mapped) files(kind string) int {
	return map[string]int{"pkeys": visible, "pkey_idx": visible, "admin_guids": Slots, "gids": Slots, "gid_idx": 1}[kind]
}

// readMapped reads a file, and false where it is none of an adapter's.
func (k *Kernel) readMapped(name string) (string, bool) {
	m, at := k.adapter(name)
	if m == nil {
		return "", false
	}
	if strings.Join(at, "/") == "device" {
		return m.bus + "00.0", true
	}
	if len(at) >= 3 && at[0] == "ports" {
		port, err := strconv.Atoi(at[1])
		switch {
		case err != nil || port < 1 || port > len(m.tables):
		case at[2] == "link_layer":
			return m.layers[port-1], true
		case strings.Join(at[2:], "/") == "gids/0":
			return "fe80:0000:0000:0000:" + m.portGUID(port), true
		}
		return "", false
	}
	s, ok := m.spot(at)
	switch {
	case !ok:
	case s.kind == "pkeys" && s.index >= 0:
		return fmt.Sprintf("0x%04x", m.tables[s.port][s.index]), true
	case s.kind == "admin_guids" && s.index >= 0:
		return strconv.FormatUint(m.guids[s.port][s.index], 16), true
	case s.kind == "gid_idx" && s.index == 0:
		return strconv.Itoa(s.slave), true
	case s.kind == "enable_smi_admin":
		return map[bool]string{true: "1", false: "0"}[m.smi[s.port][s.slave]], true
	case s.kind == "pkey_idx" && s.index >= 0:
		at := m.mapping[s.slave][s.port][s.index]
		if at >= visible {
			return "none", true
		}
		return strconv.Itoa(int(at)), true
	}
	return "", false
}

// listMapped lists a folder, and false where it is none of an adapter's.
func (k *Kernel) listMapped(name string) ([]string, bool) {
	if name == "class/infiniband" {
		var all []string
		for _, f := range k.functions {
			if f.mapped != nil && f.bound == f.Driver {
				all = append(all, f.mapped.name)
			}
		}
		slices.Sort(all)
		return all, len(all) > 0
	}
	m, at := k.adapter(name)
	if m == nil {
		return nil, false
	}
	count, from := 0, 0
	switch s, ok := m.spot(at); {
	case ok && s.index < 0:
		count = m.files(s.kind)
	case strings.Join(at, "/") == "iov/ports":
		count, from = len(m.tables), 1
	}
	names := map[string]bool{}
	for i := range count {
		names[strconv.Itoa(from+i)] = true
	}
	return slices.Sorted(maps.Keys(names)), count > 0
}

// writeMapped follows store_port_pkey, store_admin_alias_guid and sysfs_store_enable_smi_admin.
func (k *Kernel) writeMapped(m *mapped, at []string, text string) error {
	s, ok := m.spot(at)
	switch {
	case !ok:
		return unix.ENOENT
	case s.kind == "pkey_idx" && s.index >= 0:
		if s.slave == 0 {
			return unix.EINVAL
		}
		to := Slots - 1
		if len(text) < 2 || !strings.EqualFold(text[:2], "no") {
			n, err := strconv.ParseInt(strings.TrimSpace(text), 0, 32)
			if err != nil || n < 0 || n >= visible {
				return unix.EINVAL
			}
			to = int(n)
		}
		m.mapping[s.slave][s.port][s.index] = uint8(to)
		m.told++
		return nil
	case s.kind == "admin_guids" && s.index >= 0:
		n, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(text), "0x"), 16, 64)
		if s.index > 0 && err == nil { // the first one is the port's own: the kernel says yes and changes nothing
			m.guids[s.port][s.index] = n
		}
		return nil
	case s.kind == "enable_smi_admin":
		if text != "0" && text != "1" {
			return unix.EINVAL
		}
		m.smi[s.port][s.slave] = text == "1"
		return nil
	}
	return unix.EACCES
}

// SetKey is the subnet manager, which writes a slot of a port's table; ports count from 1.
func (k *Kernel) SetKey(physical string, port, slot int, entry uint16) {
	_ = k.locked(func() error { k.functions[physical].mapped.tables[port-1][slot] = entry; return nil })
}

// Keys is a port's whole table, with the slot that cannot be read.
func (k *Kernel) Keys(physical string, port int) (table [Slots]uint16) {
	_ = k.locked(func() error { table = k.functions[physical].mapped.tables[port-1]; return nil })
	return table
}

// SeenKeys are the partitions that a virtual function sees at a port: what the hardware would let it speak in.
func (k *Kernel) SeenKeys(address string, port int) (seen []uint16) {
	_ = k.locked(func() error {
		f := k.functions[address]
		m := f.parent.mapped
		for _, slot := range m.mapping[f.number+1][port-1] {
			if e := m.tables[port-1][slot]; e != 0 && !slices.Contains(seen, e) {
				seen = append(seen, e)
			}
		}
		return nil
	})
	return seen
}

// GUIDOf is what the adapter asks the subnet manager for, for a virtual function's port.
func (k *Kernel) GUIDOf(address string, port int) (guid uint64) {
	_ = k.locked(func() error {
		f := k.functions[address]
		guid = f.parent.mapped.guids[port-1][f.number+1]
		return nil
	})
	return guid
}

// AllowSMI lets a virtual function speak to subnet management agents, as an operator may have.
func (k *Kernel) AllowSMI(address string, port int) {
	_ = k.locked(func() error {
		f := k.functions[address]
		f.parent.mapped.smi[port-1][f.number+1] = true
		return nil
	})
}

// SMI says whether it may.
func (k *Kernel) SMI(address string, port int) (may bool) {
	_ = k.locked(func() error {
		f := k.functions[address]
		may = f.parent.mapped.smi[port-1][f.number+1]
		return nil
	})
	return may
}
