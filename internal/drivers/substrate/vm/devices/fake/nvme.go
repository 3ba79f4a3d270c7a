package fake

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Flexible resources that a controller with virtual functions has.
const (
	flexibleQueues     = 8
	flexibleInterrupts = 4
)

// disk is what belongs to an NVMe controller that the host has: its namespaces, and the controllers of virtual functions.
type disk struct {
	attached    map[int][]int // by namespace, from 1: IDs of controllers
	content     map[int]string
	own         [2]int // flexible resources that the primary keeps; next: from its next reset on
	next        [2]int
	secondaries []*secondary // ID: index + 1; the primary's is 0
}

type secondary struct {
	online    bool
	resources [2]int // queues, interrupts
}

func newDisk(f Function) *disk {
	if f.NVMe == "" {
		return nil
	}
	d := &disk{attached: map[int][]int{}, content: map[int]string{}}
	for n := 1; n <= f.Namespaces; n++ {
		d.attached[n] = nil
		if f.VFs == 0 {
			d.attached[n] = []int{0}
		}
	}
	if f.VFs > 0 {
		d.own = [2]int{flexibleQueues, flexibleInterrupts}
		d.next = d.own
	}
	for range f.VFs {
		d.secondaries = append(d.secondaries, &secondary{})
	}
	return d
}

// offline is what becomes of virtual functions' controllers with them.
func (d *disk) offline() {
	if d == nil {
		return
	}
	for _, s := range d.secondaries {
		s.online = false
	}
}

// reach is the disk behind a function and the ID of its controller there.
func (f *function) reach() (*disk, int) {
	if f.parent != nil {
		return f.parent.disk, f.number + 1
	}
	return f.disk, 0
}

func (f *function) write(mark string) {
	if d, id := f.reach(); d != nil {
		for n, controllers := range d.attached {
			if slices.Contains(controllers, id) {
				d.content[n] = mark
			}
		}
	}
}

func (f *function) written() []string {
	var marks []string
	if d, id := f.reach(); d != nil {
		for n, controllers := range d.attached {
			if slices.Contains(controllers, id) && d.content[n] != "" {
				marks = append(marks, d.content[n])
			}
		}
	}
	return marks
}

// blocks are the disks that the host sees.
func (k *Kernel) blocks() []string {
	names := []string{"sda"}
	for _, f := range k.functions {
		if f.disk != nil && f.bound == f.Driver {
			for n, controllers := range f.disk.attached {
				if slices.Contains(controllers, 0) {
					names = append(names, f.NVMe+"n"+strconv.Itoa(n))
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

func (f *function) readBlock(name, file string) (string, bool) {
	nsid, ok := strings.CutPrefix(name, f.NVMe+"n")
	if file == "device" {
		return f.NVMe, ok
	}
	return nsid, ok && file == "nsid"
}

// Erase erases disks that the host sees. One of a shared controller must be told so.
func (k *Kernel) Erase(_ context.Context, disks []string, shared bool) error {
	return k.step("erase "+strings.Join(disks, " "), func() error {
		for _, name := range disks {
			if !slices.Contains(k.blocks(), name) {
				return fmt.Errorf("there is no disk %s", name)
			}
			for _, f := range k.functions {
				nsid, ok := strings.CutPrefix(name, f.NVMe+"n")
				n, err := strconv.Atoi(nsid)
				if f.disk == nil || !ok || err != nil {
					continue
				}
				if f.VFs > 0 && !shared {
					clear(f.disk.content) // a sanitize takes the neighbours along
				}
				f.disk.content[n] = ""
			}
		}
		return nil
	})
}

// Run is the program nvme; modprobe finds everything loaded.
func (k *Kernel) Run(_ context.Context, argv ...string) ([]byte, error) {
	if argv[0] == "modprobe" {
		return nil, nil
	}
	options := map[string]string{}
	for _, a := range argv[3:] {
		name, value, _ := strings.Cut(a, "=")
		options[name] = value
	}
	number := func(name string) int { n, _ := strconv.ParseInt(options[name], 0, 32); return int(n) }
	if argv[1] == "admin-passthru" {
		k.mu.Lock()
		defer k.mu.Unlock()
		f := k.nvme(argv[2])
		if f == nil {
			return nil, unix.ENOENT
		}
		return f.disk.identify(number("--cdw10"), number("--namespace-id")), nil
	}
	return nil, k.step(strings.Join(argv, " "), func() error {
		f := k.nvme(argv[2])
		if f == nil {
			return unix.ENOENT
		}
		switch argv[1] {
		case "reset":
			f.disk.own = f.disk.next
			f.disk.offline()
			return nil
		case "ns-rescan":
			return nil
		case "attach-ns", "detach-ns":
			return f.disk.attach(argv[1] == "attach-ns", number("--namespace-id"), number("--controllers"))
		case "virt-mgmt":
			return f.disk.manage(number("--act"), number("--cntlid"), number("--rt"), number("--nr"))
		}
		return fmt.Errorf("nvme has no command %s", argv[1])
	})
}

func (k *Kernel) nvme(path string) *function {
	for _, f := range k.functions {
		if f.disk != nil && path == "/dev/"+f.NVMe && f.bound == f.Driver {
			return f
		}
	}
	return nil
}

func (d *disk) attach(on bool, namespace, id int) error {
	list, exists := d.attached[namespace]
	has := slices.Contains(list, id)
	switch {
	case !exists:
		return fmt.Errorf("NVMe status: invalid namespace")
	case on == has: // as the specification wants it: status 18h and 1Ah
		return fmt.Errorf("NVMe status: namespace already attached, or not attached")
	case on:
		d.attached[namespace] = append(list, id)
	default:
		d.attached[namespace] = slices.DeleteFunc(slices.Clone(list), func(i int) bool { return i == id })
	}
	return nil
}

func (d *disk) manage(action, id, kind, n int) error {
	const primaryFlexible, offline, assign, online = 1, 7, 8, 9
	if action == primaryFlexible {
		d.next[kind] = n
		return nil
	}
	if id < 1 || id > len(d.secondaries) {
		return fmt.Errorf("NVMe status: invalid controller identifier")
	}
	s := d.secondaries[id-1]
	switch action {
	case offline:
		s.online = false
	case online:
		if s.resources[0] < 2 || s.resources[1] < 1 {
			return fmt.Errorf("NVMe status: invalid secondary controller state")
		}
		s.online = true
	case assign:
		total, used := [2]int{flexibleQueues, flexibleInterrupts}[kind]-d.own[kind], 0
		for _, other := range d.secondaries {
			if other != s {
				used += other.resources[kind]
			}
		}
		if s.online || used+n > total {
			return fmt.Errorf("NVMe status: invalid number of controller resources")
		}
		s.resources[kind] = n
	}
	return nil
}

func (d *disk) identify(what, namespace int) []byte {
	const size = 4096
	data := make([]byte, size)
	half := func(at, v int) { binary.LittleEndian.PutUint16(data[at:], uint16(v)) }
	word := func(at, v int) { binary.LittleEndian.PutUint32(data[at:], uint32(v)) }
	switch what {
	case 0x10:
		for i, n := range slices.Sorted(maps.Keys(d.attached)) {
			word(4*i, n)
		}
	case 0x12:
		half(0, len(d.attached[namespace]))
		for i, id := range d.attached[namespace] {
			half(2+2*i, id)
		}
	case 0x14:
		word(32, flexibleQueues)
		half(40, d.own[0])
		half(44, flexibleQueues)
		half(46, 1)
		word(64, flexibleInterrupts)
		half(72, d.own[1])
		half(76, flexibleInterrupts)
		half(78, 1)
	case 0x15:
		data[0] = byte(len(d.secondaries))
		for i, s := range d.secondaries {
			at := 32 + 32*i
			half(at, i+1)
			if s.online {
				data[at+4] = 1
			}
			half(at+8, i+1)
			half(at+10, s.resources[0])
			half(at+12, s.resources[1])
		}
	}
	return data
}
