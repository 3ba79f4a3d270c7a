package vm

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"

	"muster/internal/boot/initramfs"
	"muster/internal/drivers/substrate"
	"muster/internal/protocol"
)

// The files of a boot.
const (
	kernelFile    = "kernel"
	rootFile      = "root"
	agentFile     = "agent"
	initramfsFile = "initramfs" // with the token in it; there only while the guest is being made
	consoleFile   = "console.log"
	partFile      = "part.json"  // what it has of this host; written before that is used
	recordFile    = "guest.json" // written last
)

// commandLine is the kernel's. Whatever is said goes to the console's file. A kernel that panics restarts, which ends the
// guest. An emulated one does not try whether its timer works, and panic where the host is too busy to tick in time; with KVM it
// never does (Linux, arch/x86/kernel/kvm.c).
const commandLine = "console=ttyS0 quiet panic=1 no_timer_check"

// linkFiles puts those in place that guests share: links to one file, which stays for as long as a guest uses it, whatever
// becomes of its image.
func (d *Driver) linkFiles(b boot, digest string) (Image, error) {
	image, err := d.config.Images(digest)
	if err != nil {
		return image, err
	}
	for name, from := range map[string]string{kernelFile: image.Kernel, rootFile: image.Root, agentFile: d.config.Binary} {
		if err := linkOrCopy(from, b.path(name)); err != nil {
			return image, err
		}
	}
	return image, nil
}

// writeFiles puts together what QEMU reads.
func (d *Driver) writeFiles(b boot, n substrate.Node, user int) error {
	image, err := d.linkFiles(b, n.Image)
	if err != nil {
		return err
	}
	plan, err := d.plan(b, n)
	if err != nil {
		return err
	}
	first, err := d.config.FirstStage()
	if err != nil {
		return err
	}
	drivers, err := os.ReadFile(image.Drivers)
	if err != nil {
		return err
	}
	if err := writeFor(user, b.path(initramfsFile), first, padding(len(first)), drivers, padding(len(drivers)),
		plan); err != nil {
		return err
	}
	return writeFor(user, b.path(consoleFile))
}

// plan is the archive with the guest's plan.
func (d *Driver) plan(b boot, n substrate.Node) ([]byte, error) {
	p := protocol.Plan{Boot: n.File}
	at := protocol.Attachment{}
	if p.Boot.Attachment != nil {
		at = *p.Boot.Attachment
	}
	at.NIC, at.MAC, at.Address = n.MAC.String(), n.MAC.String(), n.Address.String()
	at.Gateway = protocol.Neighbour{Address: substrate.Gateway().Addr().String(),
		MAC: substrate.MAC(substrate.Segment(n.MAC), substrate.GatewaySlot).String()}
	p.Boot.Attachment = &at
	for _, part := range []struct {
		name string
		blob *protocol.Blob
	}{{rootFile, &p.Root}, {agentFile, &p.Agent}} {
		info, err := os.Stat(b.path(part.name))
		if err != nil {
			return nil, err
		}
		*part.blob = protocol.Blob{Digest: n.Image, Size: info.Size()}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	err = initramfs.Write(&archive, []initramfs.File{{Name: protocol.GuestPlan[1:], Mode: 0o600, Content: text}})
	return archive.Bytes(), err
}

// padding leads to the next multiple of 4, where the kernel looks for an archive.
func padding(length int) []byte { return make([]byte, -length&3) }

// writeFor writes a file that one user alone, beside root, may read and write.
func writeFor(user int, path string, parts ...[]byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = file.Chown(user, user)
	for _, part := range parts {
		if err == nil {
			_, err = file.Write(part)
		}
	}
	return errors.Join(err, file.Close())
}

// linkOrCopy gives a file another name; on another file system it is copied.
func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// missing takes it for a success that something was not there.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
