package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	recipes "muster/images"
)

const tinyRecipe = `
name: tiny
arch: [amd64, arm64]
epoch: 2025-06-01T00:00:00Z
debian: {suite: bookworm, variant: minbase, packages: [one, two], without: [zero]}
exclude: [/usr/share/man/*]
setup: setup.sh
remove: [/var/log/**, /usr/**/__pycache__/, /etc/secret*]
blank: [/etc/machine-id]
squashfs: {compressor: zstd, level: 1}
programs: [tool]
checks:
  - {name: tool works, run: tool, expect: "^[0-9]+$", within: 5s}
`

func TestShippedRecipesAreSound(t *testing.T) {
	names, err := RecipeNames(recipes.Recipes)
	if err != nil || len(names) == 0 {
		t.Fatalf("RecipeNames = %v, %v", names, err)
	}
	for _, name := range names {
		r, err := LoadRecipe(recipes.Recipes, recipes.Recipes, name)
		if err != nil {
			t.Error(err)
			continue
		}
		if r.Name != name {
			t.Errorf("recipe %s lies in folder %s", r.Name, name)
		}
		if len(r.Checks) == 0 || len(r.Programs) == 0 {
			t.Errorf("recipe %s has no checks or promises no programs", name)
		}
	}
}

func TestRecipesThatAreWrongAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown key":        {"setup:", "set_up:", "set_up"},
		"no epoch":           {"epoch: 2025-06-01T00:00:00Z", "", "epoch"},
		"name that escapes":  {"name: tiny", "name: ../tiny", "not an image name"},
		"package with shell": {"[zero]", `["$(x)"]`, "not the name of a package"},
		"path that escapes":  {"/etc/machine-id", "/etc/../../x", "absolute path"},
		"relative path":      {"/etc/secret*", "etc/secret*", "absolute path"},
		"bad expression":     {"^[0-9]+$", "(", "expect"},
		"bad time":           {"within: 5s", "within: 5 parsecs", "within"},
		"program with shell": {"[tool]", `["a; b"]`, "program"},
		"nothing to leave":   {"[tool]", "[-tool]", `like: none: it has no "tool" that "-tool" could leave out`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(tinyRecipe, c.old, c.new, 1)
			_, err := LoadRecipe(nil, fstest.MapFS{"tiny/recipe.yaml": {Data: []byte(text)}}, "tiny")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error about %s", err, c.want)
			}
		})
	}
	if _, err := LoadRecipe(nil, fstest.MapFS{}, "none"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a missing recipe: %v", err)
	}
}

// TestARecipeIsLikeAShippedOne has a recipe add to another, and leave out some of it, and builds it.
func TestARecipeIsLikeAShippedOne(t *testing.T) {
	base := tinyBuild(t, "true")
	shipped := fstest.MapFS{
		"tiny/recipe.yaml": {Data: []byte(tinyRecipe)}, "tiny/setup.sh": {Data: []byte("true")},
		"tiny/files/usr/bin/tool": {Data: []byte("tool")}, "tiny/files/etc/from-file": {Data: []byte("theirs")},
	}
	const text = "like: tiny\nname: mine\nsummary: with three\ndebian: {suite: trixie, packages: [-one, three]}\nsetup: own.sh\n" +
		"remove: [/etc/kept]\nchecks: [{name: mine, run: tool}]\n"
	load := func(text string) (*Recipe, error) {
		return LoadRecipe(shipped, fstest.MapFS{
			"mine/recipe.yaml": {Data: []byte(text)}, "mine/own.sh": {Data: []byte("true")},
			"mine/files/etc/from-file": {Data: []byte("mine")},
		}, "mine")
	}
	r, err := load(text)
	if err != nil {
		t.Fatal(err)
	}
	want := *base
	want.Like, want.Name, want.Summary, want.Debian.Suite = "tiny", "mine", "with three", "trixie"
	want.Debian.Packages, want.Setup = []string{"two", "three"}, "own.sh"
	want.Remove, want.Checks = append(want.Remove, "/etc/kept"), append(want.Checks, Check{Name: "mine", Run: "tool"})
	if len(r.parts) != 2 || r.parts[0].setup != "setup.sh" || r.parts[1].setup != "own.sh" {
		t.Errorf("parts are %+v", r.parts)
	}
	parts := r.parts
	if r.parts, want.parts = nil, nil; fmt.Sprintf("%+v", *r) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", *r, want)
	}
	r.parts = parts
	out := filepath.Join(t.TempDir(), "out")
	if _, err := (Builder{}).Build(t.Context(), r, out); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"usr/bin/tool": "tool", "etc/from-file": "mine", "etc/kept": ""} {
		if got, err := extract(t.Context(), filepath.Join(out, SquashfsFile), path); err != nil || string(got) != want {
			t.Errorf("%s is %q, want %q (%v)", path, got, want, err)
		}
	}
	shipped["mine/recipe.yaml"] = &fstest.MapFile{Data: []byte(text)}
	for _, c := range []struct{ old, new, want string }{
		{"like: tiny", "like: none", "like: none: "},
		{"like: tiny", "like: mine", "like: mine: it is like tiny itself"},
		{"-one", "-three", `like: tiny: it has no "three" that "-three" could leave out`},
	} {
		if _, err := load(strings.Replace(text, c.old, c.new, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error about %s", c.new, err, c.want)
		}
	}
}

func TestGlobsSpanSlashesOnlyWhenDoubled(t *testing.T) {
	g := compileGlobs([]string{"/run/**", "/etc/key*", "/usr/**/__pycache__/"})
	for _, c := range []struct {
		path         string
		folder, want bool
	}{
		{"/run/a", false, true}, {"/run/a/b", false, true}, {"/run/a", true, false}, {"/running", false, false},
		{"/etc/key1", false, true}, {"/etc/key/1", false, false}, {"/x/etc/key", false, false},
		{"/usr/__pycache__", true, true}, {"/usr/lib/x/__pycache__", true, true},
		{"/usr/lib/x/__pycache__", false, false}, {"/usr/my__pycache__", true, false},
	} {
		if got := g.match(c.path, c.folder); got != c.want {
			t.Errorf("match(%s, folder %v) = %v", c.path, c.folder, got)
		}
	}
}

func TestScrubStaysInsideTheImage(t *testing.T) {
	outside, root := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "log"), "mine")
	write(t, filepath.Join(outside, "id"), "mine")
	for _, dir := range []string{"var", "etc"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	os.Symlink(outside, filepath.Join(root, "var/log"))
	os.Symlink(filepath.Join(outside, "id"), filepath.Join(root, "etc/id"))
	os.Symlink(outside, filepath.Join(root, "out"))

	if err := scrub(root, &Recipe{Remove: []string{"/var/log/**"}, Blank: []string{"/etc/id"}}); err != nil {
		t.Fatal(err)
	}
	if err := scrub(root, &Recipe{Blank: []string{"/out/id"}}); err == nil {
		t.Error("a file behind a link that leaves the image was blanked")
	}
	for _, name := range []string{"log", "id"} {
		if text, _ := os.ReadFile(filepath.Join(outside, name)); string(text) != "mine" {
			t.Errorf("%s outside the image is %q now", name, text)
		}
	}
	if info, err := os.Lstat(filepath.Join(root, "etc/id")); err != nil || !info.Mode().IsRegular() || info.Size() != 0 {
		t.Errorf("etc/id is not an empty file: %v, %v", info, err)
	}
}

func TestPackagesAreThoseInstalled(t *testing.T) {
	got := parsePackages([]byte("Package: a\nStatus: install ok installed\nVersion: 1:2-3\nDescription: x\n Package: no\n\n" +
		"Package: b\nStatus: deinstall ok config-files\nVersion: 1\n\nPackage: c\nVersion: 4\nStatus: hold ok installed"))
	if want := map[string]string{"a": "1:2-3", "c": "4"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// fakeDebian stands for mmdebstrap: it fills the root folder it is given, and leaves a mount and a process behind.
const fakeDebian = `#!/bin/sh -eu
for last; do :; done
echo "I: installing packages..." >&2
mkdir -p $last/usr/bin $last/usr/lib/x/__pycache__ $last/var/log $last/etc $last/var/lib/dpkg/info $last/left
date +%N > $last/var/log/install
date +%N > $last/usr/lib/x/__pycache__/x.pyc
date +%N > $last/etc/secret-key
date +%N > $last/etc/machine-id
echo kept > $last/etc/kept
printf 'Package: one\nStatus: install ok installed\nVersion: 1\n\n' > $last/var/lib/dpkg/status
for hook; do case $hook in --essential-hook=* | --customize-hook=cd*) sh -euc "${hook#*=}" hook $last;; esac; done
mount -t tmpfs left $last/left
sleep 1000 &
$AFTER
`

// tinyBuild prepares a build with the fake, which runs the command after when it is done.
func tinyBuild(t *testing.T, after string) *Recipe {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("builds need root")
	}
	requireProgram(t, "mksquashfs")
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "mmdebstrap"), []byte(fakeDebian), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("AFTER", after)
	r, err := LoadRecipe(nil, fstest.MapFS{
		"tiny/recipe.yaml":         {Data: []byte(tinyRecipe)},
		"tiny/setup.sh":            {Data: []byte("true")},
		"tiny/files/usr/bin/tool":  {Data: []byte("#!/bin/sh\necho 7\n")},
		"tiny/files/etc/from-file": {Data: []byte("file")},
	}, "tiny")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTwoBuildsOfTheSamePackagesAreTheSameImage(t *testing.T) {
	r := tinyBuild(t, "true")
	dir := t.TempDir()
	var steps []string
	b := Builder{Progress: func(s Step) { steps = append(steps, s.Text) }}
	one, err := b.Build(t.Context(), r, filepath.Join(dir, "one"))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // squashfs counts in seconds
	two, err := b.Build(t.Context(), r, filepath.Join(dir, "two"))
	if err != nil {
		t.Fatal(err)
	}
	if one.Digest != two.Digest {
		t.Errorf("digests %s and %s", one.Digest, two.Digest)
	}
	if one.Name != "tiny" || one.Packages["one"] != "1" || one.Packages["zero"] != "9999+left-out" ||
		!one.Created.Equal(r.Epoch) || len(one.Checks) != 1 {
		t.Errorf("manifest %+v", one)
	}
	if !slices.Contains(steps, "installing packages") || !slices.Contains(steps, "compressing") {
		t.Errorf("progress %q", steps)
	}
	wantEntries(t, dir, "one", "two")
	s := openStore(t)
	mustImport(t, s, filepath.Join(dir, "one"), "")
	for path, want := range map[string]string{
		"etc/kept": "kept\n", "etc/from-file": "file", "etc/machine-id": "", "etc/secret-key": "", "var/log/install": "",
	} {
		if got, err := extract(t.Context(), filepath.Join(dir, "one", SquashfsFile), path); err != nil || string(got) != want {
			t.Errorf("%s is %q, want %q (%v)", path, got, want, err)
		}
	}
	if _, err := b.Build(t.Context(), r, filepath.Join(dir, "one")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("build over an image: %v", err)
	}
}

func TestABuildThatFailsLeavesNothingAndSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		after string
		edit  func(*Recipe)
		want  string
	}{
		"installer fails":     {"false", func(*Recipe) {}, "mmdebstrap: exit status 1: I: installing packages..."},
		"program is missing":  {"true", func(r *Recipe) { r.Programs = append(r.Programs, "absent") }, "absent"},
		"other architecture":  {"true", func(r *Recipe) { r.Arch = []string{"riscv64"} }, runtime.GOARCH},
		"unknown compression": {"true", func(r *Recipe) { r.Squashfs.Compressor = "magic" }, "mksquashfs"},
	} {
		t.Run(name, func(t *testing.T) {
			r := tinyBuild(t, c.after)
			c.edit(r)
			dir := t.TempDir()
			_, err := Builder{}.Build(t.Context(), r, filepath.Join(dir, "out"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error about %s", err, c.want)
			}
			wantEntries(t, dir)
			wantNoMounts(t, dir)
		})
	}
}

func TestACancelledBuildLeavesNothing(t *testing.T) {
	r := tinyBuild(t, "sleep 600")
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	b := Builder{Progress: func(Step) { time.AfterFunc(200*time.Millisecond, cancel) }}
	start := time.Now()
	if _, err := b.Build(ctx, r, filepath.Join(dir, "out")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %s to give up", took)
	}
	wantEntries(t, dir)
	wantNoMounts(t, dir)
}

func wantNoMounts(t *testing.T, dir string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), dir) {
		t.Errorf("mounts are left below %s", dir)
	}
}
