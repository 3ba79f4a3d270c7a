package images

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"
	"github.com/u-root/u-root/pkg/cpio"
)

const (
	kernelVersion = "6.1.0-test"
	modulesDep    = "kernel/fs/squashfs.ko:\nkernel/fs/overlay.ko:\nkernel/loop.ko:\nkernel/net/e1000.ko: kernel/net/lib.ko\n" +
		"kernel/net/lib.ko:\nkernel/net/bnx2.ko:\nkernel/sound/snd.ko:\n"
)

// module is the least that is an ELF file with firmware in its .modinfo.
func module(firmware ...string) []byte {
	var info []byte
	for _, f := range firmware {
		info = append(info, "license=GPL\x00firmware="+f+"\x00"...)
	}
	names := []byte("\x00.modinfo\x00.shstrtab\x00")
	put := func(values ...any) []byte {
		var b bytes.Buffer
		for _, v := range values {
			_ = binary.Write(&b, binary.LittleEndian, v)
		}
		return b.Bytes()
	}
	infoAt, namesAt := uint64(64), uint64(64+len(info))
	section := func(name, kind uint32, at, size uint64) []byte {
		return put(name, kind, uint64(0), uint64(0), at, size, uint32(0), uint32(0), uint64(1), uint64(0))
	}
	return slices.Concat(
		put([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"), uint16(1), uint16(62), uint32(1), uint64(0),
			uint64(0),
			namesAt+uint64(len(names)), uint32(0), uint16(64), uint16(0), uint16(0), uint16(64), uint16(3), uint16(2)),
		info, names, make([]byte, 64), section(1, 1, infoAt, uint64(len(info))), section(10, 3, namesAt, uint64(len(names))))
}

// kernelFiles is what a kernel's package puts into a root.
func kernelFiles() map[string][]byte {
	files := map[string][]byte{
		"boot/vmlinuz-" + kernelVersion:    []byte("the kernel"),
		"boot/initrd.img-" + kernelVersion: []byte("not ours"),
	}
	at := "usr/lib/modules/" + kernelVersion + "/"
	files[at+"modules.dep"] = []byte(modulesDep)
	files[at+"modules.alias"] = []byte("alias pci:v1* e1000\nalias snd:* snd\n")
	files[at+"modules.symbols"] = []byte("not read")
	for _, line := range strings.Split(strings.TrimSpace(modulesDep), "\n") {
		name, _, _ := strings.Cut(line, ":")
		files[at+name] = module()
	}
	files[at+"kernel/net/e1000.ko"] = module("intel/a.bin", "intel/none.bin", "../../../etc/shadow")
	files[at+"kernel/net/bnx2.ko"] = module("bnx2/none.fw")
	files["usr/lib/firmware/intel/a.bin"] = []byte("firmware")
	return files
}

func lay(t *testing.T, root string, files map[string][]byte) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, string(content))
	}
}

// unpacked lists an archive's files.
func unpacked(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unpacker, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer unpacker.Close()
	archive, err := io.ReadAll(unpacker)
	if err != nil {
		t.Fatal(err)
	}
	return filesOf(t, archive)
}

// filesOf lists those of an archive that is not packed.
func filesOf(t *testing.T, archive []byte) []string {
	t.Helper()
	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(archive)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range records {
		if r.Mode&cpio.S_IFMT == cpio.S_IFREG {
			names = append(names, strings.TrimPrefix(r.Name, "lib/modules/"+kernelVersion+"/"))
		}
	}
	return names
}

var firstStageFiles = []string{
	"lib/firmware/intel/a.bin", "kernel/fs/overlay.ko", "kernel/fs/squashfs.ko", "kernel/loop.ko", "kernel/net/e1000.ko",
	"kernel/net/lib.ko", "modules.alias", "modules.builtin", "modules.dep", "modules.softdep",
}

// tinyKernelBuild prepares a build of a recipe with a kernel.
func tinyKernelBuild(t *testing.T) *Recipe {
	t.Helper()
	requireProgram(t, "zstd")
	tree, script := t.TempDir(), filepath.Join(t.TempDir(), "after")
	lay(t, tree, kernelFiles())
	write(t, script, "cp -R "+tree+"/. $last/\n")
	r := tinyBuild(t, ". "+script)
	r.Kernel = "linux-image-$arch"
	return r
}

func TestAnImageWithAKernelHasWhatAMachineBoots(t *testing.T) {
	r := tinyKernelBuild(t)
	dir := t.TempDir()
	one, err := Builder{}.Build(t.Context(), r, filepath.Join(dir, "one"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := Builder{}.Build(t.Context(), r, filepath.Join(dir, "two"))
	if err != nil || one.Digest != two.Digest || *one.Kernel != *two.Kernel || *one.Drivers != *two.Drivers {
		t.Errorf("two builds: %+v, %+v (%v)", one.Drivers, two.Drivers, err)
	}
	if one.Kernel.Version != kernelVersion || one.Kernel.Size != int64(len("the kernel")) {
		t.Errorf("kernel %+v", one.Kernel)
	}
	if got := unpacked(t, filepath.Join(dir, "one", DriversFile)); !slices.Equal(got, firstStageFiles) {
		t.Errorf("drivers %q, want %q", got, firstStageFiles)
	}
	squashfs := filepath.Join(dir, "one", SquashfsFile)
	for path, there := range map[string]bool{
		"boot/vmlinuz-" + kernelVersion: false, "boot/initrd.img-" + kernelVersion: false,
		"usr/lib/modules/" + kernelVersion + "/modules.symbols":     false,
		"usr/lib/modules/" + kernelVersion + "/kernel/sound/snd.ko": true, // dpkg leaves it out, which the fake doesn't
	} {
		if got, err := extract(t.Context(), squashfs, path); err != nil || (len(got) > 0) != there {
			t.Errorf("%s has %d bytes in the root (%v)", path, len(got), err)
		}
	}
}

// TestFirmwareOfPackedModulesIsFound, whichever program has packed them; one that holds too much, or nothing that can be
// unpacked, is an error that names it.
func TestFirmwareOfPackedModulesIsFound(t *testing.T) {
	for ending, pack := range map[string][]string{".xz": {"xz", "-c"}, ".zst": {"zstd", "-cq"}, ".gz": {"gzip", "-c"}} {
		requireProgram(t, pack[0])
		packed := func(content []byte) []byte {
			c := exec.Command(pack[0], pack[1:]...)
			c.Stdin = bytes.NewReader(content)
			out, err := c.Output()
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		archive := func(e1000 []byte) ([]byte, error) {
			root, at := fstest.MapFS{}, "usr/lib/modules/"+kernelVersion+"/"
			for name, content := range kernelFiles() {
				switch {
				case strings.HasSuffix(name, "e1000.ko"):
					name, content = name+ending, e1000
				case strings.HasSuffix(name, ".ko"):
					name, content = name+ending, packed(content)
				case strings.HasSuffix(name, "modules.dep"):
					content = []byte(strings.ReplaceAll(modulesDep, ".ko", ".ko"+ending))
				}
				root[name] = &fstest.MapFile{Data: content}
			}
			modules, err := fs.Sub(root, strings.TrimSuffix(at, "/"))
			if err != nil {
				t.Fatal(err)
			}
			return driverArchive(t.Context(), modules, root, kernelVersion)
		}
		got, err := archive(packed(module("intel/a.bin")))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, name := range firstStageFiles {
			if strings.HasSuffix(name, ".ko") {
				name += ending
			}
			want = append(want, name)
		}
		if names := filesOf(t, got); !slices.Equal(names, want) {
			t.Errorf("%s: %q, want %q", ending, names, want)
		}
		for _, bad := range [][]byte{[]byte("not packed"), packed(make([]byte, mostModule+1))} {
			if _, err := archive(bad); err == nil || !strings.Contains(err.Error(), "module kernel/net/e1000.ko"+ending) {
				t.Errorf("%s: %v", ending, err)
			}
		}
	}
}

func TestAStoreGivesEachFileByItsDigestAndMissesDamage(t *testing.T) {
	r := tinyKernelBuild(t)
	folder := filepath.Join(t.TempDir(), "image")
	m, err := Builder{}.Build(t.Context(), r, folder)
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t)
	i := mustImport(t, s, folder, "")
	for digest, size := range map[string]int64{m.Digest: m.Size, m.Kernel.Digest: m.Kernel.Size,
		m.Drivers.Digest: m.Drivers.Size} {
		blob, err := s.Blob(digest)
		if err != nil {
			t.Error(err)
			continue
		}
		if n, err := io.Copy(io.Discard, blob); err != nil || n != size {
			t.Errorf("%s has %d bytes, want %d (%v)", digest, n, size, err)
		}
		blob.Close()
	}
	for _, digest := range []string{"", "sha256:..", "../../etc/passwd", "sha256:" + strings.Repeat("0", 64),
		digestHex(m.Digest)} {
		if _, err := s.Blob(digest); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Blob(%q): %v", digest, err)
		}
	}
	for _, name := range []string{KernelFile, DriversFile} {
		damage(t, filepath.Join(i.Dir, name))
		if err := s.Verify(t.Context(), "tiny"); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("Verify with %s damaged: %v", name, err)
		}
		mustImport(t, s, folder, "")
		if err := s.Verify(t.Context(), "tiny"); err != nil {
			t.Errorf("Verify after a new import: %v", err)
		}
		damage(t, filepath.Join(folder, name))
		if _, err := s.Import(t.Context(), folder, "other"); !errors.Is(err, ErrCorrupt) {
			t.Errorf("Import with %s damaged: %v", name, err)
		}
		damage(t, filepath.Join(folder, name)) // twice is as before
	}
}

// squash makes a squashfs of files.
func squash(t *testing.T, files map[string][]byte, links map[string]string) string {
	t.Helper()
	requireProgram(t, "mksquashfs")
	requireProgram(t, "zstd")
	root, out := t.TempDir(), filepath.Join(t.TempDir(), "root.squashfs")
	lay(t, root, files)
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := exec.Command("mksquashfs", root, out, "-noappend", "-quiet", "-no-progress").CombinedOutput(); err != nil {
		t.Fatalf("mksquashfs: %v\n%s", err, said)
	}
	return out
}

func TestABareRootWithAKernelIsImportedWithIt(t *testing.T) {
	i := mustImport(t, openStore(t), squash(t, kernelFiles(), map[string]string{"lib": "usr/lib"}), "foreign")
	if i.Kernel == nil || i.Kernel.Version != kernelVersion {
		t.Fatalf("kernel %+v", i.Kernel)
	}
	if got := unpacked(t, filepath.Join(i.Dir, DriversFile)); !slices.Equal(got, firstStageFiles) {
		t.Errorf("drivers %q, want %q", got, firstStageFiles)
	}
	if i := mustImport(t, openStore(t), squash(t, map[string][]byte{"etc/x": nil}, nil), "bare"); i.Kernel != nil ||
		i.Drivers != nil {
		t.Errorf("a root without a kernel has %+v", i.Kernel)
	}
}

func TestAnImportLearnsOfTheKernelAndKeepsIt(t *testing.T) {
	s := openStore(t)
	source := squash(t, kernelFiles(), nil)
	i := mustImport(t, s, source, "demo")
	old := i.Manifest
	old.Kernel, old.Drivers = nil, nil
	old.Checks = []Check{{Name: "works", Run: "true"}}
	// As if its kernel had not been found.
	for _, name := range []string{KernelFile, DriversFile} {
		if err := os.Remove(filepath.Join(i.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.write(i.Dir); err != nil {
		t.Fatal(err)
	}
	if i := mustImport(t, s, source, "demo"); i.Kernel == nil || len(i.Checks) != 1 {
		t.Errorf("after importing again: kernel %+v, checks %+v", i.Kernel, i.Checks)
	}
	folder := t.TempDir()
	if err := os.Link(i.Squashfs(), filepath.Join(folder, SquashfsFile)); err != nil {
		t.Fatal(err)
	}
	if err := old.write(folder); err != nil {
		t.Fatal(err)
	}
	if i := mustImport(t, s, folder, ""); i.Kernel == nil || s.Verify(t.Context(), "demo") != nil {
		t.Errorf("after importing a folder without it: kernel %+v, %v", i.Kernel, s.Verify(t.Context(), "demo"))
	}
}

func TestKernelsThatCannotBootAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		files, links map[string]string
		without      string
		want         string
	}{
		"two kernels":            {files: map[string]string{"boot/vmlinuz-7": "x"}, want: "more than one kernel"},
		"no list of its modules": {without: "modules.dep", want: "depmod"},
		"no module for its root": {files: map[string]string{"usr/lib/modules/" + kernelVersion + "/modules.dep": "a.ko:\n"},
			want: "squashfs"},
		"a kernel that is a link": {without: "vmlinuz",
			links: map[string]string{"boot/vmlinuz-" + kernelVersion: "/etc/hostname"}, want: "escapes"},
	} {
		t.Run(name, func(t *testing.T) {
			files := kernelFiles()
			for path := range files {
				if c.without != "" && strings.Contains(path, c.without) {
					delete(files, path)
				}
			}
			for path, text := range c.files {
				files[path] = []byte(text)
			}
			s := openStore(t)
			if i, err := s.Import(t.Context(), squash(t, files, c.links), "demo"); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v, %v, want an error about %s", i.Kernel, err, c.want)
			}
			wantEntries(t, s.dir, ".lock")
		})
	}
}

func TestManifestsWhoseFilesEscapeAreRefused(t *testing.T) {
	r := tinyKernelBuild(t)
	folder := filepath.Join(t.TempDir(), "image")
	if _, err := (Builder{}).Build(t.Context(), r, folder); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*Manifest){
		"path":    func(m *Manifest) { m.Kernel.File = "../../etc/passwd" },
		"digest":  func(m *Manifest) { m.Drivers.Digest = "sha256:.." },
		"drivers": func(m *Manifest) { m.Drivers = nil },
	} {
		m, err := ReadManifest(folder)
		if err != nil {
			t.Fatal(err)
		}
		edit(&m)
		other := t.TempDir()
		if err := m.write(other); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadManifest(other); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRecipesNameKernelsByPackage(t *testing.T) {
	text := strings.Replace(tinyRecipe, "setup:", "kernel: \"a; b\"\nsetup:", 1)
	if _, err := LoadRecipe(nil, fstest.MapFS{"tiny/recipe.yaml": {Data: []byte(text)}}, "tiny"); err == nil ||
		!strings.Contains(err.Error(), "kernel") {
		t.Errorf("got %v", err)
	}
}

func FuzzModule(f *testing.F) {
	f.Add(module("a/b.bin", "../c"))
	f.Add(module())
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, name := range firmwareOf(file) {
			if strings.HasPrefix(name, "/") || slices.Contains(strings.Split(name, "/"), "..") {
				t.Errorf("%q leaves the folder of firmware", name)
			}
		}
	})
}
