package vm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/drivers/substrate/vm/domain"
	"muster/internal/inventory"
)

// What works for a guest keeps to the CPUs that it was given: its virtual CPUs to one each, and all else, the emulator's other
// threads, the kernel's that move its packets, its devices' interrupts, to those beside them (domain.Besides).

// Bounds of a QEMU, for the day on which a guest has taken it over: a healthy one stays far below.
const (
	// ownMiB is what QEMU itself has beside its guest's memory.
	ownMiB = 512
	// emulatorMiB is what it translates into where it emulates CPUs (QEMU's tb-size: 1 GiB at most, if nothing is said).
	emulatorMiB = 1 << 10
	// tables is which part of a guest's memory the tables of its pages take at most: the host's, and the IOMMU's.
	tables = 64
	// ownThreads is how many threads QEMU has beside its virtual CPUs: it makes up to 64 for files, and one or two for each
	// queue.
	ownThreads = 160
)

// bound bounds what QEMU can take of its host, where that has control groups to give. QEMU's own threads are pinned after
// it: who moves into a group may run on all of its CPUs.
func (d *Driver) bound(b boot, n substrate.Node, qemu onhost.Process, described domain.Domain) error {
	p, _, err := b.part()
	if err != nil {
		return err
	}
	cpus := slices.Concat(slices.Concat(described.Pins...), described.Besides)
	slices.Sort(cpus)
	bounds := onhost.Bounds{
		MemoryMiB: boundMiB(memoryMiB(n), p.PageKiB, d.kvm()),
		Pids:      ownThreads + len(described.Pins), CPUs: inventory.CPUList(slices.Compact(cpus)),
	}
	return d.cgroups.Enclose(b.name, qemu.PID, bounds)
}

// boundMiB is how much memory a QEMU can take. Its guest's is left out where that is in huge pages: those are not counted in the
// group, and would be room for QEMU itself. (Of a guest that has come with its memory, plain pages are not counted there either:
// they were taken before QEMU was in the group.)
func boundMiB(guest, pageKiB int, kvm bool) int {
	bound := guest/tables + ownMiB
	if pageKiB == plain {
		bound += guest
	}
	if !kvm {
		bound += emulatorMiB
	}
	return bound
}

func memoryMiB(n substrate.Node) int {
	total := 0
	for _, cell := range n.Allocation.Cells {
		total += cell.MemoryMiB
	}
	return total
}

// pin puts each thread of a QEMU, and those of the kernel that move its packets, where it belongs.
func pin(qemu onhost.Process, pins [][]int, besides []int) error {
	threads, err := threadsOf("/proc", qemu.PID)
	if err != nil {
		return err
	}
	if missing := slices.Index(threads.cpus(len(pins)), 0); missing >= 0 {
		return fmt.Errorf("QEMU has no thread for virtual CPU %d", missing)
	}
	for _, t := range threads {
		on := besides
		if t.cpu >= 0 && t.cpu < len(pins) {
			on = pins[t.cpu]
		}
		var set unix.CPUSet
		for _, c := range on {
			set.Set(c)
		}
		if err := unix.SchedSetaffinity(t.id, &set); err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has ended
			return fmt.Errorf("pin %q to the host's CPUs %v: %w", t.name, on, err)
		}
	}
	return nil
}

// thread is one that works for a guest.
type thread struct {
	id   int
	name string
	cpu  int // the virtual CPU that it is; -1: none
}

type threads []thread

// cpus are the threads by virtual CPU; 0: there is none.
func (all threads) cpus(count int) []int {
	found := make([]int, count)
	for _, t := range all {
		if t.cpu >= 0 && t.cpu < count {
			found[t.cpu] = t.id
		}
	}
	return found
}

// threadsOf finds a QEMU's own threads by the names that it gives them (debug-threads=on), and the kernel's vhost-PID. Those
// are processes of their own before Linux 6.4.
func threadsOf(proc string, qemu int) (all threads, err error) {
	own, err := filepath.Glob(fmt.Sprintf("%s/%d/task/*/comm", proc, qemu))
	if err != nil {
		return nil, err
	}
	others, err := filepath.Glob(proc + "/[0-9]*/comm")
	if err != nil {
		return nil, err
	}
	for i, path := range append(own, others...) {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		t := thread{name: strings.TrimSpace(string(text)), cpu: -1}
		t.id, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if i >= len(own) && t.name != fmt.Sprintf("vhost-%d", qemu) {
			continue
		}
		if n, _ := fmt.Sscanf(t.name, "CPU %d/", &t.cpu); n != 1 {
			t.cpu = -1
		}
		all = append(all, t)
	}
	return all, nil
}

// steer has the interrupts of devices that were given to a guest handled on the host's CPUs of a list. They are there when
// the guest's driver has asked for them, and again whenever it does: each Observe of a guest that runs steers them.
func steer(proc string, devices []string, cpus string) error {
	if len(devices) == 0 {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(proc, "interrupts"))
	if err != nil {
		return err
	}
	var failed []error
	for _, number := range interruptsOf(string(text), devices) {
		path := filepath.Join(proc, "irq", number, "smp_affinity_list")
		now, err := os.ReadFile(path)
		if err == nil && strings.TrimSpace(string(now)) != cpus {
			err = os.WriteFile(path, []byte(cpus), 0)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // then the guest has given it up meanwhile
			failed = append(failed, fmt.Errorf("interrupt %s: %w", number, err))
		}
	}
	return errors.Join(failed...)
}

// interruptsOf finds in /proc/interrupts those that VFIO has asked for in the name of devices, as "vfio-msix[0](0000:3b:00.1)".
func interruptsOf(table string, devices []string) (numbers []string) {
	for line := range strings.Lines(table) {
		number, rest, found := strings.Cut(strings.TrimSpace(line), ":")
		words := strings.Fields(rest)
		if _, err := strconv.Atoi(number); err != nil || !found || len(words) == 0 {
			continue
		}
		name := words[len(words)-1]
		of := func(device string) bool {
			return strings.HasPrefix(name, "vfio-") && strings.HasSuffix(name, "("+device+")")
		}
		if slices.ContainsFunc(devices, of) {
			numbers = append(numbers, number)
		}
	}
	return numbers
}
