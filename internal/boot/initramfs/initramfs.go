// Package initramfs packs what a kernel unpacks before it starts its first process: cpio archives in "newc" form,
// compressed by zstd (see the kernel's Documentation/driver-api/early-userspace/buffer-format.rst).
//
// What enters: files, and the program cmd/muster-init, which `make build` puts into the folder built. What leaves:
// archives. A machine boots two, one behind the other: this program's own first stage and its image's drivers.
package initramfs

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/u-root/u-root/pkg/cpio"

	"muster/internal/kit/wrap"
)

// ErrNotBuilt says that there is no first stage in this program.
var ErrNotBuilt = errors.New("this muster was built without its first stage; use `make build`")

//go:embed built
var built embed.FS

// File is a regular file of an archive, or with fs.ModeCharDevice a character device.
type File struct {
	Name         string // without a leading slash; its folders are made
	Mode         fs.FileMode
	Content      []byte
	Major, Minor uint64
}

// Archive is the first stage that this program carries. It takes a tenth of a second to pack: keep the answer. ErrNotBuilt.
func Archive() ([]byte, error) {
	program, err := fs.ReadFile(built, "built/muster-init")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotBuilt
	}
	if err != nil {
		return nil, fmt.Errorf("first stage: %w", err)
	}
	return Pack(program)
}

// Pack makes an archive of the program that a kernel starts first. The same program gives the same bytes.
func Pack(program []byte) ([]byte, error) {
	var packed bytes.Buffer
	packer, err := zstd.NewWriter(&packed, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window))
	if err != nil {
		return nil, fmt.Errorf("first stage: %w", err)
	}
	files := []File{
		{Name: "init", Mode: 0o755, Content: program},
		// What a program's first descriptors are without a console.
		{Name: "dev/null", Mode: fs.ModeCharDevice | 0o666, Major: 1, Minor: 3},
		{Name: "dev/console", Mode: fs.ModeCharDevice | 0o600, Major: 5, Minor: 1},
	}
	if err := errors.Join(Write(packer, files), packer.Close()); err != nil {
		return nil, fmt.Errorf("first stage: %w", err)
	}
	// The kernel looks for the next archive on a multiple of 4.
	return append(packed.Bytes(), make([]byte, -packed.Len()&3)...), nil
}

// window is how far back the packed bytes refer: the kernel's unpacker allows 8 MiB.
const window = 8 << 20

// Write writes an archive, not compressed yet. The same files in any order give the same bytes: they are sorted, belong to
// root and have no time.
func Write(w io.Writer, files []File) error {
	records := cpio.Newc.Writer(w)
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	var number uint64 // of the inode; without one each file would be a link to the last
	write := func(r cpio.Record) error {
		number++
		r.Ino, r.NLink = number, 1
		return records.WriteRecord(r)
	}
	made := map[string]bool{".": true}
	for _, f := range files {
		if !fs.ValidPath(f.Name) || made[f.Name] {
			return fmt.Errorf("write archive: %q is there twice or not a path in the archive", f.Name)
		}
		for _, dir := range parents(f.Name) {
			if !made[dir] {
				made[dir] = true
				if err := write(cpio.Directory(dir, 0o755)); err != nil {
					return fmt.Errorf("write archive: %w", err)
				}
			}
		}
		made[f.Name] = true
		record := cpio.StaticRecord(f.Content, cpio.Info{Name: f.Name, Mode: cpio.S_IFREG | uint64(f.Mode.Perm())})
		if f.Mode&fs.ModeCharDevice != 0 {
			record = cpio.CharDev(f.Name, uint64(f.Mode.Perm()), f.Major, f.Minor)
		}
		if err := write(record); err != nil {
			return fmt.Errorf("write archive: %w", err)
		}
	}
	return wrap.Errorf(cpio.WriteTrailer(records), "write archive")
}

// parents lists the folders above a path, the outermost first.
func parents(name string) []string {
	var dirs []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}
