package tree

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// Copy is a copy of one tree or several into one place, with all that their files are: owner, mode, times, extended
// attributes, names that share a file, and holes. Devices, sockets and pipes are left out. It asks more of the disk for a
// while than the copy takes in the end: a directory with a name of each file that has several.
type Copy struct {
	Progress func(copied int64) error // called now and then; its error ends the copy. nil: not called
	Without  []string                 // entries of the first directory that are left out

	copied int64
	buffer []byte
	links  int    // the directory of files with several names; -1: not made yet
	hidden string // its name, which no user can know before
}

// Tree copies a directory and what is in it to another one, which is made if it is not there and else must be empty, and
// which must be on one file system and the caller's alone. What is reported is not in the copy, or not with all that it is.
func (c *Copy) Tree(ctx context.Context, from, to string) (Report, error) {
	c.links, c.hidden = -1, ".links-"+rand.Text()
	top := -1
	w := newWalk(ctx, nil)
	w.twins = true
	w.entry = func(l *level, name string, kind uint8) (verdict, error) {
		if len(w.levels) == 1 && slices.Contains(c.Without, name) {
			return past, nil
		}
		return c.entry(ctx, top, l, name, kind)
	}
	w.enter = func(parent, l *level) (err error) {
		if parent != nil {
			return c.directory(parent, l)
		}
		if err := unix.Mkdir(to, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if l.twin, err = open(unix.AT_FDCWD, to, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW); err != nil {
			return err
		}
		l.twinSelf, err = identity(l.twin)
		top = l.twin // the first level stays open
		return err
	}
	w.leave = func(l *level) error { // last: what is put into a directory changes its time
		if len(w.levels) == 1 {
			if err := c.forgetLinks(ctx, to); err != nil {
				return hard{err}
			}
		}
		var stat unix.Stat_t
		if err := unix.Fstat(l.fd, &stat); err != nil {
			return err
		}
		return resemble(l.twin, l.fd, &stat)
	}
	err := w.run(from)
	if c.links >= 0 {
		unix.Close(c.links)
	}
	return w.report, named("copy", from, err)
}

// hard marks an error of the copy's own side, which is never the users' doing.
type hard struct{ error }

func (h hard) Unwrap() error { return h.error }

// directory makes a directory's copy and opens it.
func (c *Copy) directory(parent, l *level) (err error) {
	if err := unix.Mkdirat(parent.twin, l.name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if l.twin, err = openBelow(parent.twin, l.name); err != nil {
		return err
	}
	l.twinSelf, err = identity(l.twin)
	return err
}

func (c *Copy) entry(ctx context.Context, top int, l *level, name string, kind uint8) (verdict, error) {
	if err := c.count(ctx, 0); err != nil { // whatever it is, it takes room
		return past, err
	}
	if kind == unix.DT_UNKNOWN {
		var stat unix.Stat_t
		if err := unix.Fstatat(l.fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return past, err
		}
		kind = uint8(stat.Mode & unix.S_IFMT >> 12) // as the kernel makes one of the other
	}
	switch kind {
	case unix.DT_DIR:
		return below, nil
	case unix.DT_LNK:
		return past, symlink(l, name)
	case unix.DT_REG:
		return past, c.file(ctx, top, l, name)
	}
	return past, nil
}

func symlink(l *level, name string) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(l.fd, name, target)
	if err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Fstatat(l.fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	err = unix.Symlinkat(string(target[:n]), l.twin, name)
	if errors.Is(err, fs.ErrExist) {
		return nil // it was read twice: the directory changed meanwhile
	}
	if err != nil {
		return err
	}
	if err := unix.Fchownat(l.twin, name, int(stat.Uid), int(stat.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	return unix.UtimesNanoAt(l.twin, name, []unix.Timespec{stat.Atim, stat.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

func (c *Copy) file(ctx context.Context, top int, l *level, name string) error {
	from, err := openHow(l.fd, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	var stat unix.Stat_t
	if err := unix.Fstat(from, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return err
	}
	if stat.Nlink > 1 {
		if linked, err := c.link(top, l, name, &stat); linked || err != nil {
			return err
		}
	}
	made, err := again(func() (int, error) {
		return unix.Openat(l.twin, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	})
	if errors.Is(err, fs.ErrExist) {
		return nil // it was read twice: the directory changed meanwhile
	}
	if err != nil {
		return err
	}
	defer unix.Close(made)
	if err := c.content(ctx, made, from, stat.Size); err != nil {
		return err
	}
	if stat.Nlink > 1 { // for its other names
		if err := unix.Linkat(l.twin, name, c.links, key(&stat), 0); err != nil && !theirs(err) {
			return err
		}
	}
	return resemble(made, from, &stat)
}

// key is the name of a file that has several names.
func key(stat *unix.Stat_t) string { return fmt.Sprintf("%x-%x", stat.Dev, stat.Ino) }

// link gives a file that was copied under another name this one too. The directory it finds it in is bookkeeping on disk: a
// tenant has as many of such files as a disk holds.
func (c *Copy) link(top int, l *level, name string, stat *unix.Stat_t) (bool, error) {
	if c.links < 0 {
		err := unix.Mkdirat(top, c.hidden, 0o700)
		if err == nil {
			c.links, err = openBelow(top, c.hidden)
		}
		if err != nil {
			return false, err
		}
	}
	err := unix.Linkat(c.links, key(stat), l.twin, name, 0)
	switch {
	case err == nil || errors.Is(err, fs.ErrExist):
		return true, nil
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EMLINK): // the first, or too many of them: one of its own
		return false, nil
	}
	return false, err
}

func (c *Copy) forgetLinks(ctx context.Context, to string) error {
	if c.links < 0 {
		return nil
	}
	unix.Close(c.links)
	c.links = -1
	return Remove(ctx, to+"/"+c.hidden)
}

// piece is how much is copied between two words of progress.
const piece = 16 << 20

// content copies what a file holds, as long as it was: by sharing its blocks where the file system can, else piece by
// piece, without holes.
func (c *Copy) content(ctx context.Context, to, from int, size int64) error {
	if size == 0 {
		return c.count(ctx, 0)
	}
	if unix.IoctlFileClone(to, from) == nil {
		return c.count(ctx, size)
	}
	if err := unix.Ftruncate(to, size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		data, err := unix.Seek(from, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // nothing but a hole is left
		}
		if err != nil {
			return err
		}
		hole, err := unix.Seek(from, data, unix.SEEK_HOLE)
		if errors.Is(err, unix.ENXIO) {
			return nil // it has become shorter
		}
		if err != nil {
			return err
		}
		for at = data; at < min(hole, size); {
			n, err := c.stretch(to, from, at, min(piece, min(hole, size)-at))
			if err != nil {
				return err
			}
			if n == 0 {
				return nil // it has become shorter
			}
			at += n
			if err := c.count(ctx, n); err != nil {
				return err
			}
		}
		at = max(at, hole)
	}
	return nil
}

// stretch copies up to n bytes.
func (c *Copy) stretch(to, from int, at, n int64) (int64, error) {
	if c.buffer == nil {
		c.buffer = make([]byte, 256<<10)
	}
	read, err := again(func() (int, error) { return unix.Pread(from, c.buffer[:min(n, int64(len(c.buffer)))], at) })
	if err != nil {
		return 0, err
	}
	for done := 0; done < read; {
		written, err := again(func() (int, error) { return unix.Pwrite(to, c.buffer[done:read], at+int64(done)) })
		if err != nil {
			return 0, err
		}
		if written == 0 {
			return 0, io.ErrShortWrite
		}
		done += written
	}
	return int64(read), nil
}

func (c *Copy) count(ctx context.Context, n int64) error {
	c.copied += n
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.Progress == nil {
		return nil
	}
	if err := c.Progress(c.copied); err != nil {
		return hard{err}
	}
	return nil
}

// resemble gives a copy what a file has beside its content.
func resemble(to, from int, stat *unix.Stat_t) error {
	if err := unix.Fchown(to, int(stat.Uid), int(stat.Gid)); err != nil {
		return err
	}
	attributes := attributes(to, from)
	if attributes != nil && !theirs(attributes) {
		return attributes
	}
	if err := unix.Fchmod(to, stat.Mode&0o7777); err != nil { // after the owner: changing that takes setuid away
		return err
	}
	times := []unix.Timespec{stat.Atim, stat.Mtim}
	if err := unix.UtimesNanoAt(to, "", times, unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	return attributes
}

var errAttribute = errors.New("there is no room for it beside the file")

// attributes copies extended attributes, access control lists among them, as many as it can.
func attributes(to, from int) (failed error) {
	size, err := unix.Flistxattr(from, nil)
	if err != nil || size == 0 {
		if errors.Is(err, unix.ENOTSUP) {
			err = nil
		}
		return err
	}
	list := make([]byte, size+1<<10) // some may be added meanwhile
	if size, err = unix.Flistxattr(from, list); err != nil {
		return err
	}
	value := make([]byte, 64<<10) // the most that there can be
	for name := range bytes.SplitSeq(bytes.TrimRight(list[:size], "\x00"), []byte{0}) {
		n, err := unix.Fgetxattr(from, string(name), value)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err == nil {
			err = unix.Fsetxattr(to, string(name), value[:n], 0)
		}
		if errors.Is(err, unix.ENOSPC) { // the file system is of another kind; if the disk is full, the next write tells
			err = errAttribute
		}
		if err != nil && !errors.Is(err, unix.ENOTSUP) && failed == nil {
			failed = fmt.Errorf("attribute %q: %w", name, err)
		}
	}
	return failed
}
