package firststage

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/boot/kmod"
	"muster/internal/kit/clock"
)

// hardware loads drivers for the devices that are there.
type hardware struct {
	sys     string // where sysfs is
	modules *kmod.Loader
	console console
}

// openHardware reads the lists of the running kernel's modules below root. None there: all it needs is built in.
func openHardware(root string, c console) (*hardware, error) {
	release, err := kernelRelease()
	if err != nil {
		return nil, err
	}
	modules, err := kmod.Open(filepath.Join(root, "lib/modules", release))
	if errors.Is(err, fs.ErrNotExist) {
		modules, err = nil, nil
	}
	return &hardware{sys: "/sys", modules: modules, console: c}, err
}

func kernelRelease() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(name.Release[:]), nil
}

// load loads modules by name: filesystems and the like, which no device asks for.
func (h *hardware) load(names ...string) {
	if h.modules == nil {
		return
	}
	for _, n := range names {
		h.complain(h.modules.Load(n))
	}
}

func (h *hardware) complain(err error) {
	if err != nil {
		h.console.say("%v", err) // a driver that fails may be one of several, or of a device that is not needed
	}
}

// loadFor loads the drivers below one of these folders of the kernel's that present devices ask for, until no device shows
// up behind another. No folders: all.
func (h *hardware) loadFor(folders ...string) {
	if h.modules == nil {
		return
	}
	asked := map[string]bool{}
	for {
		more := false
		for _, device := range h.devices() {
			if asked[device] {
				continue
			}
			asked[device], more = true, true
			for _, name := range h.modules.For(device) {
				if within(h.modules.Path(name), folders) {
					h.complain(h.modules.Load(name))
				}
			}
		}
		if !more {
			return
		}
	}
}

func within(path string, folders []string) bool {
	return len(folders) == 0 || slices.ContainsFunc(folders, func(f string) bool {
		return strings.HasPrefix(path, "kernel/drivers/"+f+"/")
	})
}

// devices lists the modaliases of all devices.
func (h *hardware) devices() []string {
	found, _ := filepath.Glob(filepath.Join(h.sys, "bus/*/devices/*/modalias")) // the pattern is sound
	var all []string
	for _, f := range found {
		text, err := os.ReadFile(f)
		if alias := string(bytes.TrimSpace(text)); err == nil && alias != "" {
			all = append(all, alias)
		}
	}
	return all
}

// The folders of the drivers that lead to NICs and to disks, with the buses between.
func busDrivers() []string  { return []string{"virtio", "hv", "pci"} }
func nicDrivers() []string  { return append(busDrivers(), "net") }
func diskDrivers() []string { return append(busDrivers(), "block", "nvme", "ata", "scsi") }

// awaitNIC returns the name of the NIC with this MAC once it is there. It waits without end: some take half a minute.
func (h *hardware) awaitNIC(ctx context.Context, mac net.HardwareAddr) (string, error) {
	news := often{every: sayEvery, last: time.Now()}
	for {
		h.loadFor(nicDrivers()...)
		for range 10 {
			name, others := h.findNIC(mac)
			if name != "" {
				return name, nil
			}
			if news.now() {
				h.console.say("no NIC has the MAC %s that booted; there are: %s", mac, orNone(others))
			}
			if err := clock.Sleep(ctx, 50*time.Millisecond); err != nil {
				return "", err
			}
		}
	}
}

func (h *hardware) findNIC(mac net.HardwareAddr) (name string, others []string) {
	found, _ := filepath.Glob(filepath.Join(h.sys, "class/net/*/address"))
	for _, f := range found {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		nic, address := filepath.Base(filepath.Dir(f)), string(bytes.TrimSpace(text))
		if address == mac.String() {
			return nic, nil
		}
		if nic != "lo" {
			others = append(others, nic+" "+address)
		}
	}
	return "", others
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none; the image's driver archive may lack its driver"
	}
	return strings.Join(list, ", ")
}

// awaitCarrier waits for the cable's other end.
func (h *hardware) awaitCarrier(ctx context.Context, nic string) error {
	news := often{every: sayEvery, last: time.Now()}
	for {
		text, err := os.ReadFile(filepath.Join(h.sys, "class/net", nic, "carrier"))
		if err == nil && string(bytes.TrimSpace(text)) == "1" {
			return nil
		}
		if news.now() {
			h.console.say("%s has no link; is its cable in, is its switch port on?", nic)
		}
		if err := clock.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
