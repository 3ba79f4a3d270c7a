package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"muster/internal/kit/lists"
	"muster/internal/kit/wrap"
)

// Actions and resources of the Virtualization Management command (NVM Express 1.4, 5.22).
const (
	primaryFlexible  = "1"
	secondaryOffline = "7"
	secondaryAssign  = "8"
	secondaryOnline  = "9"
	queues           = "0" // an admin queue, and those for input and output
	interrupts       = "1"
)

// controller is the character device of an NVMe function that the host drives, and its name.
func (d *Driver) controller(address string) (name, path string, err error) {
	names, err := d.Kernel.List(device(address, "nvme"))
	if err == nil && len(names) == 0 {
		err = errors.New("no controller")
	}
	if err != nil {
		return "", "", fmt.Errorf("the driver nvme does not have %s: %w", address, err)
	}
	return names[0], "/dev/" + names[0], nil
}

func (d *Driver) nvme(ctx context.Context, argv ...string) error {
	_, err := d.Tools.Run(ctx, append([]string{"nvme"}, argv...)...)
	return err
}

func (d *Driver) identify(ctx context.Context, path string, what, namespace int) ([]byte, error) {
	const size = 4096
	data, err := d.Tools.Run(ctx, "nvme", "admin-passthru", path, "--opcode=0x06", "--namespace-id="+strconv.Itoa(namespace),
		"--cdw10="+strconv.Itoa(what), "--data-len="+strconv.Itoa(size), "--read", "--raw-binary")
	if err == nil && len(data) < size {
		err = fmt.Errorf("%d bytes instead of %d", len(data), size)
	}
	return data, wrap.Errorf(err, "ask %s (identify 0x%02x)", path, what)
}

// nvmePrimary has a primary controller give up what virtual functions need. It is reset for that, so nothing of it may be
// in use; where it has given up already, nothing happens.
func (d *Driver) nvmePrimary(ctx context.Context, physical string) error {
	_, path, err := d.controller(physical)
	if err != nil {
		return err
	}
	read := func() (primary, error) {
		data, err := d.identify(ctx, path, identifyPrimary, 0)
		if err != nil {
			return primary{}, err
		}
		return parsePrimary(data), nil
	}
	p, err := read()
	if err != nil || p.ownQueues == 0 && p.ownInterrupts == 0 {
		return err
	}
	for _, kind := range []string{queues, interrupts} {
		if err := d.nvme(ctx, "virt-mgmt", path, "--cntlid="+strconv.Itoa(p.id), "--rt="+kind, "--act="+primaryFlexible,
			"--nr=0"); err != nil {
			return fmt.Errorf("free resources of %s: %w", path, err)
		}
	}
	if err := d.nvme(ctx, "reset", path); err != nil {
		return fmt.Errorf("reset %s: %w", path, err)
	}
	p, err = read()
	if err == nil && (p.ownQueues != 0 || p.ownInterrupts != 0) {
		err = fmt.Errorf("%s keeps %d queues and %d interrupts for itself", path, p.ownQueues, p.ownInterrupts)
	}
	return err
}

// tenancy is the controller of a virtual function, seen through its primary one.
type tenancy struct {
	*Driver
	path    string
	primary primary
	number  int // of the virtual function, from 0
}

func (d *Driver) tenancy(ctx context.Context, physical string, number int) (*tenancy, error) {
	_, path, err := d.controller(physical)
	if err != nil {
		return nil, err
	}
	data, err := d.identify(ctx, path, identifyPrimary, 0)
	if err != nil {
		return nil, err
	}
	return &tenancy{Driver: d, path: path, primary: parsePrimary(data), number: number}, nil
}

func (t *tenancy) secondary(ctx context.Context) (secondary, error) {
	data, err := t.identify(ctx, t.path, identifySecondaries, 0)
	if err != nil {
		return secondary{}, err
	}
	s, found := lists.Find(parseSecondaries(data), func(s secondary) bool { return s.function == t.number+1 })
	if !found {
		return s, fmt.Errorf("%s has no controller for virtual function %d", t.path, t.number)
	}
	return s, nil
}

func (t *tenancy) manage(ctx context.Context, s secondary, action string, more ...string) error {
	err := t.nvme(ctx, append([]string{"virt-mgmt", t.path, "--cntlid=" + strconv.Itoa(s.id), "--act=" + action}, more...)...)
	return wrap.Errorf(err, "manage controller %d of %s (action %s)", s.id, t.path, action)
}

// resources makes the controller have so many, and read back as wanted. Only one that is offline can be changed.
func (t *tenancy) resources(ctx context.Context, online bool, q, i int) error {
	s, err := t.secondary(ctx)
	if err != nil || s.online == online && s.queues == q && s.interrupts == i {
		return err
	}
	if s.online {
		if err := t.manage(ctx, s, secondaryOffline); err != nil {
			return err
		}
	}
	if err := t.manage(ctx, s, secondaryAssign, "--rt="+queues, "--nr="+strconv.Itoa(q)); err != nil {
		return err
	}
	if err := t.manage(ctx, s, secondaryAssign, "--rt="+interrupts, "--nr="+strconv.Itoa(i)); err != nil {
		return err
	}
	if online {
		if err := t.manage(ctx, s, secondaryOnline); err != nil {
			return err
		}
	}
	s, err = t.secondary(ctx)
	if err == nil && (s.online != online || s.queues != q || s.interrupts != i) {
		err = fmt.Errorf("controller %d of %s reads online %v, %d queues, %d interrupts", s.id, t.path, s.online, s.queues,
			s.interrupts)
	}
	return err
}

// attachments are the controllers of each namespace that exists.
func (t *tenancy) attachments(ctx context.Context) (namespaces []int, of map[int][]int, err error) {
	data, err := t.identify(ctx, t.path, identifyAllocated, 0)
	if err != nil {
		return nil, nil, err
	}
	namespaces, of = parseNamespaces(data), map[int][]int{}
	for _, n := range namespaces {
		data, err := t.identify(ctx, t.path, identifyAttached, n)
		if err != nil {
			return nil, nil, err
		}
		of[n] = parseIDs(data)
	}
	return namespaces, of, nil
}

func (t *tenancy) attach(ctx context.Context, verb string, namespace, id int) error {
	if err := t.nvme(ctx, verb, t.path, "--namespace-id="+strconv.Itoa(namespace),
		"--controllers="+strconv.Itoa(id)); err != nil {
		return fmt.Errorf("%s %d of %s, controller %d: %w", verb, namespace, t.path, id, err)
	}
	return nil
}

// vacant refuses a virtual function that is no guest's and has a namespace all the same: the disk remembers whose it is, through
// everything, and who wrote on it is in no record that is here.
func (d *Driver) vacant(ctx context.Context, f function) error {
	if f.parent == "" {
		return nil
	}
	p, err := d.look(f.parent)
	if err != nil || p.class != classNVMe {
		return err
	}
	t, err := d.tenancy(ctx, f.parent, f.number)
	if err != nil {
		return err
	}
	s, err := t.secondary(ctx)
	if err != nil {
		return err
	}
	namespaces, of, err := t.attachments(ctx)
	if err != nil {
		return err
	}
	for _, n := range namespaces {
		if slices.Contains(of[n], s.id) {
			return fmt.Errorf("namespace %d of %s is attached to its controller %d already, and what is on it is not known: "+
				"erase it, then detach it (nvme detach-ns)", n, t.path, s.id)
		}
	}
	return nil
}

// nvmeOccupy gives a virtual function its resources and a namespace that no other controller has.
func (d *Driver) nvmeOccupy(ctx context.Context, physical string, number int) error {
	t, err := d.tenancy(ctx, physical, number)
	if err != nil {
		return err
	}
	s, err := t.secondary(ctx)
	if err != nil {
		return err
	}
	namespaces, of, err := t.attachments(ctx)
	if err != nil {
		return err
	}
	own, free := 0, 0
	for _, n := range namespaces {
		switch {
		case slices.Equal(of[n], []int{s.id}):
			own = n
		case slices.Contains(of[n], s.id):
			return fmt.Errorf("namespace %d is attached to its controller %d and to others (%v): another could read what its "+
				"guest writes; detach it", n, s.id, of[n])
		case len(of[n]) == 0 && free == 0:
			free = n
		}
	}
	if own == 0 && free == 0 {
		return fmt.Errorf("%s has no namespace that is attached to nobody: create one a virtual function (nvme create-ns)",
			t.path)
	}
	if own == 0 {
		if err := t.attach(ctx, "attach-ns", free, s.id); err != nil {
			return err
		}
		if _, of, err = t.attachments(ctx); err != nil {
			return err
		}
		if !slices.Equal(of[free], []int{s.id}) {
			return fmt.Errorf("namespace %d of %s is attached to controllers %v after it was attached to %d", free, t.path,
				of[free], s.id)
		}
	}
	vfs, err := d.count(physical, "sriov_numvfs")
	if err != nil {
		return err
	}
	q, err := share(t.primary.queues, vfs, t.primary.mostQueues, t.primary.queueGrain, 2)
	if err != nil {
		return fmt.Errorf("queues: %w", err)
	}
	i, err := share(t.primary.interrupts, vfs, t.primary.mostInterrupts, t.primary.interruptGrain, 1)
	if err != nil {
		return fmt.Errorf("interrupts: %w", err)
	}
	return t.resources(ctx, true, q, i)
}

// vacate erases what a guest wrote on an NVMe disk, or on its part of one. Other devices keep nothing through a reset.
func (d *Driver) vacate(ctx context.Context, r record) error {
	if r.Withheld {
		return nil // no guest had it
	}
	owner := r.PCI
	if r.Parent != "" {
		owner = r.Parent
	}
	f, err := d.look(owner)
	if err != nil || f.class != classNVMe {
		return err
	}
	if r.Parent == "" {
		return d.eraseWhole(ctx, owner)
	}
	t, err := d.tenancy(ctx, owner, r.Number)
	if err != nil {
		return err
	}
	if err := t.resources(ctx, false, 0, 0); err != nil {
		return err
	}
	s, err := t.secondary(ctx)
	if err != nil {
		return err
	}
	namespaces, of, err := t.attachments(ctx)
	if err != nil {
		return err
	}
	// The host attaches the namespace to itself to erase it. It stays the function's until that is proved: whatever
	// interrupts this finds it here again.
	for _, n := range namespaces {
		if !slices.Contains(of[n], s.id) {
			continue
		}
		if !slices.Contains(of[n], t.primary.id) {
			if err := t.attach(ctx, "attach-ns", n, t.primary.id); err != nil {
				return err
			}
		}
		if err := t.nvme(ctx, "ns-rescan", t.path); err != nil {
			return fmt.Errorf("look for namespace %d: %w", n, err)
		}
		if err := d.eraseOne(ctx, owner, n); err != nil {
			return err
		}
		for _, id := range []int{t.primary.id, s.id} {
			if err := t.attach(ctx, "detach-ns", n, id); err != nil {
				return err
			}
		}
	}
	return nil
}
