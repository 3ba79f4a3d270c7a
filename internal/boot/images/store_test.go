package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestImportedImageIsFoundByNameAndDigest(t *testing.T) {
	s := openStore(t)
	i := mustImport(t, s, imageFolder(t, "demo", "one"), "")
	for _, ref := range []string{
		"demo", i.Ref(), "demo@" + digestHex(i.Digest), "demo@" + digestHex(i.Digest)[:8], i.Digest, i.Digest[:15],
	} {
		got, err := s.Get(ref)
		if err != nil {
			t.Errorf("Get(%q): %v", ref, err)
		} else if got.Digest != i.Digest || !got.Latest || !exists(got.Squashfs()) {
			t.Errorf("Get(%q) = %+v", ref, got)
		}
	}
	if err := s.Verify(t.Context(), "demo"); err != nil {
		t.Error(err)
	}
}

func TestTheNewestImportIsTheLatest(t *testing.T) {
	s := openStore(t)
	one, two := imageFolder(t, "demo", "one"), imageFolder(t, "demo", "two")
	first, second := mustImport(t, s, one, ""), mustImport(t, s, two, "")
	if got, _ := s.Get("demo"); got.Digest != second.Digest {
		t.Errorf("after two imports the latest is %s, not the second", got.Digest)
	}
	mustImport(t, s, one, "")
	if got, _ := s.Get("demo"); got.Digest != first.Digest {
		t.Errorf("after importing the first again the latest is %s", got.Digest)
	}
	all, err := s.List()
	if err != nil || len(all) != 2 || all[0].Digest != first.Digest || !all[0].Latest || all[1].Latest {
		t.Errorf("List = %+v, %v", all, err)
	}
}

func TestRemoveTakesOneImageAndNamesTheNextLatest(t *testing.T) {
	s := openStore(t)
	first := mustImport(t, s, imageFolder(t, "demo", "one"), "")
	second := mustImport(t, s, imageFolder(t, "demo", "two"), "")
	if err := s.Remove("demo"); !errors.Is(err, ErrAmbiguous) {
		t.Fatalf("Remove of a name with two images: %v", err)
	}
	if err := s.Remove(second.Ref()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get("demo"); err != nil || got.Digest != first.Digest {
		t.Errorf("the latest is %s, %v", got.Digest, err)
	}
	if err := s.Remove("demo"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("demo"); !errors.Is(err, ErrNotFound) {
		t.Errorf("after the last image is gone: %v", err)
	}
	wantEntries(t, s.dir, ".lock")
}

func TestTheSameImageUnderTwoNamesIsOneByDigest(t *testing.T) {
	s := openStore(t)
	dir := imageFolder(t, "demo", "one")
	i := mustImport(t, s, dir, "")
	mustImport(t, s, dir, "other")
	if _, err := s.Get(i.Digest); err != nil {
		t.Error(err)
	}
	if err := s.Remove(i.Digest); err != nil {
		t.Error(err)
	}
}

func TestRefsThatAreNotNamesAreRefused(t *testing.T) {
	s := openStore(t)
	dir := imageFolder(t, "demo", "one")
	for _, name := range []string{"..", ".", "a/b", "../up", "/abs", "Upper", "a..b", "-a", ".hidden", "a b",
		strings.Repeat("a", 65)} {
		if _, err := s.Import(t.Context(), dir, name); !errors.Is(err, ErrName) {
			t.Errorf("Import as %q: %v", name, err)
		}
		if _, err := s.Get(name); !errors.Is(err, ErrName) {
			t.Errorf("Get(%q): %v", name, err)
		}
		if err := s.Remove(name); !errors.Is(err, ErrName) {
			t.Errorf("Remove(%q): %v", name, err)
		}
	}
	for _, ref := range []string{"", "@", "@sha256:"} {
		if _, err := s.Get(ref); !errors.Is(err, ErrName) {
			t.Errorf("Get(%q): %v", ref, err)
		}
	}
}

func TestManifestsThatEscapeAreRefused(t *testing.T) {
	s := openStore(t)
	for _, edit := range []func(*Manifest){
		func(m *Manifest) { m.Name = "../up" },
		func(m *Manifest) { m.Digest = "sha256:../../up" },
		func(m *Manifest) { m.Format = Format + 1 },
		func(m *Manifest) { m.Programs = []string{"true; rm -rf /"} },
		func(m *Manifest) { m.Checks = []Check{{Name: "a", Run: "true", Expect: "("}} },
	} {
		dir := imageFolder(t, "demo", "one")
		editManifest(t, dir, edit)
		if i, err := s.Import(t.Context(), dir, ""); err == nil {
			t.Errorf("imported %+v", i)
		}
	}
	wantEntries(t, s.dir, ".lock")
}

func TestImportRefusesAWrongDigest(t *testing.T) {
	s := openStore(t)
	dir := imageFolder(t, "demo", "one")
	editManifest(t, dir, func(m *Manifest) { m.Digest = "sha256:" + strings.Repeat("0", 64) })
	if _, err := s.Import(t.Context(), dir, ""); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Import: %v", err)
	}
	wantEntries(t, s.dir, ".lock")
}

func TestImportRefusesADamagedSquashfs(t *testing.T) {
	s := openStore(t)
	dir := imageFolder(t, "demo", "one")
	damage(t, filepath.Join(dir, SquashfsFile))
	if _, err := s.Import(t.Context(), dir, ""); !errors.Is(err, ErrCorrupt) {
		t.Errorf("folder: %v", err)
	}
	short := filepath.Join(t.TempDir(), "short")
	write(t, short, "hsqs")
	if _, err := s.Import(t.Context(), short, "short"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a squashfs that ends after its magic: %v", err)
	}
	wantEntries(t, s.dir, ".lock")
}

func TestVerifyFindsDamageAndImportMendsIt(t *testing.T) {
	s := openStore(t)
	dir := imageFolder(t, "demo", "one")
	i := mustImport(t, s, dir, "")
	damage(t, i.Squashfs())
	if err := s.Verify(t.Context(), "demo"); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("Verify of a damaged image: %v", err)
	}
	mustImport(t, s, dir, "")
	if err := s.Verify(t.Context(), "demo"); err != nil {
		t.Errorf("Verify after a new import: %v", err)
	}
}

func TestImportingAgainRenewsTheChecksButNeverLosesThem(t *testing.T) {
	s := openStore(t)
	dir := imageFolder(t, "demo", "one")
	mustImport(t, s, dir, "")
	editManifest(t, dir, func(m *Manifest) { m.Checks = []Check{{Name: "runs", Run: "true"}} })
	if i := mustImport(t, s, dir, ""); len(i.Checks) != 1 {
		t.Errorf("after importing with a check: %+v", i.Checks)
	}
	if i := mustImport(t, s, filepath.Join(dir, SquashfsFile), "demo"); len(i.Checks) != 1 {
		t.Errorf("after importing the bare squashfs: %+v", i.Checks)
	}
}

func TestADamagedManifestDoesNotHideTheOtherImages(t *testing.T) {
	s := openStore(t)
	bad := mustImport(t, s, imageFolder(t, "bad", "one"), "")
	mustImport(t, s, imageFolder(t, "good", "two"), "")
	write(t, filepath.Join(bad.Dir, ManifestFile), "{")
	all, err := s.List()
	if !errors.Is(err, ErrCorrupt) || len(all) != 1 || all[0].Name != "good" {
		t.Errorf("List = %+v, %v", all, err)
	}
	if _, err := s.Get("good"); err != nil {
		t.Error(err)
	}
}

func TestAnImportThatDiedIsSweptAwayAndALivingOneIsNot(t *testing.T) {
	s := openStore(t)
	dead := filepath.Join(s.dir, scratchPrefix+"dead")
	if err := os.MkdirAll(filepath.Join(dead, "image"), 0o755); err != nil {
		t.Fatal(err)
	}
	living, done, err := s.scratch()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.dir); err != nil {
		t.Fatal(err)
	}
	if exists(dead) {
		t.Error("the dead import's folder is still there")
	}
	if !exists(living) {
		t.Error("the living import's folder is gone")
	}
	done()
	wantEntries(t, s.dir, ".lock")
}

func TestACancelledImportLeavesNothing(t *testing.T) {
	s := openStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Import(ctx, imageFolder(t, "demo", "one"), ""); !errors.Is(err, context.Canceled) {
		t.Errorf("Import: %v", err)
	}
	wantEntries(t, s.dir, ".lock")
}

func TestConcurrentImportsAllSucceed(t *testing.T) {
	s := openStore(t)
	dirs := []string{imageFolder(t, "demo", "one"), imageFolder(t, "demo", "two"), imageFolder(t, "demo", "three")}
	var all sync.WaitGroup
	for n := range 24 {
		all.Go(func() {
			other, err := Open(s.dir) // as another process would
			if err == nil {
				_, err = other.Import(context.Background(), dirs[n%len(dirs)], "")
			}
			if err == nil {
				_, err = other.Get("demo")
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	found, err := s.List()
	if err != nil || len(found) != len(dirs) {
		t.Fatalf("List = %d images, %v", len(found), err)
	}
	for _, i := range found {
		if err := s.Verify(t.Context(), i.Ref()); err != nil {
			t.Error(err)
		}
	}
	wantEntries(t, s.dir, ".lock", "demo")
}

// What was wrong once: an image was taken away before its better copy came.
func TestAnImageIsNeverGoneWhileItIsReplaced(t *testing.T) {
	s := openStore(t)
	folder := imageFolder(t, "demo", "one")
	i, err := s.Import(t.Context(), folder, "")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			if _, err := s.Get("demo"); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	for range 50 {
		if err := os.WriteFile(i.Squashfs(), []byte("damaged"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Import(t.Context(), folder, ""); err != nil {
			t.Fatal(err)
		}
		if err := s.Verify(t.Context(), "demo"); err != nil {
			t.Fatal(err)
		}
	}
	close(over)
	reader.Wait()
	wantEntries(t, s.dir, ".lock", "demo")
}

func TestTarballsBecomeTheSameImageHoweverTheyArePacked(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "root.tar")
	write(t, plain, string(rootTar(t)))
	packed := plain + ".gz"
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(rootTar(t))
	z.Close()
	write(t, packed, zipped.String())
	sources := []string{plain, packed}
	for _, program := range []string{"zstd", "xz"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("%s is not installed: its tarballs are not tried", program)
			continue
		}
		out, err := exec.Command(program, "-c", plain).Output()
		if err != nil {
			t.Fatal(err)
		}
		write(t, plain+"."+program, string(out))
		sources = append(sources, plain+"."+program)
	}

	s := openStore(t)
	var first Image
	for n, source := range sources {
		i := mustImport(t, s, source, "fromtar")
		if n == 0 {
			first = i
		}
		if i.Digest != first.Digest {
			t.Errorf("%s: digest %s, want %s", filepath.Base(source), i.Digest, first.Digest)
		}
	}
	if first.Packages["tiny"] != "1.0-2" || len(first.Packages) != 1 {
		t.Errorf("packages %v", first.Packages)
	}
	bare := mustImport(t, s, first.Squashfs(), "bare")
	if bare.Digest != first.Digest {
		t.Errorf("the bare squashfs got digest %s", bare.Digest)
	}
}

func TestImportRefusesWhatIsNoImage(t *testing.T) {
	s := openStore(t)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(rootTar(t))
	z.Close()
	for name, text := range map[string]string{
		"text": "hello", "empty": "", "half.tar.gz": zipped.String()[:zipped.Len()/2], "gzip of text": gzipped("hello"),
	} {
		path := filepath.Join(t.TempDir(), "source")
		write(t, path, text)
		if i, err := s.Import(t.Context(), path, "demo"); err == nil {
			t.Errorf("%s became %s", name, i.Ref())
		}
	}
	if _, err := s.Import(t.Context(), filepath.Join(t.TempDir(), "none"), "demo"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing source: %v", err)
	}
	tarball := filepath.Join(t.TempDir(), "root.tar")
	write(t, tarball, string(rootTar(t)))
	if _, err := s.Import(t.Context(), tarball, ""); !errors.Is(err, ErrName) {
		t.Errorf("a tarball without a name: %v", err)
	}
	wantEntries(t, s.dir, ".lock")
}

func openStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustImport(t *testing.T, s *Store, source, name string) Image {
	t.Helper()
	i, err := s.Import(t.Context(), source, name)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// imageFolder makes a true image of one file.
func imageFolder(t *testing.T, name, content string) string {
	t.Helper()
	requireProgram(t, "mksquashfs")
	dir, root := t.TempDir(), t.TempDir()
	write(t, filepath.Join(root, "file"), content)
	r := &Recipe{Epoch: time.Unix(1e9, 0), Squashfs: Squashfs{Compressor: "zstd", Level: 1}}
	if err := makeSquashfs(t.Context(), root, filepath.Join(dir, SquashfsFile), r); err != nil {
		t.Fatal(err)
	}
	m, err := describe(t.Context(), filepath.Join(dir, SquashfsFile))
	if err != nil {
		t.Fatal(err)
	}
	m.Name = name
	if err := m.write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func editManifest(t *testing.T, dir string, edit func(*Manifest)) {
	t.Helper()
	m, err := ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	edit(&m)
	if err := m.write(dir); err != nil {
		t.Fatal(err)
	}
}

func rootTar(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	status := "Package: tiny\nStatus: install ok installed\nVersion: 1.0-2\n\nPackage: gone\nStatus: deinstall ok " +
		"config-files\nVersion: 3\n"
	for _, dir := range []string{"var/", "var/lib/", "var/lib/dpkg/"} {
		w.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755, Format: tar.FormatUSTAR})
	}
	w.WriteHeader(&tar.Header{Name: "var/lib/dpkg/status", Mode: 0o644, Size: int64(len(status)), Format: tar.FormatUSTAR})
	io.WriteString(w, status)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, text)
	z.Close()
	return b.String()
}

func damage(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	write(t, path, string(text))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func wantEntries(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s has %v, want %v", dir, got, want)
	}
}

func requireProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
}
