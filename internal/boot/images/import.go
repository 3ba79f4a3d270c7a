package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"muster/internal/kit/files"
	"muster/internal/kit/wrap"
)

// Import copies an image into the store and makes it the latest of its name. The source is an image folder (its digest
// is checked: ErrCorrupt), a bare squashfs, or a root tarball, plain or packed by gzip, zstd or xz, which is turned into a
// squashfs. An empty name keeps the manifest's own. The image appears in one step, when it is complete and on the disk;
// importing what is there already is fine: it renews the manifest, and mends damage.
func (s *Store) Import(ctx context.Context, source, name string) (Image, error) {
	i, err := s.doImport(ctx, source, name)
	return i, wrap.Errorf(err, "import image %s", source)
}

func (s *Store) doImport(ctx context.Context, source, name string) (Image, error) {
	if name != "" {
		if err := checkName(name); err != nil {
			return Image{}, err
		}
	}
	scratch, done, err := s.scratch()
	if err != nil {
		return Image{}, err
	}
	defer done()
	image := filepath.Join(scratch, "image")
	if err := os.Mkdir(image, 0o755); err != nil {
		return Image{}, err
	}

	m, err := fetch(ctx, source, image)
	if err != nil {
		return Image{}, err
	}
	if name != "" {
		m.Name = name
	}
	if m.Name == "" {
		return Image{}, fmt.Errorf("%w: the source has no manifest, so a name must be given", ErrName)
	}
	if err := errors.Join(m.write(image), files.Sync(image)); err != nil {
		return Image{}, err
	}
	return s.publish(ctx, image, m)
}

// fetch fills the folder image with the squashfs of source, and returns what is known of it.
func fetch(ctx context.Context, source, image string) (Manifest, error) {
	target := filepath.Join(image, SquashfsFile)
	info, err := os.Stat(source)
	if err != nil {
		return Manifest{}, err
	}
	if info.IsDir() {
		m, err := ReadManifest(source)
		if err != nil {
			return m, err
		}
		root := File{File: SquashfsFile, Digest: m.Digest, Size: m.Size}
		for _, f := range append([]*File{&root}, m.bootFiles()...) {
			digest, size, err := copySynced(ctx, filepath.Join(source, f.File), filepath.Join(image, f.File))
			if err != nil {
				return m, err
			}
			if err := f.matches(digest, size); err != nil {
				return m, err
			}
		}
		return m, nil
	}

	kind, err := kindOf(source)
	if err != nil {
		return Manifest{}, err
	}
	if kind == "squashfs" {
		_, _, err = copySynced(ctx, source, target)
	} else {
		err = tarToSquashfs(ctx, source, kind, target)
	}
	if err != nil {
		return Manifest{}, err
	}
	m, err := describe(ctx, target)
	if err != nil {
		return m, err
	}
	m.Carries = []string{} // unless it has a kernel
	err = kernelOf(ctx, target, image, &m)
	return m, err
}

// kernelOf takes the kernel and its modules out of a squashfs, if it has them, and sees which drivers are among them.
func kernelOf(ctx context.Context, squashfs, image string, m *Manifest) error {
	var listed bytes.Buffer
	if err := (command{args: []string{"unsquashfs", "-l", squashfs, "boot"}, stdout: &listed}).run(ctx); err != nil {
		return err
	}
	if !strings.Contains(listed.String(), "squashfs-root/boot/vmlinuz-") {
		return nil
	}
	root := filepath.Join(filepath.Dir(image), "root")
	unpack := command{args: []string{
		"unsquashfs", "-no-progress", "-quiet", "-no-xattrs", "-dest", root, squashfs,
		"boot", "lib/modules", "usr/lib/modules", "lib/firmware", "usr/lib/firmware",
	}}
	if err := unpack.run(ctx); err != nil {
		return err
	}
	var err1, err2 error
	m.Carries, err1 = carried(root)
	m.Kernel, m.Drivers, err2 = takeKernel(ctx, root, image)
	return errors.Join(err2, err1)
}

// kindOf tells files by their content, as names lie: "squashfs", "tar", or the program that unpacks to a tar.
func kindOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", err
	}
	head = head[:n]
	for _, k := range []struct {
		kind, magic string
		offset      int
	}{
		{"squashfs", squashfsMagic, 0},
		{"tar", "ustar", 257},
		{"gzip", "\x1f\x8b", 0},
		{"zstd", "\x28\xb5\x2f\xfd", 0},
		{"xz", "\xfd7zXZ\x00", 0},
	} {
		if len(head) > k.offset && bytes.HasPrefix(head[k.offset:], []byte(k.magic)) {
			return k.kind, nil
		}
	}
	return "", fmt.Errorf("neither an image folder nor a squashfs nor a root tarball (tar, gzip, zstd, xz)")
}

// tarToSquashfs needs no root and unpacks nothing onto the disk, so nothing in the tarball can escape.
func tarToSquashfs(ctx context.Context, source, kind, target string) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	pack := command{
		// Without a level: sqfstar 4.5 doesn't accept one where it documents it.
		args:  []string{"sqfstar", "-quiet", "-no-progress", "-comp", "zstd", target},
		stdin: untilDone{ctx, f},
		env:   []string{"SOURCE_DATE_EPOCH=" + fmt.Sprint(tarballEpoch().Unix())},
	}
	if kind == "tar" {
		err = pack.run(ctx)
	} else {
		err = unpackInto(ctx, kind, f, pack)
	}
	if err != nil {
		return err
	}
	return files.Sync(target)
}

// tarballEpoch dates the squashfs made of a tarball, so that the same tarball always gives the same digest.
func tarballEpoch() time.Time { return time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC) }

func unpackInto(ctx context.Context, program string, packed io.Reader, pack command) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	unpacked := make(chan error, 1)
	go func() {
		defer w.Close()
		err := command{args: []string{program, "-dc"}, stdin: packed, stdout: w}.run(ctx)
		if err != nil {
			cancel(err) // what was packed so far must not pass for the whole
		}
		unpacked <- err
	}()
	pack.stdin = r
	packErr := pack.run(ctx)
	r.Close()
	if err := <-unpacked; err != nil && (packErr == nil || context.Cause(ctx) == err) {
		return err
	}
	return packErr
}

// publish moves the finished folder to its place in the store.
func (s *Store) publish(ctx context.Context, image string, m Manifest) (Image, error) {
	final := filepath.Join(s.dir, m.Name, digestHex(m.Digest))
	sound := false // hashed before the lock is taken: a damaged copy is rare, and replaced below
	if old, err := ReadManifest(final); err == nil && verify(ctx, final, old) == nil {
		sound = true
		m = m.over(old)
		if err := m.write(image); err != nil {
			return Image{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return Image{}, context.Cause(ctx)
	}
	unlock, err := s.lock()
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return Image{}, err
	}
	switch {
	case !exists(final):
		err = os.Rename(image, final)
	case sound:
		err = renew(image, final)
	default: // damaged, or another import has brought it since we looked: there is one of the two at any moment
		err = unix.Renameat2(unix.AT_FDCWD, image, unix.AT_FDCWD, final, unix.RENAME_EXCHANGE)
	}
	if err != nil {
		return Image{}, err
	}
	now := time.Now()
	err = errors.Join(os.Chtimes(final, now, now), s.setLatest(m.Name, m.Digest), files.Sync(filepath.Dir(final)))
	if err != nil {
		return Image{}, err
	}
	if m, err = ReadManifest(final); err != nil {
		return Image{}, err
	}
	return Image{Manifest: m, Dir: final, Latest: true, Added: now}, nil
}

// over is the manifest of an image that is imported again: what the new one doesn't know stays as it was.
func (m Manifest) over(old Manifest) Manifest {
	if len(m.Checks)+len(m.Programs) == 0 {
		kernel, drivers := m.Kernel, m.Drivers
		m = old
		if kernel != nil {
			m.Kernel, m.Drivers = kernel, drivers
		}
	}
	if m.Kernel == nil {
		m.Kernel, m.Drivers = old.Kernel, old.Drivers
	}
	return m
}

// renew replaces what stands beside a root filesystem, the manifest last.
func renew(image, final string) error {
	for _, name := range []string{KernelFile, DriversFile, ManifestFile} {
		err := os.Rename(filepath.Join(image, name), filepath.Join(final, name))
		if err != nil && (name == ManifestFile || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

func copySynced(ctx context.Context, from, to string) (digest string, size int64, err error) {
	in, err := os.Open(from)
	if err != nil {
		return "", 0, err
	}
	defer in.Close()
	return writeHashed(ctx, in, to)
}

func writeHashed(ctx context.Context, from io.Reader, to string) (digest string, size int64, err error) {
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return "", 0, err
	}
	digest, size, err = hash(ctx, out, from)
	return digest, size, errors.Join(err, out.Sync(), out.Close())
}
