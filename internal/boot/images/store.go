package images

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
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/lists"
	"muster/internal/kit/locks"
	"muster/internal/kit/wrap"
)

// Store keeps images in a folder, by name and digest:
//
//	NAME/HEX/root.squashfs  NAME/HEX/manifest.json  NAME/latest → HEX
//	NAME/HEX/vmlinuz  NAME/HEX/drivers.cpio.zst     if it has a kernel
//
// A root filesystem never changes once it is there. Any number of processes may share a store.
type Store struct{ dir string }

// Image is one image of a store.
type Image struct {
	Manifest
	Dir    string    // its folder
	Latest bool      // it is what its bare name means
	Added  time.Time // when it was imported
}

// Squashfs is the path of the image's root filesystem.
func (i Image) Squashfs() string { return filepath.Join(i.Dir, SquashfsFile) }

// Ref names the image for good, "NAME@sha256:HEX".
func (i Image) Ref() string { return i.Name + "@" + i.Digest }

const latestLink = "latest"

// Open makes the folder if it isn't there, and removes what imports that died left in it.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open image store: %w", err)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open image store: %w", err)
	}
	s := &Store{dir: dir}
	unlock, err := s.lock()
	if err != nil {
		return nil, fmt.Errorf("open image store: %w", err)
	}
	defer unlock()
	if err := s.sweep(); err != nil {
		return nil, fmt.Errorf("open image store: %w", err)
	}
	return s, nil
}

// Find is the image of a digest.
func (s *Store) Find(digest string) (Image, error) {
	all, err := s.List()
	for _, image := range all {
		if image.Digest == digest {
			return image, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("image %s is not in the image store", digest)
	}
	return Image{}, err
}

// List returns all images, by name, the newest import first. A folder that holds no readable manifest is an error
// beside the list, which has the rest.
func (s *Store) List() ([]Image, error) {
	names, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	var all []Image
	var damaged []error
	for _, n := range names {
		if !n.IsDir() || checkName(n.Name()) != nil {
			continue
		}
		some, err := s.versions(n.Name())
		all, damaged = append(all, some...), append(damaged, err)
	}
	return all, errors.Join(damaged...)
}

func (s *Store) versions(name string) ([]Image, error) {
	base := filepath.Join(s.dir, name)
	entries, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	latest, _ := os.Readlink(filepath.Join(base, latestLink))
	var all []Image
	var damaged []error
	for _, e := range entries {
		if !e.IsDir() || !digestForm.MatchString("sha256:"+e.Name()) {
			continue
		}
		i := Image{Dir: filepath.Join(base, e.Name()), Latest: e.Name() == latest}
		if info, err := e.Info(); err == nil {
			i.Added = info.ModTime()
		}
		i.Manifest, err = ReadManifest(i.Dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !exists(i.Dir): // removed meanwhile
		case err != nil:
			damaged = append(damaged, err)
		case i.Name != name || digestHex(i.Digest) != e.Name():
			damaged = append(damaged, fmt.Errorf("%s: %w: its manifest is of %s", i.Dir, ErrCorrupt, i.Ref()))
		default:
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b Image) int { return b.Added.Compare(a.Added) })
	return all, errors.Join(damaged...)
}

// Get finds an image by "NAME" (the latest), "NAME@DIGEST" or "sha256:HEX". The digest may be cut short where it stays
// unique, and lack its "sha256:" after a name. ErrNotFound, ErrAmbiguous.
func (s *Store) Get(ref string) (Image, error) {
	found, err := s.find(ref)
	switch {
	case err != nil:
		return Image{}, err
	case len(found) == 1:
		return found[0], nil
	case strings.ContainsAny(ref, "@:"):
		return Image{}, fmt.Errorf("image %s: %w: %s", ref, ErrAmbiguous, refs(found))
	}
	if latest, linked := lists.Find(found, func(i Image) bool { return i.Latest }); linked {
		return latest, nil
	}
	return found[0], nil // the link was lost: the newest
}

// find returns all that ref may mean, at least one; the same image under several names counts once.
func (s *Store) find(ref string) ([]Image, error) {
	name, digest, _ := strings.Cut(ref, "@")
	if strings.HasPrefix(ref, "sha256:") {
		name, digest = "", ref
	} else if err := checkName(name); err != nil {
		return nil, fmt.Errorf("image %q: %w", ref, err)
	}
	var all []Image
	var err error
	if name == "" {
		all, err = s.List()
	} else {
		all, err = s.versions(name)
	}
	all = slices.DeleteFunc(all, func(i Image) bool { return !strings.HasPrefix(digestHex(i.Digest), digestHex(digest)) })
	if name == "" {
		slices.SortStableFunc(all, func(a, b Image) int { return strings.Compare(a.Digest, b.Digest) })
		all = slices.CompactFunc(all, func(a, b Image) bool { return a.Digest == b.Digest })
	}
	if len(all) == 0 {
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", ref, err)
		}
		return nil, fmt.Errorf("image %s: %w", ref, ErrNotFound)
	}
	return all, nil
}

func refs(all []Image) string {
	names := lists.Map(all, func(i Image) string { return i.Ref() })
	return strings.Join(names, ", ")
}

// Verify hashes the image again. ErrCorrupt says that it is not what its digest says.
func (s *Store) Verify(ctx context.Context, ref string) error {
	i, err := s.Get(ref)
	if err != nil {
		return err
	}
	return wrap.Errorf(verify(ctx, i.Dir, i.Manifest), "verify image %s", i.Ref())
}

// verify hashes all files that the manifest names.
func verify(ctx context.Context, dir string, m Manifest) error {
	root := File{File: SquashfsFile, Digest: m.Digest, Size: m.Size}
	for _, f := range append([]*File{&root}, m.bootFiles()...) {
		digest, size, err := hashFile(ctx, filepath.Join(dir, f.File))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		if err != nil {
			return err
		}
		if err := f.matches(digest, size); err != nil {
			return err
		}
	}
	return nil
}

func (f File) matches(digest string, size int64) error {
	if digest != f.Digest || size != f.Size {
		return fmt.Errorf("%w: the manifest says that %s is %s, %d bytes; it is %s, %d bytes", ErrCorrupt, f.File, f.Digest,
			f.Size, digest, size)
	}
	return nil
}

// Blob opens a root filesystem, a kernel or a driver archive by its digest. os.ErrNotExist.
func (s *Store) Blob(digest string) (io.ReadSeekCloser, error) {
	path, err := s.blob(digest)
	if err != nil {
		return nil, fmt.Errorf("blob %q: %w", digest, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", digest, err)
	}
	return f, nil
}

func (s *Store) blob(digest string) (path string, err error) {
	if !digestForm.MatchString(digest) {
		return "", os.ErrNotExist
	}
	// Root filesystems, which are asked for most, need no look into manifests.
	if found, _ := filepath.Glob(filepath.Join(s.dir, "*", digestHex(digest), SquashfsFile)); len(found) > 0 {
		return found[0], nil
	}
	all, err := s.List()
	for _, i := range all {
		for _, f := range i.bootFiles() {
			if f.Digest == digest {
				return filepath.Join(i.Dir, f.File), nil
			}
		}
	}
	return "", errors.Join(os.ErrNotExist, err)
}

// Remove deletes one image. A bare name is enough while the name has one image only; ErrAmbiguous otherwise. When the
// latest goes, the newest import that is left becomes it. Nodes that run from the image keep it until they end.
func (s *Store) Remove(ref string) error {
	unlock, err := s.lock()
	if err != nil {
		return fmt.Errorf("remove image %s: %w", ref, err)
	}
	defer unlock()
	found, err := s.find(ref)
	if err != nil {
		return err
	}
	if len(found) > 1 {
		return fmt.Errorf("remove image %s: %w: %s", ref, ErrAmbiguous, refs(found))
	}
	i := found[0]
	if err := s.discard(i.Dir); err != nil {
		return fmt.Errorf("remove image %s: %w", ref, err)
	}
	left, err := s.versions(i.Name)
	if len(left) > 0 {
		if i.Latest {
			err = errors.Join(err, s.setLatest(i.Name, left[0].Digest))
		}
	} else if err == nil {
		err = os.RemoveAll(filepath.Join(s.dir, i.Name))
	}
	return wrap.Errorf(err, "remove image %s", ref)
}

// discard takes a folder out of sight in one step, then deletes it. The store is locked.
func (s *Store) discard(dir string) error {
	trash, err := os.MkdirTemp(s.dir, scratchPrefix+"*")
	if err != nil {
		return err
	}
	return errors.Join(os.Rename(dir, filepath.Join(trash, "old")), os.RemoveAll(trash))
}

func (s *Store) setLatest(name, digest string) error {
	link := filepath.Join(s.dir, name, latestLink)
	if err := os.Remove(link + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(digestHex(digest), link+".new"); err != nil {
		return err
	}
	return os.Rename(link+".new", link)
}

// lock keeps other users of the store, in this process and in others, from changing names at the same time. It is held
// for moments only, never while data is copied or hashed.
func (s *Store) lock() (unlock func(), err error) {
	return locks.Wait(context.Background(), filepath.Join(s.dir, ".lock"))
}

const scratchPrefix = ".scratch-"

// scratch makes a folder for an import in progress. A lock on it, which ends with this process, keeps sweep away.
func (s *Store) scratch() (dir string, done func(), err error) {
	unlock, err := s.lock()
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	dir, err = os.MkdirTemp(s.dir, scratchPrefix+"*")
	if err != nil {
		return "", nil, err
	}
	f, err := os.Open(dir)
	if err == nil {
		_, err = locks.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() { os.RemoveAll(dir); f.Close() }, nil
}

// sweep deletes scratch folders whose import has ended. The store is locked.
func (s *Store) sweep() error {
	left, err := filepath.Glob(filepath.Join(s.dir, scratchPrefix+"*"))
	if err != nil {
		return err
	}
	var failed []error
	for _, dir := range left {
		f, err := os.Open(dir)
		if err != nil {
			continue // gone meanwhile
		}
		if left, err := locks.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); left && err == nil {
			failed = append(failed, os.RemoveAll(dir))
		}
		f.Close()
	}
	return errors.Join(failed...)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
