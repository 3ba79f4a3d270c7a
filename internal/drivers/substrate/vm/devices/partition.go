package devices

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"muster/internal/fabric"
)

// Adapters of the family ConnectX-2 and -3 (driver mlx4) have one table of partitions a port for the host and all guests; what
// a virtual function sees of it is a mapping that the host writes (Linux, drivers/infiniband/hw/mlx4/sysfs.c). From ConnectX-4 on
// (mlx5) each function has a table of its own, which the subnet manager fills by the function's GUID, and there is no mapping.
//
//	class/infiniband/mlx4_0/iov/ports/1/pkeys/N             the port's table
//	class/infiniband/mlx4_0/iov/ports/1/admin_guids/SLAVE   a function's GUID
//	class/infiniband/mlx4_0/iov/0000:04:00.1/ports/1/pkey_idx/N   its N-th entry: which of the port's, or "none"
//
// A function that is new sees the port's first entry, the default partition. "none" is stored as the slot behind the last one
// that can be read, so it is no more than a slot that is most likely empty. Hence a guest's function has every entry mapped to
// its own partition's slot, and none to "none"; and where it has no partition the port's table must not be full to its end.

// ErrNoKey is returned for a guest whose partition is not in its host's port yet: the subnet manager comes first.
var ErrNoKey = errors.New("the subnet manager has not put its partition there")

const (
	none        = "none"
	deletedGUID = 1<<64 - 1 // as a value of admin_guids: the entry goes
	infiniband  = "InfiniBand"
)

// adapter is a physical function that maps partitions for its virtual ones.
type adapter struct {
	physical, name string
	ports          []int // on InfiniBand
}

// rdma finds what maps the partitions of a physical function; nil if nothing does.
func (d *Driver) rdma(physical string) (*adapter, error) {
	names, err := d.Kernel.List(device(physical, "infiniband"))
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("RDMA devices of %s: %w", physical, err)
	}
	for _, name := range names {
		numbers, err := d.Kernel.List(path.Join("class/infiniband", name, "iov/ports"))
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ports of %s: %w", name, err)
		}
		a := &adapter{physical: physical, name: name}
		for _, number := range numbers {
			port, err := strconv.Atoi(number)
			if err != nil {
				continue
			}
			layer, err := d.Kernel.Read(path.Join("class/infiniband", name, "ports", number, "link_layer"))
			if err != nil {
				return nil, fmt.Errorf("port %d of %s: %w", port, name, err)
			}
			if layer == infiniband {
				a.ports = append(a.ports, port)
			}
		}
		switch {
		case len(a.ports) == 0:
			return nil, nil
		case len(a.ports) < len(numbers):
			return nil, fmt.Errorf("%s has ports on InfiniBand and on Ethernet: set both to one kind (port_type_array of "+
				"mlx4_core)", name)
		}
		return a, nil
	}
	return nil, nil
}

// side is one port of an adapter, as one of its virtual functions has it.
type side struct {
	*adapter
	number, port int
}

func (a *adapter) side(number, port int) side { return side{a, number, port} }

// slave is the function's number for the driver: the physical one is 0.
func (s side) slave() int { return s.number + 1 }

func (s side) shared() string {
	return path.Join("class/infiniband", s.name, "iov/ports", strconv.Itoa(s.port))
}

// own is the function's folder. The driver names it as if the adapter were device 0 of its bus and its functions followed each
// other, and counts the device in decimal (get_name).
func (s side) own() string {
	const bus = len("0000:00:")
	function := fmt.Sprintf("%s%02d.%d", s.physical[:bus], s.slave()/8, s.slave()%8)
	return path.Join("class/infiniband", s.name, "iov", function, "ports", strconv.Itoa(s.port))
}

func (s side) String() string { return fmt.Sprintf("%s port %d", s.name, s.port) }

// table is a port's, by slots.
type table []fabric.Entry

// table reads it. Each slot is a command to the adapter, of some ten microseconds.
func (d *Driver) table(a *adapter, port int) (table, error) {
	s := a.side(0, port)
	keys, err := d.numbered(path.Join(s.shared(), "pkeys"))
	if err != nil {
		return nil, err
	}
	var t table
	for _, text := range keys {
		n, err := strconv.ParseUint(text, 0, 16)
		if err != nil {
			return nil, fmt.Errorf("%s: its table reads %q", s, text)
		}
		t = append(t, fabric.Entry(n))
	}
	if len(t) == 0 {
		return nil, fmt.Errorf("%s has no table of partitions", s)
	}
	return t, nil
}

// mapping is a function's, by its own entries: a slot, or "none".
func (d *Driver) mapping(s side) ([]string, error) {
	return d.numbered(path.Join(s.own(), "pkey_idx"))
}

// numbered reads all files of a folder whose names are 0, 1, 2 …
func (d *Driver) numbered(dir string) ([]string, error) {
	names, err := d.Kernel.List(dir)
	if err != nil {
		return nil, err
	}
	all := make([]string, len(names))
	for i := range all {
		if all[i], err = d.Kernel.Read(path.Join(dir, strconv.Itoa(i))); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// slot is where a partition is in the port's table, as a full member where it is there twice; "none" if it is nowhere. It is
// looked up by value each time: the manager moves keys between slots.
func (t table) slot(key fabric.Key) string {
	if key == 0 {
		return none
	}
	if at := slices.Index(t, key.In(fabric.Full)); at >= 0 {
		return strconv.Itoa(at)
	}
	if at := slices.Index(t, key.In(fabric.Limited)); at >= 0 {
		return strconv.Itoa(at)
	}
	return none
}

// strange are the partitions that a mapping shows and that are not this key's.
func (t table) strange(mapping []string, key fabric.Key) (all []fabric.Entry) {
	for _, text := range mapping {
		at, err := strconv.Atoi(text)
		if err != nil || at < 0 || at >= len(t) {
			continue
		}
		if e := t[at]; e != 0 && e.Key() != key && !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	return all
}

// full says that the table is used to the end of what can be read, so that the slot behind it, which "none" stands for, may be
// too.
func (t table) full() bool { return t[len(t)-1] != 0 }

// nowhere is what a function is led to that is to see nothing: "none" while that can be trusted, else a slot that is seen empty.
func (t table) nowhere() string {
	if !t.full() {
		return none
	}
	for at := len(t) - 1; at > 0; at-- {
		if t[at] == 0 {
			return strconv.Itoa(at)
		}
	}
	return none
}

// remap has all entries of a function lead to one slot, or to none, and reads them back.
func (d *Driver) remap(ctx context.Context, s side, target string) error {
	mapping, err := d.mapping(s)
	if err != nil || !slices.ContainsFunc(mapping, func(now string) bool { return now != target }) {
		return err
	}
	if err := d.verifySlave(s); err != nil {
		return err
	}
	for i, now := range mapping {
		if now == target {
			continue
		}
		// The kernel may fail after it has done it, since it tells the guest last.
		if err := d.write(ctx, path.Join(s.own(), "pkey_idx", strconv.Itoa(i)), target); err != nil {
			return err
		}
	}
	if mapping, err = d.mapping(s); err != nil {
		return err
	}
	for i, now := range mapping {
		if now != target {
			return fmt.Errorf("entry %d of %s reads %q, and was set to %s", i, s, now, target)
		}
	}
	return nil
}

// verifySlave sees that the folder is the function's: its name is made by a rule that knows no gaps between functions.
func (d *Driver) verifySlave(s side) error {
	text, err := d.Kernel.Read(path.Join(s.own(), "gid_idx/0"))
	if err == nil && text != strconv.Itoa(s.slave()) {
		err = fmt.Errorf("%s is not virtual function %d's, but slave %s's", s.own(), s.number, text)
	}
	return err
}

// hide takes all partitions from a function without a record: a new one sees the default partition.
func (d *Driver) hide(ctx context.Context, a *adapter, number int) error {
	for _, port := range a.ports {
		s := a.side(number, port)
		if err := d.remap(ctx, s, none); err != nil {
			return fmt.Errorf("take partitions from virtual function %d of %s: %w", number, s, err)
		}
	}
	return nil
}

// show gives a function its guest's partitions and GUIDs.
func (d *Driver) show(ctx context.Context, a *adapter, r record) error {
	keys, err := parseKeys(r.Keys)
	if err != nil {
		return err
	}
	for _, port := range a.ports {
		s := a.side(r.Number, port)
		key, err := d.key(s, keys)
		if err != nil {
			return err
		}
		t, err := d.table(a, port)
		if err != nil {
			return err
		}
		slot := t.slot(key)
		switch {
		case key != 0 && slot == none:
			return fmt.Errorf("%s lacks partition %s: %w", s, key, ErrNoKey)
		case slot == none && t.full():
			return fmt.Errorf("%s has its table of partitions used to the end, and what stands behind that, which a guest "+
				"without a partition would see, cannot be read: restart the subnet manager, which packs the table again", s)
		}
		if err := d.remap(ctx, s, slot); err != nil {
			return err
		}
		if err := d.withholdSMI(ctx, s); err != nil {
			return err
		}
		if err := d.setGUID(ctx, s, r.GUID); err != nil {
			return err
		}
	}
	return nil
}

// withhold takes a guest's GUIDs and partitions from its function.
func (d *Driver) withhold(ctx context.Context, a *adapter, r record) error {
	if err := d.hide(ctx, a, r.Number); err != nil {
		return err
	}
	for _, port := range a.ports {
		if err := d.setGUID(ctx, a.side(r.Number, port), ""); err != nil {
			return err
		}
	}
	return nil
}

// key is the partition that a function's guest has at a port; 0: none.
func (d *Driver) key(s side, keys map[fabric.GUID]fabric.Key) (fabric.Key, error) {
	if len(keys) == 0 {
		return 0, nil
	}
	gid, err := d.Kernel.Read(path.Join("class/infiniband", s.name, "ports", strconv.Itoa(s.port), "gids/0"))
	if err != nil {
		return 0, err
	}
	words := strings.Split(gid, ":")
	guid, err := fabric.ParseGUID(strings.Join(words[len(words)/2:], ":"))
	if err != nil {
		return 0, fmt.Errorf("%s has GID %q: %w", s, gid, err)
	}
	if key, named := keys[guid]; named {
		return key, nil
	}
	return keys[0], nil
}

// withholdSMI keeps a guest from speaking to subnet management agents, which could rewrite the port's table.
func (d *Driver) withholdSMI(ctx context.Context, s side) error {
	file := path.Join(s.own(), "enable_smi_admin")
	now, err := d.optional(file)
	if err != nil || now == "" || now == "0" {
		return err
	}
	return d.write(ctx, file, "0")
}

// setGUID has the adapter ask the subnet manager for a GUID; "": for none. The second port's differs in one bit: both may be on
// one subnet.
func (d *Driver) setGUID(ctx context.Context, s side, guid string) error {
	want := uint64(deletedGUID)
	if guid != "" {
		g, err := fabric.ParseGUID(guid)
		if err != nil {
			return err
		}
		want = uint64(g) ^ uint64(s.port-1)<<48
	}
	file := path.Join(s.shared(), "admin_guids", strconv.Itoa(s.slave()))
	for _, wrote := range []bool{false, true} {
		text, err := d.Kernel.Read(file)
		if err != nil {
			return err
		}
		now, err := strconv.ParseUint(text, 16, 64)
		switch {
		case err == nil && now == want:
			return nil
		case wrote:
			return fmt.Errorf("%s reads %q, and was set to %x", file, text, want)
		}
		if err := d.write(ctx, file, "0x"+strconv.FormatUint(want, 16)); err != nil {
			return err
		}
	}
	return nil
}

// spellKeys makes partitions by ports a text that is the same for the same ones.
func spellKeys(keys map[fabric.GUID]fabric.Key) string {
	var all []string
	for port, key := range keys {
		all = append(all, port.String()+"="+key.String())
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

func parseKeys(text string) (map[fabric.GUID]fabric.Key, error) {
	keys := map[fabric.GUID]fabric.Key{}
	if text == "" {
		return keys, nil
	}
	for _, item := range strings.Split(text, ",") {
		port, key, ok := strings.Cut(item, "=")
		n, err := strconv.ParseUint(port, 0, 64)
		k, err2 := strconv.ParseUint(key, 0, 16)
		if !ok || err != nil || err2 != nil || fabric.Key(k) < fabric.FirstKey || fabric.Key(k) > fabric.LastKey {
			return nil, fmt.Errorf("%q is no partition at a port", item)
		}
		keys[fabric.GUID(n)] = fabric.Key(k)
	}
	return keys, nil
}
