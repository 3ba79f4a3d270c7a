// Package vm makes guests exist on the host it runs on: virtual machines that carry a node each, run by QEMU in the
// care of a libvirt of Muster's own.
//
// What enters: substrate.Node with what it has of the host (its Allocation), the files of images, the host's facts. What
// leaves: substrate.Observation.
//
// As in package local, all state that matters is on disk and in the kernel, and any number of Drivers may share one Dir:
//
//	locks/                    files for flock
//	netns                     the network namespace of libvirt and of QEMU; nothing is in it for longer than a start
//	libvirt/                  what libvirt sees as its own folders of the system: etc, lib, cache, log, run
//	guests/<cluster>.<node>/boot       the highest boot ever asked for
//	guests/<cluster>.<node>/<boot>/    kernel, root, agent, initramfs, console.log, part.json, guest.json, memory
//
// QEMU outlives libvirt, and both outlive the agent of the host. A libvirt that has died is started again by the next call and
// finds its guests; when the last guest goes, libvirt goes.
//
// What a guest could break out to is small: QEMU runs as a user of its own without rights, under seccomp, in a network
// namespace where nothing is, with a root that has programs and its own folders (enclosure.go), in a control group where the
// host has them to give; and its only ways out are its disks, which it may read, and its port of the cluster's bridge, which
// lets nothing through but what is from its own MAC. It does not run before that port is fenced.
package vm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/drivers/substrate/vm/devices"
	"muster/internal/inventory"
)

// Config is what a Driver needs. Paths are absolute.
type Config struct {
	// Dir holds the driver's state, for root alone. It is made if absent.
	Dir string
	// Memory is a folder on a disk for the memory of guests that sleep, one file each. It is made if absent. "": that lies in
	// Dir.
	Memory string
	// Diskless is why no guest can sleep here, where Dir is in memory itself and there is no other place; "": guests can sleep.
	Diskless string
	// Reserve is what sleeping guests leave free on the disk of their memory, in bytes, beside the little that they leave in any
	// case.
	Reserve int64
	// Images finds an image by its digest. It may be called often and at the same time.
	Images func(digest string) (Image, error)
	// FirstStage is the archive that every machine's kernel starts from.
	FirstStage func() ([]byte, error)
	// Binary is the program that becomes the guest's agent.
	Binary string
	// Facts are the host's, as they are now.
	Facts func(context.Context) (inventory.Facts, error)
	// Devices moves the host's PCI devices to guests and back. nil: no guest gets any.
	Devices *devices.Driver
	// Ports are the clusters' networks.
	Ports substrate.Networks
	// Accel is "kvm" or "tcg"; "": KVM if it works and emulation if not.
	Accel string
	// Log hears of what is worth an operator's look and is no error of a call. nil: it is dropped.
	Log *slog.Logger
}

// Image is an image that a machine can boot.
type Image struct{ Kernel, Drivers, Root string } // paths

// Driver implements substrate.Substrate for nodes whose machine is a guest of this host. Its methods may be called at the same
// time.
type Driver struct {
	config   Config
	qemu     string // path
	libvirtd string // path
	uid, gid int    // of a QEMU without a guest, which is asked what it can do
	groups   []uint32
	cgroups  onhost.Cgroups // of no version where this host lets none be made
	kvm      func() bool
	emulated func() bool // this host is
}

var _ substrate.Substrate = (*Driver)(nil)

// Usual names of the user whom QEMU runs as while it has no guest, whom libvirt's packages make: Debian's, and Red Hat's.
func usualUsers() []string { return []string{"libvirt-qemu", "qemu"} }

// New makes a driver over config.Dir. It changes nothing but that directory, and starts nothing.
func New(config Config) (*Driver, error) {
	d := &Driver{config: config}
	if !filepath.IsAbs(config.Dir) || filepath.Clean(config.Dir) != config.Dir {
		return nil, fmt.Errorf("state directory must be a clean absolute path, not %q", config.Dir)
	}
	if config.Log == nil {
		d.config.Log = slog.New(slog.DiscardHandler)
	}
	if err := d.find(); err != nil {
		return nil, fmt.Errorf("guests on this host: %w", err)
	}
	// Guests' files are reached by QEMU's user, from a mount namespace where the folders above are not.
	for dir, mode := range map[string]os.FileMode{"": 0o700, "locks": 0o700, "guests": 0o711} {
		path := filepath.Join(config.Dir, dir)
		if err := errors.Join(os.MkdirAll(path, mode), os.Chmod(path, mode)); err != nil {
			return nil, fmt.Errorf("state directory: %w", err)
		}
	}
	if config.Memory != "" {
		if err := os.MkdirAll(config.Memory, 0o711); err != nil {
			return nil, fmt.Errorf("folder for the memory of guests: %w", err)
		}
	}
	if err := d.findCgroups(); err != nil {
		return nil, err
	}
	if err := onhost.Sweep(d.lockPath("")); err != nil {
		return nil, err
	}
	d.kvm, d.emulated = sync.OnceValue(d.probe), sync.OnceValue(d.looksEmulated)
	return d, nil
}

// findCgroups tries out which limits this host can set. One that can set none holds guests all the same.
func (d *Driver) findCgroups() error {
	held, err := onhost.Exclusive(context.Background(), d.lockPath("probe"))
	if err != nil {
		return err
	}
	defer held.Release()
	sum := sha256.Sum256([]byte(d.config.Dir))
	if d.cgroups, err = onhost.DetectCgroups("muster-" + hex.EncodeToString(sum[:4])); err != nil || !d.cgroups.Memory {
		d.config.Log.Warn("what QEMU itself uses of this host is not limited: control groups cannot be created", "why", err)
	}
	return nil
}

// find looks for the programs and the user that guests need.
func (d *Driver) find() (err error) {
	if d.qemu, err = exec.LookPath("qemu-system-x86_64"); err != nil {
		return errors.New("qemu-system-x86_64 is missing; on Debian: apt-get install qemu-system-x86")
	}
	if d.libvirtd, err = exec.LookPath("libvirtd"); err != nil {
		return errors.New("libvirtd is missing; on Debian: apt-get install libvirt-daemon libvirt-daemon-driver-qemu")
	}
	names := usualUsers()
	for _, name := range names {
		if who, err := user.Lookup(name); err == nil {
			return d.runAs(who)
		}
	}
	return fmt.Errorf("there is no user %s for QEMU to run as; make it: useradd --system --no-create-home --shell "+
		"/usr/sbin/nologin %s", names[0], names[0])
}

func (d *Driver) runAs(who *user.User) error {
	uid, err1 := strconv.Atoi(who.Uid)
	gid, err2 := strconv.Atoi(who.Gid)
	groups, err3 := who.GroupIds()
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("user %s: %w", who.Username, err)
	}
	if uid == 0 {
		return fmt.Errorf("QEMU must not run as %s, who may do anything", who.Username)
	}
	for _, text := range groups {
		group, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return fmt.Errorf("user %s: %w", who.Username, err)
		}
		d.groups = append(d.groups, uint32(group))
	}
	d.uid, d.gid = uid, gid
	return nil
}

// home is a node's place on disk.
func (d *Driver) home(r substrate.Ref) (dir string, err error) {
	key, err := onhost.Key(r)
	return filepath.Join(d.guests(), key), err
}

func (d *Driver) guests() string              { return filepath.Join(d.config.Dir, "guests") }
func (d *Driver) netns() string               { return filepath.Join(d.config.Dir, "netns") }
func (d *Driver) lockPath(name string) string { return filepath.Join(d.config.Dir, "locks", name) }

// boot is one boot's place on disk.
type boot struct {
	number int64
	name   string // of the domain: <cluster>.<node>.<boot>
	dir    string
	memory string // Config.Memory
}

func (d *Driver) bootAt(home string, number int64) boot {
	text := strconv.FormatInt(number, 10)
	return boot{number: number, name: filepath.Base(home) + "." + text, dir: filepath.Join(home, text), memory: d.config.Memory}
}

func (b boot) path(name string) string { return filepath.Join(b.dir, name) }

// inside is a file's path as libvirt and QEMU see it.
func (b boot) inside(name string) string {
	return filepath.Join(insideGuests, filepath.Base(filepath.Dir(b.dir)), filepath.Base(b.dir), name)
}
