package inspection

import (
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// device is an open disk. Offsets and lengths are multiples of its blocks; buffers come from aligned.
type device interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() int64                        // bytes; as it was when the disk was opened
	Discard(offset, length int64) error // may be refused, or do nothing
	Zero(offset, length int64) error    // as the disk does it fastest
	Flush() error                       // returns when all that was written is on the medium
}

// blockSize is a multiple of the blocks of all disks, and of the kernel's pages.
const blockSize = 4096

// block is a block device of the kernel, without its cache: what is read comes from the disk.
type block struct {
	*os.File
	size int64
}

// openBlock opens a disk; for writing only if nothing else has it: no file system, no swap, no volume on top of it.
func openBlock(d disk, write bool) (device, error) {
	flags := os.O_RDONLY
	if write {
		flags = os.O_RDWR | os.O_EXCL
	}
	f, err := os.OpenFile(d.path, flags|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("%s is in use: %w", d.Name, unwrapPath(err))
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", d.Name, unwrapPath(err))
	}
	info, err := f.Stat()
	if err == nil && info.Mode()&os.ModeDevice == 0 {
		err = errors.New("it is no block device")
	}
	size := int64(0)
	if err == nil {
		size, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", d.Name, errors.Join(err, f.Close()))
	}
	return &block{File: f, size: size}, nil
}

func (b *block) Size() int64 { return b.size }

func (b *block) Discard(offset, length int64) error { return b.region(unix.BLKDISCARD, offset, length) }

func (b *block) Zero(offset, length int64) error { return b.region(unix.BLKZEROOUT, offset, length) }

func (b *block) Flush() error { return b.Sync() }

// region is an ioctl of include/uapi/linux/fs.h that takes a range of bytes.
func (b *block) region(request uintptr, offset, length int64) error {
	span := [2]uint64{uint64(offset), uint64(length)}
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, b.Fd(), request, uintptr(unsafe.Pointer(&span)))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// aligned is a buffer that a disk can be read into without the kernel's cache.
func aligned(length int) []byte {
	buffer := make([]byte, length+blockSize)
	skip := (blockSize - int(uintptr(unsafe.Pointer(&buffer[0]))%blockSize)) % blockSize
	return buffer[skip : skip+length : skip+length]
}

// readFull reads a whole buffer; less than that is an error.
func readFull(d device, buffer []byte, offset int64) error {
	n, err := d.ReadAt(buffer, offset)
	if n == len(buffer) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %s: %w", at(offset+int64(n)), unwrapPath(err))
}

// writeFull writes a whole buffer.
func writeFull(d device, buffer []byte, offset int64) error {
	n, err := d.WriteAt(buffer, offset)
	if err == nil && n < len(buffer) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", at(offset+int64(n)), unwrapPath(err))
	}
	return nil
}

// at is a place on a disk in words.
func at(offset int64) string { return fmt.Sprintf("at %d MiB", offset>>20) }

// unwrapPath leaves out the operation and the path, which the words around it tell.
func unwrapPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
