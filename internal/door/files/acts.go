package files

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pkg/sftp"
)

// Entry is something in a directory.
type Entry struct {
	Name      string
	Mode      fs.FileMode
	Size      int64
	Modified  time.Time
	Directory bool // it is one, or a link to one
}

// Listing is what a directory holds: directories first, each by name.
type Listing struct {
	Path    string // of the directory, absolute and without links
	Entries []Entry
	Omitted int // further ones: too many, or their names are no UTF-8
}

// mostPath is how many bytes a path may have, and mostName a name (Linux: PATH_MAX, NAME_MAX).
const (
	mostPath = 4096
	mostName = 255
)

// mostLinks is how many links of a directory are followed, for linksFor at most. Further ones are taken for links to files.
const (
	mostLinks = 500
	linksFor  = 5 * time.Second
)

// List lists a directory; "": the account's own.
func (s *Session) List(ctx context.Context, directory string) (Listing, error) {
	defer s.awaited().Stop()
	var all Listing
	at, err := s.sftp.RealPath(cmp.Or(directory, "."))
	if err != nil {
		return all, s.told(err, "its path cannot be found out")
	}
	if !path.IsAbs(at) || len(at) > mostPath || !utf8.ValidString(at) {
		return all, &Refusal{"its path cannot be shown here"}
	}
	info, err := s.look(s.sftp.Stat, at)
	if err != nil {
		return all, s.told(err, "it cannot be looked at")
	}
	if !info.IsDir() {
		return all, &Refusal{"it is no directory"}
	}
	leave, over := s.lists() // now: a head that does not answer at all takes no part of it
	if over != nil {
		return all, over
	}
	defer leave()
	s.heard.left.Store(s.limits.Listing)
	found, err := s.sftp.ReadDirContext(ctx, at)
	if err != nil {
		return all, s.told(err, "it cannot be listed")
	}
	all.Path = at
	links, until := 0, time.Now().Add(linksFor)
	for _, one := range found {
		e := Entry{Name: one.Name(), Mode: one.Mode(), Size: max(one.Size(), 0), Modified: one.ModTime(), Directory: one.IsDir()}
		if !named(e.Name) {
			all.Omitted++
			continue
		}
		if e.Mode.Type() == fs.ModeSymlink && links < mostLinks && ctx.Err() == nil && time.Now().Before(until) {
			links++
			if to, err := s.look(s.sftp.Stat, path.Join(at, e.Name)); err == nil {
				e.Directory, e.Size = to.IsDir(), max(to.Size(), 0)
			}
		}
		all.Entries = append(all.Entries, e)
	}
	slices.SortFunc(all.Entries, func(a, b Entry) int {
		switch {
		case a.Directory == b.Directory:
			return strings.Compare(a.Name, b.Name)
		case a.Directory:
			return -1
		}
		return 1
	})
	all.Entries = slices.CompactFunc(all.Entries, func(a, b Entry) bool { return a.Name == b.Name }) // a head may say anything
	if more := len(all.Entries) - s.limits.Entries; more > 0 {
		all.Entries, all.Omitted = all.Entries[:s.limits.Entries], all.Omitted+more
	}
	return all, nil
}

// named says whether an entry has a name by which it can be asked for.
func named(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= mostName && utf8.ValidString(name) &&
		!strings.ContainsAny(name, "/\x00")
}

// Content is that of a file. It is read a piece after the other, or from anywhere.
type Content struct {
	*io.SectionReader
	Modified time.Time

	file *sftp.File
}

// Read opens a file. Who calls closes it.
func (s *Session) Read(file string) (*Content, error) {
	defer s.awaited().Stop()
	info, err := s.look(s.sftp.Stat, file) // before it is opened: a pipe would wait for who writes
	if err != nil {
		return nil, s.told(err, "it cannot be looked at")
	}
	if !info.Mode().IsRegular() {
		return nil, &Refusal{"it is no file"}
	}
	opened, err := s.open(file, os.O_RDONLY)
	if err != nil {
		return nil, s.told(err, "it cannot be read")
	}
	size := max(info.Size(), 0)
	read := &pieces{session: s, file: opened, buffer: make([]byte, min(size, depth*packet))}
	return &Content{SectionReader: io.NewSectionReader(read, 0, size), Modified: info.ModTime(), file: opened}, nil
}

// Close is io.Closer's.
func (c *Content) Close() error { return c.file.Close() }

// packet is how many bytes a request of SFTP carries (every server takes as many).
const packet = 32 << 10

// pieces reads a file in pieces that are large enough for many requests of SFTP at once.
type pieces struct {
	session *Session
	file    *sftp.File
	start   int64  // of the file's bytes that piece holds
	piece   []byte // what was read last
	buffer  []byte
}

// ReadAt is io.ReaderAt's.
func (p *pieces) ReadAt(into []byte, at int64) (total int, err error) {
	for total < len(into) {
		if at < p.start || at >= p.start+int64(len(p.piece)) {
			late := p.session.awaited()
			n, err := p.file.ReadAt(p.buffer, at)
			late.Stop()
			if n == 0 {
				return total, cmp.Or(err, io.ErrNoProgress)
			}
			p.start, p.piece = at, p.buffer[:n]
		}
		n := copy(into[total:], p.piece[at-p.start:])
		total, at = total+n, at+int64(n)
	}
	return total, nil
}

// ErrUnfinished says that what was to be written has not come whole.
var ErrUnfinished = errors.New("it has not come whole")

// Write makes a file of what comes, whole or not at all: until it is whole, it is beside, with the ending .part. With replace it
// takes the place of one that is there, and has its mode. An error may also be ErrUnfinished.
func (s *Session) Write(ctx context.Context, file string, replace bool, from io.Reader) error {
	late := s.awaited()
	defer late.Stop()
	old, err := s.look(s.sftp.Lstat, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return s.told(err, "it cannot be looked at")
	case !replace:
		return fs.ErrExist
	case !old.Mode().IsRegular():
		return &Refusal{"what is there is a link, or no file"}
	}
	part := partOf(file)
	to, err := s.open(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return s.told(err, "it cannot be made here")
	}
	body := &body{ctx: ctx, from: from, late: late, patience: s.limits.Patience}
	if old != nil {
		err = to.Chmod(old.Mode().Perm())
	}
	if err == nil {
		_, err = to.ReadFromWithConcurrency(body, depth)
	}
	late.Reset(flushing)
	err = s.told(cmp.Or(err, to.Close()), "it cannot be written: is there room? `df` in a terminal says")
	if body.err != nil {
		err = ErrUnfinished
	}
	late.Reset(s.limits.Patience)
	if err == nil {
		err = s.told(s.settle(part, file, old != nil), "it cannot be put in its place")
	}
	if err != nil {
		_ = s.sftp.Remove(part) // if it is not cut
	}
	return err
}

// flushing is how long a file may take to be closed: on NFS, until all of it is at the server.
const flushing = 10 * time.Minute

// settle puts a file in its place.
func (s *Session) settle(part, file string, replaces bool) error {
	if replaces {
		return s.sftp.PosixRename(part, file)
	}
	return s.rename(part, file)
}

// partOf is a new name for a file that is not whole, beside it.
func partOf(file string) string {
	directory, name := path.Split(file)
	ending := "." + rand.Text()[:8] + ".part"
	return directory + strings.ToValidUTF8(name[:min(len(name), mostName-len(ending))], "") + ending
}

// body is what is written, until a context ends. A head is not waited for while it is.
type body struct {
	ctx      context.Context
	from     io.Reader
	late     *time.Timer
	patience time.Duration
	err      error // why there is no more of it, if it is not whole
}

func (b *body) Read(into []byte) (n int, err error) {
	b.late.Stop()
	if err = context.Cause(b.ctx); err == nil {
		n, err = b.from.Read(into)
	}
	b.late.Reset(b.patience)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// Move gives something another path, where nothing is.
func (s *Session) Move(from, to string) error {
	defer s.awaited().Stop()
	if _, err := s.look(s.sftp.Lstat, from); err != nil {
		return &fs.PathError{Op: "move", Path: from, Err: s.told(err, "it cannot be looked at")} // not of the other
	}
	return s.told(s.rename(from, to), "it cannot be moved there")
}

// rename is SFTP's, which replaces nothing.
func (s *Session) rename(from, to string) error {
	if _, err := s.look(s.sftp.Lstat, to); err == nil {
		return fs.ErrExist
	}
	return s.sftp.Rename(from, to)
}

// MakeDirectory makes a directory, in one that is there.
func (s *Session) MakeDirectory(directory string) error {
	defer s.awaited().Stop()
	if _, err := s.look(s.sftp.Lstat, directory); err == nil {
		return fs.ErrExist
	}
	return s.told(s.sftp.Mkdir(directory), "it cannot be made here")
}

// Remove deletes a file, a link, or a directory in which nothing is.
func (s *Session) Remove(file string) error {
	defer s.awaited().Stop()
	info, err := s.look(s.sftp.Lstat, file)
	if err != nil {
		return s.told(err, "it cannot be looked at")
	}
	if info.IsDir() {
		return s.told(s.sftp.RemoveDirectory(file), "it cannot be deleted: is something in it? `rm -r` in a terminal deletes both")
	}
	return s.told(s.sftp.Remove(file), "it cannot be deleted")
}
