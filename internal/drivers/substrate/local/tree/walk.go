package tree

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// verdict is what becomes of an entry.
type verdict int

const (
	past  verdict = iota // it is done with
	below                // it is a directory, to be gone through
)

const (
	// held is how many of the deepest directories stay open, beside the first one. Of the others it is known who they are.
	held = 16
	// atOnce is how much of a directory is read at once, in bytes.
	atOnce = 32 << 10
	// wander bounds, in levels gone down, how often a pass looks for its way again because directories were moved under it.
	wander = 4 << 20
	// deepest is how many levels a pass goes down. The kernel keeps a kilobyte or so of each directory on the way, which is the
	// host's memory alone.
	deepest = 32 << 10
)

// walk goes through a tree, depth first. The functions are called with the directory they are about open.
type walk struct {
	ctx context.Context
	// entry is asked of each entry but "." and ".."; kind is DT_DIR and so on, DT_UNKNOWN where the file system says nothing.
	entry func(l *level, name string, kind uint8) (verdict, error)
	enter func(parent, l *level) error // a directory has been opened; parent is nil for the first
	leave func(l *level) error         // all of it has been seen
	// left is called in the parent for a directory that was gone through; again has it gone through once more.
	left func(parent *level, name string, pass int) (again bool, err error)
	// deeper is told of a directory that is below the deepest level; nil: it is reported.
	deeper func()
	// twins has a second directory beside each level's own, which is opened by enter.
	twins bool

	levels   []level // the way from the first directory to where the walk is
	spare    [][]byte
	wandered int
	report   Report
}

// level is a directory on the way.
type level struct {
	name string // in the level above
	self dirID
	pass int // how often it was gone through before
	fd   int // -1: closed, to be opened from below

	twin     int // of a copy: the directory that is made; -1 as fd
	twinSelf dirID

	read   []byte // entries that were read
	unread []byte // those of them that are still to be seen
	next   int64  // where to read on, behind the last entry that was seen
	wound  bool   // fd stands at next
}

// dirID is a directory's identity.
type dirID struct{ dev, ino uint64 }

func newWalk(ctx context.Context, entry func(l *level, name string, kind uint8) (verdict, error)) *walk {
	return &walk{ctx: ctx, entry: entry}
}

// errLost says that the way back is not there any more.
var errLost = errors.New("it was moved away meanwhile")

// errDeep says that a directory, and all that is in it, is left aside.
var errDeep = errors.New("it is too deep")

// reach is how many levels this pass goes down. A copy ends a little before, so that all of it is seen when it is measured or
// copied from some levels above.
func (w *walk) reach() int {
	if w.twins {
		return deepest - 16
	}
	return deepest
}

// run goes through dir, which must be there and a directory.
func (w *walk) run(dir string) (err error) {
	fd, err := open(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer func() {
		for i := range w.levels {
			w.close(&w.levels[i])
		}
	}()
	if err := w.down(fd, ".", 0); err != nil {
		return err
	}
	for len(w.levels) > 0 {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.through(); err != nil {
			return err
		}
	}
	return nil
}

// through sees the entries of the deepest level until one of them is a directory to go down to, or goes up.
func (w *walk) through() error {
	for n := 0; ; n++ {
		l := &w.levels[len(w.levels)-1] // again: the levels may have moved
		if n%256 == 255 && w.ctx.Err() != nil {
			return w.ctx.Err()
		}
		name, kind, err := w.nextEntry(l)
		if err != nil {
			if !theirs(err) {
				return err
			}
			w.report.add(quoted(w.levels, "."), err) // as if it ended here
			return w.up()
		}
		if name == "" {
			return w.up()
		}
		verdict, err := w.entry(l, name, kind)
		if err == nil && verdict == below {
			err = w.descend(l, name, 0)
			if err == nil {
				return nil
			}
		}
		if err := w.count(name, err); err != nil {
			return err
		}
	}
}

// count takes note of an error that is the users' doing, and returns any other. What is gone is no error.
func (w *walk) count(name string, err error) error {
	switch {
	case err == nil || errors.Is(err, unix.ENOENT) && theirs(err):
		return nil
	case theirs(err):
		w.report.add(quoted(w.levels, name), err)
		return nil
	}
	return fmt.Errorf("%s: %w", quoted(w.levels, name), err)
}

// descend opens a directory and makes it the deepest level.
func (w *walk) descend(l *level, name string, pass int) error {
	if len(w.levels) > w.reach() {
		if w.deeper == nil {
			return errDeep
		}
		w.deeper()
		return nil
	}
	fd, err := openBelow(l.fd, name)
	if err != nil {
		return err
	}
	return w.down(fd, name, pass)
}

// down adds a level. The one that is then too far up is closed.
func (w *walk) down(fd int, name string, pass int) error {
	self, err := identity(fd)
	if err != nil {
		unix.Close(fd)
		return err
	}
	w.levels = append(w.levels, level{name: name, self: self, pass: pass, fd: fd, twin: -1, wound: true})
	depth := len(w.levels)
	if w.enter != nil {
		var parent *level
		if depth > 1 {
			parent = &w.levels[depth-2]
		}
		if err := w.enter(parent, &w.levels[depth-1]); err != nil {
			w.close(&w.levels[depth-1])
			w.levels = w.levels[:depth-1]
			return err
		}
	}
	if far := depth - 1 - held; far > 0 {
		w.close(&w.levels[far])
	}
	return nil
}

// close gives up a level's descriptors and what was read ahead; next says where to go on.
func (w *walk) close(l *level) {
	if l.fd >= 0 {
		unix.Close(l.fd)
		l.fd = -1
	}
	if l.twin >= 0 {
		unix.Close(l.twin)
		l.twin = -1
	}
	if l.read != nil {
		w.spare = append(w.spare, l.read[:atOnce])
		l.read, l.unread = nil, nil
	}
	l.wound = false
}

// up leaves the deepest level for the one above.
func (w *walk) up() error {
	depth := len(w.levels)
	l := &w.levels[depth-1]
	if w.leave != nil {
		if err := w.count(".", w.leave(l)); err != nil {
			return err
		}
	}
	name, pass := l.name, l.pass
	if depth > 1 {
		err := w.reopen(depth - 2)
		if err != nil && theirs(err) {
			w.report.add(quoted(w.levels[:depth-1], name), errLost)
			return w.recover()
		}
		if err != nil {
			return err
		}
	}
	w.close(l)
	w.levels = w.levels[:depth-1]
	if w.left == nil || depth == 1 {
		return nil
	}
	parent := &w.levels[depth-2]
	again, err := w.left(parent, name, pass)
	if err == nil && again {
		err = w.descend(parent, name, pass+1)
	}
	return w.count(name, err)
}

// reopen opens a level that was closed, from the one below it.
func (w *walk) reopen(i int) error {
	l, child := &w.levels[i], &w.levels[i+1]
	if l.fd >= 0 {
		return nil
	}
	fd, err := openSame(child.fd, "..", l.self)
	if err != nil {
		return err
	}
	l.fd = fd
	if w.twins {
		if l.twin, err = openSame(child.twin, "..", l.twinSelf); err != nil {
			return hard{fmt.Errorf("the copy changed meanwhile: %w", err)}
		}
	}
	return nil
}

// recover goes down the way from the first directory, as far as it still is what it was, and goes on there. The levels
// below are given up; what is in them was moved, and may be out of the tree.
func (w *walk) recover() error {
	depth := len(w.levels)
	w.wandered += depth
	for i := depth - 1; i > 0; i-- {
		w.close(&w.levels[i])
	}
	if w.wandered > wander {
		w.levels = w.levels[:1]
		return nil
	}
	at := 0
	for at+2 < depth {
		l, child := &w.levels[at], &w.levels[at+1]
		fd, err := openSame(l.fd, child.name, child.self)
		if err == nil && w.twins {
			if child.twin, err = openSame(l.twin, child.name, child.twinSelf); err != nil {
				unix.Close(fd)
				return hard{fmt.Errorf("the copy changed meanwhile: %w", err)}
			}
		}
		if err != nil {
			if !theirs(err) {
				return err
			}
			break
		}
		child.fd = fd
		at++
		if far := at - held; far > 0 {
			w.close(&w.levels[far])
		}
	}
	w.levels = w.levels[:at+1]
	return nil
}

// nextEntry is "" at the directory's end.
func (w *walk) nextEntry(l *level) (name string, kind uint8, err error) {
	for {
		for len(l.unread) > 0 {
			// struct linux_dirent64: inode, offset of the next, length, type, name.
			length := int(binary.NativeEndian.Uint16(l.unread[16:]))
			l.next = int64(binary.NativeEndian.Uint64(l.unread[8:]))
			kind, raw := l.unread[18], l.unread[19:length]
			l.unread = l.unread[length:]
			if name := unix.ByteSliceToString(raw); name != "." && name != ".." {
				return name, kind, nil
			}
		}
		if !l.wound {
			if _, err := unix.Seek(l.fd, l.next, unix.SEEK_SET); err != nil {
				return "", 0, err
			}
			l.wound = true
		}
		if l.read == nil {
			l.read = w.buffer()
		}
		n, err := again(func() (int, error) { return unix.Getdents(l.fd, l.read) })
		if err != nil || n == 0 {
			return "", 0, err
		}
		l.unread = l.read[:n]
	}
}

func (w *walk) buffer() []byte {
	if n := len(w.spare); n > 0 {
		b := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return b
	}
	return make([]byte, atOnce)
}

// again repeats what a signal interrupted.
func again(do func() (int, error)) (int, error) {
	for {
		n, err := do()
		if err != unix.EINTR {
			return n, err
		}
	}
}

func open(at int, name string, flags int) (int, error) {
	return again(func() (int, error) { return unix.Openat(at, name, flags|unix.O_CLOEXEC|unix.O_NOCTTY, 0) })
}

// openBelow opens a directory in another, and nothing else: no link, no mount.
func openBelow(at int, name string) (int, error) {
	return openHow(at, name, unix.O_RDONLY|unix.O_DIRECTORY)
}

func openHow(at int, name string, flags uint64) (int, error) {
	how := unix.OpenHow{
		Flags:   flags | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NOCTTY,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	}
	return again(func() (int, error) { return unix.Openat2(at, name, &how) })
}

// openSame opens a directory that must be the one that was there before; else it is errLost.
func openSame(at int, name string, was dirID) (int, error) {
	fd, err := open(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	is, err := identity(fd)
	if err == nil && is != was {
		err = errLost
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func identity(fd int) (dirID, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return dirID{}, err
	}
	return dirID{stat.Dev, stat.Ino}, nil
}
