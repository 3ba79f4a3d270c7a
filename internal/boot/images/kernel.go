package images

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"muster/internal/boot/initramfs"
	"muster/internal/boot/kmod"
	"muster/internal/kit/files"
)

// The two files of an image that machines boot by, beside its squashfs.
const (
	KernelFile  = "vmlinuz"
	DriversFile = "drivers.cpio.zst"
)

// File is one of them.
type File struct {
	File    string `json:"file"`   // in the image's folder
	Digest  string `json:"digest"` // "sha256:" and 64 hex digits
	Size    int64  `json:"size"`   // bytes
	Version string `json:"version"`
}

// bootFiles lists the kernel and its drivers, if the image has them.
func (m Manifest) bootFiles() []*File {
	return slices.DeleteFunc([]*File{m.Kernel, m.Drivers}, func(f *File) bool { return f == nil })
}

// takeKernel puts the kernel of the root filesystem and the drivers that its first stage needs into the image's folder.
// Without a kernel in root there are none, and no error. No link in root leads out of it.
func takeKernel(ctx context.Context, root, image string) (kernel, drivers *File, err error) {
	inside, err := os.OpenRoot(root)
	if err != nil {
		return nil, nil, err
	}
	defer inside.Close()
	within := plain{inside.FS()}
	version, modules, err := findKernel(within)
	if err != nil || version == "" {
		return nil, nil, err
	}
	kernel, drivers = &File{File: KernelFile, Version: version}, &File{File: DriversFile, Version: version}
	in, err := within.Open("boot/vmlinuz-" + version)
	if err != nil {
		return nil, nil, fmt.Errorf("kernel %s: %w", version, err)
	}
	defer in.Close()
	if kernel.Digest, kernel.Size, err = writeHashed(ctx, in, filepath.Join(image, KernelFile)); err != nil {
		return nil, nil, fmt.Errorf("kernel %s: %w", version, err)
	}
	archive, err := driverArchive(ctx, modules, within, version)
	if err != nil {
		return nil, nil, fmt.Errorf("kernel %s: %w", version, err)
	}
	packed := filepath.Join(image, DriversFile)
	// One thread, or the bytes would depend on the number of CPUs.
	err = command{args: []string{"zstd", "-19", "-T1", "-q", "-o", packed}, stdin: bytes.NewReader(archive)}.run(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("kernel %s: %w", version, err)
	}
	if drivers.Digest, drivers.Size, err = hashFile(ctx, packed); err != nil {
		return nil, nil, fmt.Errorf("kernel %s: %w", version, err)
	}
	return kernel, drivers, files.Sync(packed)
}

// plain opens regular files and folders only: reading a pipe that came with a foreign image would never end.
type plain struct{ fs.FS }

func (p plain) Open(name string) (fs.File, error) {
	info, err := fs.Stat(p.FS, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("is not a regular file")}
	}
	return p.FS.Open(name)
}

// findKernel returns the version of the one kernel in root, and the folder of its modules.
func findKernel(root fs.FS) (version string, modules fs.FS, err error) {
	found, err := fs.Glob(root, "boot/vmlinuz-*")
	if err != nil || len(found) == 0 {
		return "", nil, err
	}
	if len(found) > 1 {
		return "", nil, fmt.Errorf("there is more than one kernel: /%s; leave one of them", strings.Join(found, ", /"))
	}
	version = strings.TrimPrefix(found[0], "boot/vmlinuz-")
	for _, dir := range []string{"usr/lib/modules/", "lib/modules/"} {
		if _, err := fs.Stat(root, dir+version+"/modules.dep"); err == nil {
			modules, err = fs.Sub(root, dir+version)
			return version, modules, err
		}
	}
	return "", nil, fmt.Errorf("kernel %s has no /lib/modules/%s/modules.dep; `depmod %s` writes it", version, version, version)
}

// driverArchive is what a first stage finds its drivers in, as the image has them: those that are packed one by one stay so, and
// take less of a machine's memory.
func driverArchive(ctx context.Context, modules, root fs.FS, version string) ([]byte, error) {
	tree, err := kmod.Read(modules)
	if err != nil {
		return nil, err
	}
	for _, needed := range []string{"squashfs", "overlay", "loop"} {
		if !tree.Has(needed) {
			return nil, fmt.Errorf("module %s is missing, without which no machine reaches its root", needed)
		}
	}
	lists, modulePaths := tree.Cut(slices.DeleteFunc(firstStageDrivers(), func(name string) bool {
		return slices.Contains(uselessWithoutFirmware(), name) && !hasFirmware(ctx, modules, root, tree.Order(name))
	})...)
	var files []initramfs.File
	add := func(name string, content []byte) {
		files = append(files, initramfs.File{Name: name, Mode: 0o644, Content: content})
	}
	folder := "lib/modules/" + version + "/"
	for name, text := range lists {
		add(folder+name, text)
	}
	firmware := map[string]bool{}
	for _, p := range modulePaths {
		content, err := fs.ReadFile(modules, p)
		if err != nil {
			return nil, err
		}
		add(folder+p, content)
		module, err := unpack(ctx, p, content)
		if err != nil {
			return nil, err
		}
		for _, f := range firmwareOf(module) {
			firmware[f] = true
		}
	}
	for f := range firmware {
		if content := readFirmware(root, f); content != nil {
			add("lib/firmware/"+f, content)
		}
	}
	var archive bytes.Buffer
	if err := initramfs.Write(&archive, files); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

// mostModule bounds what a packed module may hold: images come from anywhere.
const mostModule = 64 << 20

// unpack returns a module as it is when it is not packed: only then does it say which firmware it needs.
func unpack(ctx context.Context, name string, module []byte) ([]byte, error) {
	program := map[string]string{".xz": "xz", ".zst": "zstd", ".gz": "gzip"}[path.Ext(name)]
	if program == "" {
		return module, nil
	}
	out := &atMost{left: mostModule}
	if err := (command{args: []string{program, "-dcq"}, stdin: bytes.NewReader(module), stdout: out}).run(ctx); err != nil {
		return nil, fmt.Errorf("module %s: %w", name, errors.Join(out.err, err))
	}
	return out.got.Bytes(), nil
}

// atMost takes so many bytes, and no more.
type atMost struct {
	got  bytes.Buffer
	left int
	err  error
}

func (w *atMost) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		w.err = fmt.Errorf("it holds more than %d MiB", mostModule>>20)
		return 0, w.err
	}
	return w.got.Write(b)
}

func hasFirmware(ctx context.Context, modules, root fs.FS, paths []string) bool {
	for _, p := range paths {
		content, err := fs.ReadFile(modules, p)
		if err == nil {
			content, err = unpack(ctx, p, content)
		}
		if err == nil && slices.ContainsFunc(firmwareOf(content), func(f string) bool { return readFirmware(root, f) != nil }) {
			return true
		}
	}
	return false
}

// readFirmware returns nil for what the image lacks: most drivers name files for more cards than a machine has.
func readFirmware(root fs.FS, name string) []byte {
	for _, dir := range []string{"usr/lib/firmware/", "lib/firmware/"} {
		if content, err := fs.ReadFile(root, dir+name); err == nil {
			return content
		}
	}
	return nil
}

// firmwareOf lists the files below /lib/firmware that a module says it may ask for.
func firmwareOf(module []byte) []string {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil
	}
	info, err := section.Data()
	if err != nil {
		return nil
	}
	var names []string
	for _, field := range strings.Split(string(info), "\x00") {
		if name, ok := strings.CutPrefix(field, "firmware="); ok && fs.ValidPath(name) {
			names = append(names, name)
		}
	}
	return names
}

// dropKernel deletes from root what machines get from beside it, and lists that are never read.
func dropKernel(root string) error {
	var failed []error
	for _, pattern := range []string{
		"boot/vmlinuz*", "boot/initrd*", "boot/System.map*", "boot/config-*", "vmlinuz*", "initrd.img*",
		"usr/lib/modules/*/modules.symbols*", "lib/modules/*/modules.symbols*",
	} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		failed = append(failed, err)
		for _, f := range found {
			failed = append(failed, os.Remove(f))
		}
	}
	return errors.Join(failed...)
}

// firstStageDrivers are the modules that may stand between a machine and its root squashfs; more is in there. Functions of
// NICs that only virtual machines see are left out.
// A kernel that lacks some, as of another architecture, is fine.
func firstStageDrivers() []string {
	return slices.Concat(
		strings.Fields(`virtio_pci virtio_mmio hv_vmbus vmd`),
		// NICs of servers, then of hypervisors and clouds, then of workstations
		strings.Fields(`e1000 e1000e igb igc ixgbe i40e ice bnx2 bnx2x bnxt_en tg3 mlx4_en mlx5_core qede
			cxgb4 be2net enic
			virtio_net vmxnet3 hv_netvsc xen-netfront ena gve
			r8169 realtek broadcom`),
		// disks
		strings.Fields(`virtio_blk virtio_scsi nvme ahci ata_piix sd_mod megaraid_sas mpt3sas mpi3mr aacraid hpsa
			smartpqi hv_storvsc vmw_pvscsi xen-blkfront`),
		strings.Fields(`squashfs overlay loop`),
	)
}

// uselessWithoutFirmware are those of them that go along only if the image has firmware for them.
func uselessWithoutFirmware() []string { return []string{"bnx2", "bnx2x", "qede"} }

// unneededModules are the trees of a kernel that no server uses, as dpkg's path-exclude. A recipe's include overrides them.
func unneededModules() []string {
	var paths []string
	for _, tree := range strings.Fields(`sound net/bluetooth net/mac80211 net/wireless net/nfc net/can net/ieee802154 net/mac802154
		net/6lowpan net/ax25 net/netrom net/rose net/appletalk net/x25 net/lapb net/batman-adv
		drivers/media drivers/staging drivers/net/wireless drivers/net/wwan drivers/net/can drivers/net/hamradio drivers/net/arcnet
		drivers/net/fddi drivers/net/ieee802154 drivers/net/wan drivers/net/usb drivers/bluetooth drivers/isdn drivers/nfc
		drivers/comedi drivers/iio drivers/gpu/drm/amd drivers/gpu/drm/radeon drivers/gpu/drm/nouveau drivers/gpu/drm/i915
		drivers/gpu/drm/gma500 drivers/gpu/drm/vmwgfx drivers/input/joystick drivers/input/tablet drivers/input/touchscreen
		drivers/usb/gadget drivers/usb/serial drivers/usb/atm drivers/usb/misc drivers/video drivers/pcmcia drivers/parport drivers/firewire
		drivers/memstick drivers/mmc drivers/w1 drivers/greybus drivers/soundwire drivers/platform/chrome drivers/atm
		drivers/thunderbolt drivers/android drivers/accessibility drivers/ufs drivers/usb/typec
		fs/afs fs/f2fs fs/gfs2 fs/hfs fs/hfsplus fs/jffs2 fs/jfs fs/nilfs2 fs/ocfs2 fs/reiserfs fs/ubifs fs/udf`) {
		paths = append(paths, "/lib/modules/*/kernel/"+tree+"/*")
	}
	return append(paths, "/lib/modules/*/kernel/lib/test_*")
}
