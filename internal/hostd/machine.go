package hostd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"muster/internal/boot/initramfs"
	"muster/internal/drivers/substrate/local"
	"muster/internal/drivers/substrate/vm"
	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/inventory"
	"muster/internal/inventory/hardware"
	"muster/internal/kit/clock"
	"muster/internal/protocol"
)

// Machine is this machine as one that holds guests.
type Machine struct {
	Dir    string // for all that belongs to guests; it is made
	InRAM  bool   // Dir is in the machine's memory
	Server string // base of the boot services, where images are fetched
	Binary string // the program that becomes a guest's agent
	// Accel is "kvm" or "tcg"; "": KVM if it works.
	Accel   string
	Console io.Writer
}

// ThisMachine is the one that this process runs on, as a hypervisor that was booted: all that belongs to guests is in memory, as
// the machine's root is; what sleeps goes to a disk.
func ThisMachine(console io.Writer) (Machine, error) {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return Machine{}, err
	}
	if err := shareKVM("/dev/kvm"); err != nil {
		fmt.Fprintln(console, err)
	}
	return Machine{Dir: "/var/lib/muster/host", InRAM: true, Binary: protocol.AgentPath,
		Server: protocol.BootArgument(string(line), "muster.server"), Console: console}, nil
}

// shareKVM gives the device to the group that QEMU's user is in. Elsewhere udev does; here it would stay root's, and guests would
// be emulated.
func shareKVM(device string) error {
	group, err := user.LookupGroup("kvm")
	if err != nil {
		return fmt.Errorf("share %s: %w", device, err)
	}
	id, err := strconv.Atoi(group.Gid)
	if err == nil {
		err = errors.Join(os.Chown(device, 0, id), os.Chmod(device, 0o660))
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) { // a machine without
		return nil
	}
	return fmt.Errorf("share %s: %w", device, err)
}

// mendEvery is how often it is tried to take back devices that did not come back from their guests.
const mendEvery = time.Minute

// guardEvery is how often it is looked at what guests see of InfiniBand partitions, and guardKeep how long what was found is
// told:
// several reports.
const (
	guardEvery = 3 * time.Second
	guardKeep  = 30 * time.Second
)

// Options are those that Run needs of the machine. What cannot be had is the options' Trouble: it is for the controller to hear.
func (m Machine) Options(ctx context.Context) Options {
	o := Options{Dir: m.Dir, Console: m.Console}
	if err := m.furnish(ctx, &o); err != nil {
		o.Trouble = err.Error()
	}
	return o
}

func (m Machine) furnish(ctx context.Context, o *Options) error {
	log := slog.New(slog.NewTextHandler(m.Console, nil))
	at := func(name string) string { return filepath.Join(m.Dir, name) }
	if err := os.MkdirAll(m.Dir, 0o711); err != nil { // QEMU's user passes through
		return err
	}
	images, err := OpenStore(at("images"), m.Server)
	if err != nil {
		return err
	}
	cables, err := local.NewCables(at("networks"))
	if err != nil {
		return err
	}
	tools := devices.HostTools{}
	moved, err := devices.New(devices.Options{
		Kernel: devices.HostKernel{}, Links: devices.HostLinks{}, Tools: tools,
		Eraser: devices.HostEraser{Tools: tools, Console: m.Console}, Dir: at("devices"),
	})
	if err != nil {
		return err
	}
	// Taps, and packets moved by the kernel. The devices appear when their modules are loaded; without the second it goes slower.
	if out, err := tools.Run(ctx, "modprobe", "-a", "tun", "vhost_net"); err != nil {
		fmt.Fprintf(m.Console, "%v %s\n", err, strings.TrimSpace(string(out)))
	}
	first, err := initramfs.Archive()
	if err != nil {
		return err
	}
	diskless := ""
	if m.InRAM {
		diskless = mountMemoryDisk(ctx, tools, m.Console, at("memory"))
	}
	if diskless != "" {
		fmt.Fprintln(m.Console, "guests cannot be suspended on this machine:", diskless)
	}
	guests, err := vm.New(vm.Config{
		Dir: at("guests"), Memory: at("memory"), Diskless: diskless, Images: images.Find, FirstStage: func() ([]byte, error) {
			return first, nil
		}, Binary: m.Binary,
		Facts: facts, Devices: moved, Ports: cables, Accel: m.Accel, Log: log,
	})
	if err != nil {
		return err
	}
	o.Guests, o.Movers, o.Sleepers, o.Networks, o.Images = guests, guests, guests, cables, images
	o.Lost = func() (map[string]string, error) { return lost(moved) }
	go mend(ctx, moved, log)
	go guests.KeepEnds(ctx)
	seen := &sightings{log: log}
	go moved.Watch(ctx, guardEvery, guardKeep, seen.tell)
	o.Partitions = seen.all
	return nil
}

// facts are the machine's, as they are now, less the memory that files take: its own root and the images of guests.
func facts(context.Context) (inventory.Facts, error) {
	return less(hardware.Read("/"), hardware.Tree("/").Memory("Shmem")), nil
}

// less takes memory in files from what guests can have. Half of what the machine keeps for itself is for files.
func less(f inventory.Facts, filesMiB int) inventory.Facts {
	_, kept := f.Kept()
	f.NUMA = slices.Clone(f.NUMA)
	for i := range f.NUMA {
		filesMiB -= kept[f.NUMA[i].ID] / 2
	}
	for i := range f.NUMA { // where the files are is not chosen: the first node, which keeps most, is as good a guess as any
		take := max(0, min(filesMiB, f.NUMA[i].MemoryMiB-kept[f.NUMA[i].ID]))
		f.NUMA[i].MemoryMiB -= take
		filesMiB -= take
	}
	return f
}

// lost are the devices that did not come back from a guest.
func lost(driver *devices.Driver) (map[string]string, error) {
	list, err := driver.List()
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, s := range list {
		if s.State == devices.Lost {
			all[s.PCI] = s.Reason
		}
	}
	return all, nil
}

// sightings are what guests saw of InfiniBand partitions that they were not to see, for the report.
type sightings struct {
	log *slog.Logger

	mu    sync.Mutex
	found map[string]string
}

func (s *sightings) tell(found map[string]string, trouble string) {
	if trouble != "" {
		s.log.Error("what guests see of InfiniBand partitions cannot be looked at", "error", trouble)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = found
}

func (s *sightings) all() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.found)
}

// mend tries again to take back what is lost until ctx ends, and tells each reason once.
func mend(ctx context.Context, driver *devices.Driver, log *slog.Logger) {
	said := ""
	for clock.Sleep(ctx, mendEvery) == nil {
		text := ""
		if err := driver.Mend(ctx); err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != "" && text != said {
			log.Warn("devices of this machine are still lost", "error", text)
		}
		said = text
	}
}
