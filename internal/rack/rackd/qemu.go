package rackd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/rack"
)

// qemu is the emulator; Debian's package qemu-system-x86.
const qemu = "qemu-system-x86_64"

// Firmware of UEFI machines; Debian's package ovmf. Each machine has its own copy of the variables.
const (
	ovmfCode = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	ovmfVars = "/usr/share/OVMF/OVMF_VARS_4M.fd"
)

// order is what a machine's firmware tries first; the other comes second.
type order string

const (
	netFirst  order = "network"
	diskFirst order = "disk"
)

// virtual is a machine about to start.
type virtual struct {
	rack.Machine
	shape rack.Shape
	accel []string // QEMU's options
	first order
	disks []string // files, raw
	bad   string   // file of the rules by which the first disk fails; "": it does not
	vars  string   // file of UEFI variables
	// Of QEMU's process: the monitor's socket, and the NICs' taps.
	monitor int
	taps    []int
	console string // file
}

// arguments are QEMU's. A guest's reboot is one, and a guest that powers off ends the process. Nothing in them is secret.
func (v virtual) arguments() []string {
	args := []string{
		"-name", v.Name, "-no-user-config", "-nodefaults", "-display", "none", "-vga", "none",
		"-machine", "q35,graphics=off", // the BIOS writes to the serial line then
	}
	args = append(args, v.accel...)
	args = append(args,
		"-smp", strconv.Itoa(v.shape.CPUs), "-m", strconv.Itoa(v.shape.MemoryMiB),
		"-chardev", fmt.Sprintf("socket,id=monitor,fd=%d", v.monitor), "-mon", "chardev=monitor,mode=control",
		"-chardev", "file,id=console,append=on,path="+escape(v.console), "-serial", "chardev:console",
		"-smbios", fmt.Sprintf("type=1,manufacturer=Muster,product=rack,serial=%s", v.Name),
		"-smbios", fmt.Sprintf("type=17,loc_pfx=DIMM,manufacturer=Muster,serial=%s", v.Name),
		"-object", "rng-random,id=random,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=random",
	)
	if v.Firmware == rack.UEFI {
		args = append(args,
			"-drive", "if=pflash,unit=0,format=raw,readonly=on,file="+ovmfCode,
			"-drive", "if=pflash,unit=1,format=raw,file="+escape(v.vars))
	}
	nics, disks := 1, 1+len(v.taps) // index of the first of each in the order of booting
	if v.first == diskFirst {
		nics, disks = 1+len(v.disks), 1
	}
	for i, fd := range v.taps {
		args = append(args,
			"-netdev", fmt.Sprintf("tap,id=nic%d,fd=%d", i, fd),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=nic%d,mac=%s,bootindex=%d", i, v.MACs[i], nics+i))
	}
	device := "virtio-blk-pci"
	if v.shape.DiskKind == rack.NVMe {
		device = "nvme"
	}
	for i, path := range v.disks {
		file := "file=" + escape(path)
		if v.bad != "" && i == 0 {
			file = fmt.Sprintf("file.driver=blkdebug,file.config=%s,file.image.filename=%s", escape(v.bad), escape(path))
		}
		// Blocks of zeroes take no room. Flushes need not reach the host's disk: no rack outlives its host.
		args = append(args,
			"-drive", fmt.Sprintf("if=none,id=disk%d,format=raw,cache=unsafe,discard=unmap,detect-zeroes=unmap,%s", i, file),
			"-device", fmt.Sprintf("%s,drive=disk%d,serial=%s,bootindex=%d", device, i, diskSerial(v.Machine, i), disks+i))
	}
	return args
}

// badDisk are rules of QEMU's blkdebug: whatever would change the disk fails with an input/output error (EIO, 5).
const badDisk = `[inject-error]
event = "none"
iotype = "write"
errno = "5"
[inject-error]
event = "none"
iotype = "write-zeroes"
errno = "5"
[inject-error]
event = "none"
iotype = "discard"
errno = "5"
`

// diskSerial fits into the 20 characters that both kinds of disk have for it.
func diskSerial(m rack.Machine, i int) string {
	serial := fmt.Sprintf("%s-d%d", m.Name, i)
	return serial[max(0, len(serial)-20):]
}

// escape doubles commas, which end a value in QEMU's options.
func escape(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// emulation is QEMU's options for machines that run everywhere.
func emulation() []string { return []string{"-accel", rack.TCG, "-cpu", "qemu64"} }

// hardware are QEMU's options for KVM, in the order of preference. Hosts that are virtual themselves may offer capabilities
// that QEMU then fails on, so the host's CPU comes without them.
func hardware() [][]string {
	return [][]string{{"-accel", rack.KVM, "-cpu", "host,arch-capabilities=off"}, {"-accel", rack.KVM, "-cpu", "qemu64"}}
}

// longestStart is how long a machine may take to show life, where there is nothing to choose.
const longestStart = 20 * time.Second

// accelerate chooses the options with which a machine really runs here. On hosts that are virtual themselves KVM may be
// slower than emulation by far, so where there is a choice it must not be much slower to show life.
func accelerate(ctx context.Context, kind string) ([]string, error) {
	var failed []string
	patience := longestStart
	if kind != rack.KVM {
		begin := time.Now()
		if err := try(ctx, emulation(), patience); err != nil {
			failed = append(failed, err.Error())
		} else if patience = max(2*time.Since(begin), 200*time.Millisecond); kind == rack.TCG {
			return emulation(), nil
		}
	}
	if kind != rack.TCG {
		for _, options := range hardware() {
			err := errors.New("/dev/kvm is not there, or not for this user")
			if unix.Access("/dev/kvm", unix.R_OK|unix.W_OK) == nil {
				err = try(ctx, options, patience)
			}
			if err == nil {
				return options, nil
			}
			failed = append(failed, err.Error())
		}
		if kind == rack.Auto && patience != longestStart {
			return emulation(), nil
		}
	}
	return nil, fmt.Errorf("no machine runs with --accel %s: %s", kind, strings.Join(slices.Compact(failed), "; "))
}

// try starts a machine without anything and waits for its BIOS's first word, which proves that it runs.
func try(ctx context.Context, options []string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args := append([]string{"-machine", "q35,graphics=off", "-m", "64", "-no-user-config", "-nodefaults", "-display", "none",
		"-vga", "none", "-serial", "stdio"}, options...)
	c := exec.CommandContext(ctx, qemu, args...)
	said, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s is not installed; on Debian: apt-get install qemu-system-x86 ovmf ipxe-qemu", qemu)
	} else if err != nil {
		return err
	}
	_, err = said.Read(make([]byte, 1))
	cancel()
	_ = c.Wait() // it was killed
	if err != nil {
		return fmt.Errorf("%s %s: no sign of life in %s", options[1], options[3], patience)
	}
	return nil
}

// trim gives back the room of what reads as zeroes. A guest that writes zeroes in the ordinary way, as erasing does, makes
// the file system set the room aside.
func trim(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	end, err := file.Seek(0, io.SeekEnd)
	for at := int64(0); err == nil && at < end; {
		data, next := end, end // no data up to data, then some up to next
		if to, err := file.Seek(at, unix.SEEK_DATA); err == nil {
			data = to
			if next, err = file.Seek(data, unix.SEEK_HOLE); err != nil {
				return err
			}
		} else if !errors.Is(err, unix.ENXIO) { // there is none
			return err
		}
		if data > at {
			err = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, data-at)
		}
		at = next
	}
	return err
}

// sparse makes a file of that size which takes no room yet; one that is there is kept.
func sparse(path string, mebibytes int) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Truncate(int64(mebibytes) << 20)
}
