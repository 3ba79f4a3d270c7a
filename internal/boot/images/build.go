package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/kit/wrap"
)

// Builder makes images from recipes.
type Builder struct {
	Mirror   string     // Debian mirror; empty: mmdebstrap's choice
	Progress func(Step) // called as each step begins, and once at the end; may be nil
}

// Step is a line of progress.
type Step struct {
	At   time.Duration // since the start of the build
	Text string
}

func (s Step) String() string { return fmt.Sprintf("%6.1fs  %s", s.At.Seconds(), s.Text) }

// Build makes the image for this machine's architecture in the new folder out: a squashfs and its manifest. The folder
// appears when it is complete; on an error or at the end of ctx nothing is left. Needs root and the suite's packages.
func (b Builder) Build(ctx context.Context, r *Recipe, out string) (Manifest, error) {
	m, err := b.build(ctx, r, out)
	return m, wrap.Errorf(err, "build image %s", r.Name)
}

func (b Builder) build(ctx context.Context, r *Recipe, out string) (Manifest, error) {
	var none Manifest
	if os.Geteuid() != 0 {
		return none, errors.New("needs root")
	}
	if !slices.Contains(r.Arch, runtime.GOARCH) {
		return none, fmt.Errorf("the recipe is for %s, this machine is %s", strings.Join(r.Arch, ", "), runtime.GOARCH)
	}
	if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
		return none, fmt.Errorf("%s: %w", out, fs.ErrExist)
	}
	start := time.Now()
	say := func(text string) {
		if b.Progress != nil {
			b.Progress(Step{At: time.Since(start), Text: text})
		}
	}

	work, err := os.MkdirTemp(filepath.Dir(out), ".build-*")
	if err != nil {
		return none, err
	}
	defer os.RemoveAll(work)
	root, image := filepath.Join(work, "root"), filepath.Join(work, "image")
	if err := os.Mkdir(image, 0o755); err != nil {
		return none, err
	}

	if err := b.install(ctx, r, filepath.Join(work, "recipe"), root, say); err != nil {
		return none, err
	}
	var kernel, drivers *File
	if r.Kernel != "" {
		if err := findDrivers(root, r.Drivers); err != nil {
			return none, err
		}
		say("packing kernel and drivers")
		if kernel, drivers, err = takeKernel(ctx, root, image); err != nil {
			return none, err
		}
		if kernel == nil {
			return none, fmt.Errorf("package %s brought no /boot/vmlinuz-*", r.kernelPackage())
		}
		if err := dropKernel(root); err != nil {
			return none, err
		}
	}
	say("removing what differs between builds, clusters and nodes")
	if err := scrub(root, r); err != nil {
		return none, err
	}
	if err := findPrograms(root, r.Programs); err != nil {
		return none, err
	}
	say("compressing")
	squashfs := filepath.Join(image, SquashfsFile)
	if err := makeSquashfs(ctx, root, squashfs, r); err != nil {
		return none, err
	}
	say("hashing")
	m, err := describe(ctx, squashfs)
	if err != nil {
		return none, err
	}
	m.Name, m.Summary, m.Created = r.Name, r.Summary, r.Epoch.UTC()
	m.Programs, m.Checks = r.Programs, r.Checks
	m.Kernel, m.Drivers, m.Carries = kernel, drivers, append([]string{}, r.Drivers...)
	if err := errors.Join(m.write(image), os.Rename(image, out)); err != nil {
		return none, err
	}
	say("done: " + m.Digest)
	return m, nil
}

// install fills root with the packages, lays the recipe's files over it and runs its setup.
func (b Builder) install(ctx context.Context, r *Recipe, recipe, root string, say func(string)) error {
	packages, exclude := r.Debian.Packages, r.Exclude
	if r.Kernel != "" {
		// A kernel's package asks for something that makes an initramfs: the smallest there is, which is never run.
		packages = append(slices.Clone(packages), r.kernelPackage(), "tiny-initramfs")
		exclude = slices.Concat(exclude, unneededModules(), []string{"/etc/kernel/postinst.d/*"})
	}
	args := []string{"mmdebstrap", "--mode=root", "--variant=" + r.Debian.Variant,
		"--include=" + strings.Join(packages, ","),
		"--aptopt=APT::Install-Recommends false",
	}
	for _, p := range exclude {
		args = append(args, "--dpkgopt=path-exclude="+p)
	}
	for _, p := range r.Include {
		args = append(args, "--dpkgopt=path-include="+p)
	}
	if len(r.Debian.Without) > 0 {
		args = append(args, fmt.Sprintf(leftOut, strings.Join(r.Debian.Without, " "), runtime.GOARCH))
	}
	for i, p := range r.parts {
		n := strconv.Itoa(i)
		if err := materialize(p.folder, filepath.Join(recipe, n)); err != nil {
			return err
		}
		args = append(args, `--customize-hook=cd "$RECIPE/`+n+`" && mkdir -p files src "$1/usr/local/src/muster" &&
			cp -R files/. "$1/" && cp -R src/. "$1/usr/local/src/muster/"`)
		if p.setup != "" { // as text, not as standard input, which a command in it could read away
			args = append(args, `--customize-hook=chroot "$1" sh -euc "$(cat "$RECIPE/`+n+`/`+p.setup+`")"`)
		}
	}
	args = append(args, r.Debian.Suite, root)
	if b.Mirror != "" {
		args = append(args, b.Mirror)
	}
	return command{
		args:   args,
		env:    []string{epoch(r), "RECIPE=" + recipe, "LC_ALL=C.UTF-8", "TMPDIR=" + filepath.Dir(root)},
		sealed: true,
		lines: func(l string) {
			if step, ok := strings.CutPrefix(l, "I: "); ok && strings.HasSuffix(step, "...") {
				say(strings.TrimSuffix(step, "..."))
			}
		},
	}.run(ctx)
}

// leftOut has dpkg take packages for installed that are not.
const leftOut = `--essential-hook=for p in %s; do
	printf 'Package: %%s\nStatus: install ok installed\nMaintainer: none\nArchitecture: %s\nVersion: 9999+left-out\n' "$p"
	printf 'Description: left out of this image\n\n'
	echo /. >"$1/var/lib/dpkg/info/$p.list"
done >>"$1/var/lib/dpkg/status"`

func epoch(r *Recipe) string { return "SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.Epoch.Unix(), 10) }

// materialize copies the recipe, which may live inside this binary, to where a shell finds it. Files are readable by
// all, as they will be in the image.
func materialize(folder fs.FS, to string) error {
	return fs.WalkDir(folder, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, path)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		text, err := fs.ReadFile(folder, path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o644)
	})
}

// scrub deletes and blanks what the recipe says. It never follows a symbolic link out of root.
func scrub(root string, r *Recipe) error {
	remove := compileGlobs(r.Remove)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == root || !remove.match(strings.TrimPrefix(path, root), d.IsDir()) {
			return nil
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("clean the image: %w", err)
	}
	inside, err := os.OpenRoot(root)
	if err != nil {
		return fmt.Errorf("clean the image: %w", err)
	}
	defer inside.Close()
	for _, p := range r.Blank {
		p = strings.TrimPrefix(p, "/")
		err := inside.Remove(p)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = inside.WriteFile(p, nil, 0o644)
		}
		if err != nil {
			return fmt.Errorf("blank /%s: %w", p, err)
		}
	}
	return nil
}

// findPrograms looks where a login shell would.
func findPrograms(root string, programs []string) error {
	var missing []string
	for _, p := range programs {
		found := slices.ContainsFunc([]string{"usr/local/bin", "usr/bin", "usr/sbin"}, func(dir string) bool {
			_, err := os.Lstat(filepath.Join(root, dir, p)) // links are often absolute, and point into the image
			return err == nil
		})
		if !found {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the image lacks programs that its recipe promises: %s", strings.Join(missing, ", "))
	}
	return nil
}

// makeSquashfs is reproducible: mksquashfs sorts, and clamps times to SOURCE_DATE_EPOCH.
func makeSquashfs(ctx context.Context, root, out string, r *Recipe) error {
	args := []string{"mksquashfs", root, out, "-noappend", "-no-progress", "-quiet", "-comp", r.Squashfs.Compressor}
	if r.Squashfs.Level > 0 {
		args = append(args, "-Xcompression-level", strconv.Itoa(r.Squashfs.Level))
	}
	return command{args: args, env: []string{epoch(r)}}.run(ctx)
}
