package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// copying copies trees with all that their files are: owner, mode, times, extended attributes, names that share a
// file, and holes. What is copied may change meanwhile, by users who may put a link to anywhere in the way of a
// controller that is root; so it is only ever reached through os.Root. Sockets, pipes and devices are left out.
type copying struct {
	ctx      context.Context
	progress func(int64) error
	copied   int64
	linked   map[inode]string // the first copy of a file with several names
}

type inode struct{ device, number uint64 }

func newCopying(ctx context.Context, progress func(int64) error) *copying {
	return &copying{ctx, progress, 0, map[inode]string{}}
}

// tree copies a directory, less the entries of it that are named.
func (c *copying) tree(from, to string, without ...string) error {
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer source.Close()
	return c.directory(source, to, without)
}

func (c *copying) directory(source *os.Root, to string, without []string) error {
	self, err := source.Open(".")
	if err != nil {
		return err
	}
	defer self.Close()
	info, err := self.Stat()
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	names, err := self.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if slices.Contains(without, name) {
			continue
		}
		err := c.entry(source, name, filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it has gone meanwhile
			return err
		}
	}
	made, err := os.Open(to)
	if err != nil {
		return err
	}
	defer made.Close()
	return resemble(made, self, info) // last: what is put into a directory changes its time
}

func (c *copying) entry(source *os.Root, name, to string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	info, err := source.Lstat(name)
	if err != nil {
		return err
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		below, err := source.OpenRoot(name)
		if err != nil {
			return err
		}
		defer below.Close()
		return c.directory(below, to, nil)
	case fs.ModeSymlink:
		target, err := source.Readlink(name)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, to); err != nil {
			return err
		}
		return os.Lchown(to, int(info.Sys().(*syscall.Stat_t).Uid), int(info.Sys().(*syscall.Stat_t).Gid))
	case 0:
		return c.file(source, name, to)
	}
	return nil
}

func (c *copying) file(source *os.Root, name, to string) error {
	from, err := source.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	stat := info.Sys().(*syscall.Stat_t)
	if stat.Nlink > 1 {
		id := inode{uint64(stat.Dev), stat.Ino}
		if first, copied := c.linked[id]; copied {
			return os.Link(first, to)
		}
		c.linked[id] = to
	}
	made, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer made.Close()
	if err := c.content(made, from, info.Size()); err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	return resemble(made, from, info)
}

// piece is how much is copied between two words of progress.
const piece = 16 << 20

// content copies what a file holds: by sharing its blocks where the file system can, else piece by piece, without holes.
func (c *copying) content(to, from *os.File, size int64) error {
	if unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil {
		return c.count(size)
	}
	if err := to.Truncate(size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		data, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // nothing but a hole is left
		}
		if err != nil {
			return err
		}
		hole, err := unix.Seek(int(from.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		for at = data; at < min(hole, size); {
			n := min(piece, min(hole, size)-at)
			if _, err := io.Copy(io.NewOffsetWriter(to, at), io.NewSectionReader(from, at, n)); err != nil {
				return err
			}
			at += n
			if err := c.count(n); err != nil {
				return err
			}
		}
		at = hole
	}
	return nil
}

func (c *copying) count(n int64) error {
	c.copied += n
	if err := c.ctx.Err(); err != nil {
		return err
	}
	return c.progress(c.copied)
}

// resemble gives a copy its original's attributes, owner, mode and times, in this order: a change of the owner takes
// some bits of the mode away.
func resemble(to, from *os.File, info fs.FileInfo) error {
	if err := attributes(to, from); err != nil {
		return err
	}
	stat := info.Sys().(*syscall.Stat_t)
	if err := to.Chown(int(stat.Uid), int(stat.Gid)); err != nil {
		return err
	}
	if err := unix.Fchmod(int(to.Fd()), stat.Mode&0o7777); err != nil {
		return err
	}
	return os.Chtimes(to.Name(), time.Unix(stat.Atim.Unix()), info.ModTime())
}

// attributes copies extended attributes, access control lists among them.
func attributes(to, from *os.File) error {
	size, err := unix.Flistxattr(int(from.Fd()), nil)
	if err != nil || size == 0 {
		if errors.Is(err, unix.ENOTSUP) {
			err = nil
		}
		return err
	}
	list := make([]byte, size)
	if size, err = unix.Flistxattr(int(from.Fd()), list); err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list[:size]), "\x00"), "\x00") {
		value := make([]byte, 64<<10) // the most that there can be
		n, err := unix.Fgetxattr(int(from.Fd()), name, value)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return err
		}
		if err := unix.Fsetxattr(int(to.Fd()), name, value[:n], 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return err
		}
	}
	return nil
}
