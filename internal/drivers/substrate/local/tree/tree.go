// Package tree measures, copies and removes trees of files that belong to others, as root, while they may be changed: any name,
// any number of entries, any depth, whatever their owners make of them meanwhile. What is deeper than 32,768 levels is removed,
// but neither measured nor copied.
//
// What enters is the path of a directory that its users cannot move; what leaves is a sum, a copy, or nothing. A pass holds
// a fixed number of open directories: it goes down by openat2, which follows no link and leaves no mount, and comes back by
// "..", which counts only if it is the directory it came from. A directory is read in pieces, so that memory goes with the
// depth of a tree and not with its width. An error that users can cause is counted in a Report and the pass goes on; one of
// the disk ends it.
package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Report counts what a pass had to leave aside because of what the tree's users did with it.
type Report struct {
	Count int      // how many entries
	First []string // the first few of them: a quoted path, and why
}

// shown is how many entries a Report names.
const shown = 3

// String is "" if nothing was left aside.
func (r Report) String() string {
	switch {
	case r.Count == 0:
		return ""
	case r.Count > len(r.First):
		return fmt.Sprintf("%d files: %s, and more", r.Count, strings.Join(r.First, ", "))
	case r.Count == 1:
		return "1 file: " + r.First[0]
	}
	return fmt.Sprintf("%d files: %s", r.Count, strings.Join(r.First, ", "))
}

// And is both reports as one.
func (r Report) And(other Report) Report {
	first := append(append([]string{}, r.First...), other.First...)
	return Report{r.Count + other.Count, first[:min(len(first), shown)]}
}

func (r *Report) add(path string, err error) {
	r.Count++
	if len(r.First) < shown {
		r.First = append(r.First, fmt.Sprintf("%s: %v", path, err))
	}
}

// theirs says that an error can be the doing of the files' owner. All others are the disk's, or the host's.
func theirs(err error) bool {
	var errno unix.Errno
	var ours hard
	switch {
	case errors.As(err, &ours):
		return false
	case errors.Is(err, errLost) || errors.Is(err, errAttribute) || errors.Is(err, errDeep):
		return true
	}
	if !errors.As(err, &errno) {
		return false
	}
	switch errno {
	case unix.ENOENT, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.EXDEV, unix.EACCES, unix.EPERM, unix.EAGAIN, unix.ETXTBSY,
		unix.EBUSY, unix.EEXIST, unix.ENXIO, unix.ENODEV, unix.EOPNOTSUPP, unix.EOVERFLOW, unix.EMLINK, unix.ENAMETOOLONG,
		unix.E2BIG, unix.ERANGE, unix.ENODATA, unix.EFBIG, unix.ENOTEMPTY, unix.EINVAL:
		return true
	}
	return false
}

// Size is what a tree takes on disk, in bytes; 0 where there is none. A file with several names counts once: each of them
// counts for its share. Files that go meanwhile are not counted.
func Size(ctx context.Context, dir string) (int64, Report, error) {
	var sum int64
	var stat unix.Stat_t
	share := func() {
		links := max(int64(stat.Nlink), 1)
		if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
			links = 1
		}
		sum += (stat.Blocks*512 + links - 1) / links
	}
	w := newWalk(ctx, func(l *level, name string, kind uint8) (verdict, error) {
		if kind == unix.DT_DIR {
			return below, nil
		}
		if err := unix.Fstatat(l.fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return past, err
		}
		if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
			return below, nil // counted when it is opened, as what it is then
		}
		share()
		return past, nil
	})
	w.enter = func(_, l *level) error {
		if err := unix.Fstat(l.fd, &stat); err != nil {
			return err
		}
		share()
		return nil
	}
	err := w.run(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, Report{}, nil
	}
	return sum, w.report, named("measure", dir, err)
}

func named(what, dir string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, dir, err)
}

// quoted is a path as it may be printed, cut in the middle: all that fits, from the top, and the last name.
func quoted(levels []level, name string) string {
	const most = 80
	var path strings.Builder
	for _, l := range levels[1:] {
		if path.Len()+len(l.name) > most {
			path.WriteString("…/")
			break
		}
		path.WriteString(l.name + "/")
	}
	if len(name) > most {
		name = name[:most] + "…"
	}
	return strconv.Quote(path.String() + name)
}
