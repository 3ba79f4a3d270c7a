package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
	"muster/internal/drivers/substrate/vm/domain"
	"muster/internal/inventory"
)

// A guest that sleeps is a file: its memory, and the state of its CPUs and virtual devices, as libvirt writes and reads it.
// It holds nothing of its host but that and the files that it was started with. The file has whatever the guest had in its
// memory, keys among it: only root reads it, and it is overwritten before it is removed.

// The file with a sleeping guest's memory. libvirt marks it as whole with its last write. It has its second name from when it
// has been read: nothing of it may be used once the guest's CPUs run.
const (
	memoryFile = "memory"
	usedFile   = "memory.used"
)

// spareMiB is what has to be left on the disk beside a guest's memory.
const spareMiB = 1024

// memoryPath is the path of a file with a boot's memory.
func (b boot) memoryPath(name string) string {
	if b.memory == "" {
		return b.path(name)
	}
	return filepath.Join(b.memory, b.name+"."+name)
}

// memoryPathInside is the memory file's path as libvirt sees it.
func (b boot) memoryPathInside() string {
	if b.memory == "" {
		return b.inside(memoryFile)
	}
	return filepath.Join(insideMemory, b.name+"."+memoryFile)
}

// ended says ErrNotHere in the words of a caller that knows one host only.
func ended(err error) error {
	if errors.Is(err, ErrNotHere) {
		return fmt.Errorf("%w: %w", substrate.ErrEnded, err)
	}
	return err
}

// Sleep writes a running guest's memory to disk and ends it, as substrate.Sleeper has it. ErrNotHere says that it has ended.
func (d *Driver) Sleep(ctx context.Context, r substrate.Ref) (bytes int64, err error) {
	home, held, release, err := d.hold(ctx, r)
	if err != nil {
		return 0, err
	}
	defer release()
	collect()
	b := d.bootAt(home, r.Boot)
	if err := b.here(); err != nil {
		return 0, err
	}
	if !b.sleeps() {
		if err := d.fallAsleep(ctx, held, b, r); err != nil {
			return 0, err
		}
	}
	info, err := os.Stat(b.memoryPath(memoryFile))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// fallAsleep writes the memory of a guest, unless that is whole already, and gives back what the guest had of this host.
func (d *Driver) fallAsleep(ctx context.Context, held *onhost.Hold, b boot, r substrate.Ref) error {
	v, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer v.close()
	if seen, complete := b.read(); complete && seen.QEMU.Runs() {
		if err := d.save(ctx, held, v, b, seen.QEMU); err != nil {
			return err
		}
	}
	if _, err := v.saved(ctx, b.memoryPathInside()); err != nil {
		return fmt.Errorf("%w: its QEMU has ended%s: %w", ErrNotHere, lastWords(b), err)
	}
	for _, step := range []func() error{
		held.Lost,
		func() error { return d.letGo(ctx, b, r) },
		func() error { return missing(os.Remove(b.path(recordFile))) },
		func() error { return missing(os.Remove(b.path(partFile))) }, // the last: from here on others may have it
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// save writes the memory of a guest that runs.
func (d *Driver) save(ctx context.Context, held *onhost.Hold, v *virt, b boot, qemu onhost.Process) error {
	p, _, err := b.part()
	if err != nil {
		return err
	}
	if len(p.Allocation.Devices) > 0 {
		return fmt.Errorf("%w: a guest with devices of its host cannot be suspended", substrate.ErrRefused)
	}
	if err := v.callOff(ctx, b.name); err != nil {
		return fmt.Errorf("call off what is done with it: %w", err)
	}
	if err := erase(ctx, b.memoryPath(memoryFile)); err != nil { // of a try that broke off
		return err
	}
	// One at a time: the room that there is for one is not counted for another.
	alone, err := onhost.Exclusive(ctx, d.lockPath("memory"))
	if err != nil {
		return err
	}
	defer alone.Release()
	if d.config.Diskless != "" {
		return fmt.Errorf("%w for its memory: %d MiB are needed, and its host has no disk for that: %s", substrate.ErrNoRoom,
			needMiB(p), d.config.Diskless)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(b.memoryPath(memoryFile)), &disk); err != nil {
		return err
	}
	if err := roomFor(p, int64(disk.Bavail)*disk.Bsize, d.config.Reserve); err != nil {
		return err
	}
	// libvirt writes into a file that is there, and leaves it whose it is.
	if err := errors.Join(writeFor(0, b.memoryPath(memoryFile)), held.Lost()); err != nil {
		return err
	}
	done := make(chan struct{})
	defer close(done)
	go collectUntil(done)
	go endOverMost(done, b.memoryPath(memoryFile), needMiB(p)<<20, qemu)
	if err := v.save(ctx, b.name, b.memoryPathInside()); err != nil {
		return errors.Join(fmt.Errorf("write its memory: %w", err), letGoOf(b.memoryPath(memoryFile), qemu),
			erase(context.WithoutCancel(ctx), b.memoryPath(memoryFile)))
	}
	return nil
}

// letGoOf ends a QEMU that goes on holding a file which it was to write: it could fill the disk by a file that has no name any
// more.
func letGoOf(file string, qemu onhost.Process) error {
	written, err := os.Stat(file)
	if err != nil {
		return missing(err)
	}
	open, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(qemu.PID), "fd/*"))
	if err != nil {
		return err
	}
	for _, fd := range open {
		if held, err := os.Stat(fd); err == nil && os.SameFile(written, held) {
			return qemu.End(context.Background(), 0)
		}
	}
	return nil
}

// endOverMost ends a QEMU when the file that it writes is longer than so many bytes, which its guest's memory never is: a guest
// that has taken its QEMU over would fill the disk. It returns after that, or when ended is closed.
func endOverMost(ended <-chan struct{}, file string, most int64, qemu onhost.Process) {
	for {
		var written unix.Stat_t
		if err := unix.Stat(file, &written); err == nil && max(written.Size, 512*written.Blocks) > most {
			_ = qemu.End(context.Background(), 0)
			return
		}
		select {
		case <-ended:
			return
		case <-time.After(100 * time.Millisecond): // in which a fast disk takes some hundred megabytes
		}
	}
}

// roomFor says whether a guest's memory fits on a disk with so many bytes free, where reserve bytes are to stay so.
func roomFor(p part, free, reserve int64) error {
	if need, left := needMiB(p), max(0, free-reserve)>>20; need > left {
		return fmt.Errorf("%w for its memory: %d MiB are needed and %d MiB may be taken on its host's disk", substrate.ErrNoRoom,
			need, left)
	}
	return nil
}

// needMiB is what has to be free for a guest's memory.
func needMiB(p part) int64 {
	need := int64(spareMiB)
	for _, cell := range p.Allocation.Cells {
		need += int64(cell.MemoryMiB)
	}
	return need
}

// here is ErrNotHere of a boot that there is nothing of. Libvirt is not asked: it would be started, and nothing would end it.
func (b boot) here() error {
	if _, err := os.Stat(b.dir); os.IsNotExist(err) {
		return fmt.Errorf("%w: there is nothing of boot %d", ErrNotHere, b.number)
	} else if err != nil {
		return err
	}
	return nil
}

// sleeps says that there is memory of a boot and nothing of its host: that was given back when the memory was whole.
func (b boot) sleeps() bool {
	_, err := os.Stat(b.memoryPath(memoryFile))
	_, complete := b.read()
	_, given, _ := b.part()
	return err == nil && !complete && !given
}

// Wake lets a guest that sleeps run on with what n.Allocation says, or with another part as at its start, as substrate.Sleeper
// has it.
// ErrNotHere says that its memory is lost.
func (d *Driver) Wake(ctx context.Context, n substrate.Node) error {
	if n.Allocation == nil {
		return fmt.Errorf("node %s has nothing of this host: it is no guest", n.Node)
	}
	home, held, release, err := d.hold(ctx, n.Ref)
	if err != nil {
		return err
	}
	defer release()
	collect()
	b := d.bootAt(home, n.Boot)
	if err := b.here(); err != nil {
		return err
	}
	v, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer v.close()
	_, used := os.Stat(b.memoryPath(usedFile))
	if _, complete := b.read(); complete || used == nil {
		err = d.goOn(ctx, held, v, b, n)
	} else if was, lost := v.saved(ctx, b.memoryPathInside()); lost != nil {
		err = fmt.Errorf("%w: %w", ErrNotHere, lost)
	} else {
		err = d.restore(ctx, held, v, b, n, was)
	}
	if err != nil {
		return err
	}
	return erase(ctx, b.memoryPath(usedFile))
}

// goOn lets a guest run whose memory was read already, unless it does.
func (d *Driver) goOn(ctx context.Context, held *onhost.Hold, v *virt, b boot, n substrate.Node) error {
	emulators, err := d.emulators(b.name)
	if err != nil {
		return err
	}
	if len(emulators) != 1 {
		return fmt.Errorf("%w: its QEMU has ended%s", ErrNotHere, lastWords(b))
	}
	if state, err := v.state(ctx, b.name); err != nil || state == running {
		return err
	}
	p, _, err := b.part()
	if err != nil {
		return err
	}
	n.Allocation = &p.Allocation
	return d.wake(ctx, held, v, b, n, emulators[0])
}

// restore makes a guest from its memory. What is left of an interrupted try, whose CPUs have never run, goes first.
func (d *Driver) restore(ctx context.Context, held *onhost.Hold, v *virt, b boot, n substrate.Node, was string) error {
	var facts inventory.Facts
	var user int
	var here string
	var emulators []onhost.Process
	err := inOrder(held, []step{
		{"remains", func() error {
			return errors.Join(d.letGo(ctx, b, n.Ref), missing(os.Remove(b.path(partFile))),
				missing(os.Remove(b.path(initramfsFile))))
		}},
		d.takeFor(ctx, b, &n, &facts, &user),
		// Its QEMU opens again what it was started with.
		{"files", func() error {
			return errors.Join(writeFor(user, b.path(initramfsFile), padding(1)), os.Chown(b.path(consoleFile), user, user))
		}},
		{"description", func() error {
			described, err := d.describe(b, n, facts)
			if err != nil {
				return err
			}
			if here, err = domain.Elsewhere(was, described); err != nil {
				return fmt.Errorf("%w: %w", substrate.ErrRefused, err)
			}
			return makeTap(d.netns(), substrate.PortName(n.Node), domain.Queues(len(described.Pins)))
		}},
		{"memory", func() error { return v.restore(ctx, b.memoryPathInside(), here) }},
		{"QEMU", func() (err error) {
			if emulators, err = d.emulators(b.name); err == nil && len(emulators) != 1 {
				err = fmt.Errorf("it has %d processes", len(emulators))
			}
			return err
		}},
		{"memory, which is used up", func() error { return os.Rename(b.memoryPath(memoryFile), b.memoryPath(usedFile)) }},
		{"run", func() error { return d.wake(ctx, held, v, b, n, emulators[0]) }},
	})
	if errors.Is(err, substrate.ErrRefused) { // it sleeps on, and has nothing of the host
		err = errors.Join(err, missing(os.Remove(b.path(partFile))))
	}
	return err
}

// erase overwrites a file and removes it, if it is there.
func erase(ctx context.Context, path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return missing(err)
	}
	info, err := file.Stat()
	zeros := make([]byte, 1<<20)
	for at := int64(0); err == nil && at < info.Size(); at += int64(len(zeros)) {
		if err = ctx.Err(); err != nil { // it takes a while; it begins again
			break
		}
		_, err = file.WriteAt(zeros[:min(int64(len(zeros)), info.Size()-at)], at)
	}
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("overwrite a guest's memory: %w", err)
	}
	return os.Remove(path)
}
