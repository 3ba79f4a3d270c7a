package images

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Recipe says how an image is made. It is data; the only program in it is the setup script, which runs inside the image.
type Recipe struct {
	// Like names the shipped recipe that this one begins with: what it says itself counts in place of that one's, lists are
	// added to that one's without what they name with a - before it, and its files and setup come after.
	Like    string    `yaml:"like"`
	Name    string    `yaml:"name"`
	Summary string    `yaml:"summary"`
	Arch    []string  `yaml:"arch"`  // that it can be built for: amd64, arm64
	Epoch   time.Time `yaml:"epoch"` // no file of the image is dated later, or the digest would tell the build time

	Debian Debian `yaml:"debian"`
	// Kernel names the package that brings one, as linux-image-$arch, with this machine's architecture. Without it the image is
	// for nodes that share their host's kernel. Modules that no server needs are left out.
	Kernel string `yaml:"kernel"`

	Exclude []string `yaml:"exclude"` // paths never unpacked, as dpkg's path-exclude: * matches slashes too
	Include []string `yaml:"include"` // exceptions to them
	Setup   string   `yaml:"setup"`   // script in the recipe's folder, run inside the image with sh -eu
	Remove  []string `yaml:"remove"`  // globs of files to delete last; with a trailing slash, of folders; ** spans slashes
	Blank   []string `yaml:"blank"`   // files left empty

	Squashfs Squashfs `yaml:"squashfs"`

	Drivers  []string `yaml:"drivers"`  // of GPUs and HCAs, as inventory.Drivers names them; the build fails without them
	Programs []string `yaml:"programs"` // commands that must be there; the build fails without them
	Checks   []Check  `yaml:"checks"`

	parts []part // the recipe's own is the last
}

// part is what one recipe's folder adds to the image: files/ is laid over its root, src/ goes to /usr/local/src/muster, and then
// setup runs.
type part struct {
	folder fs.FS
	setup  string
}

// Debian chooses what mmdebstrap installs.
type Debian struct {
	Suite    string   `yaml:"suite"`
	Variant  string   `yaml:"variant"`
	Packages []string `yaml:"packages"` // recommended packages are not pulled in: name them
	// Without are packages that others depend on and that nothing in the image uses: they are taken to be installed.
	Without []string `yaml:"without"`
}

// Squashfs chooses the compression.
type Squashfs struct {
	Compressor string `yaml:"compressor"`
	Level      int    `yaml:"level"`
}

// LoadRecipe reads folder/recipe.yaml. An unknown key is an error. What a recipe is like is one of the shipped.
func LoadRecipe(shipped, recipes fs.FS, folder string) (*Recipe, error) {
	r, err := readRecipe(recipes, folder)
	if err != nil {
		return nil, fmt.Errorf("recipe %q: %w", folder, err)
	}
	base := &Recipe{}
	if r.Like != "" {
		if base, err = readRecipe(shipped, r.Like); err == nil && base.Like != "" {
			err = fmt.Errorf("it is like %s itself", base.Like)
		}
	}
	if err == nil {
		err = r.add(base)
	}
	if err != nil {
		return nil, fmt.Errorf("recipe %q: like: %s: %w", folder, cmp.Or(r.Like, "none"), err)
	}
	if err := r.validate(); err != nil {
		return nil, fmt.Errorf("recipe %q: %w", folder, err)
	}
	return r, nil
}

func readRecipe(recipes fs.FS, folder string) (*Recipe, error) {
	sub, err := fs.Sub(recipes, folder)
	if err != nil {
		return nil, err
	}
	text, err := fs.ReadFile(sub, "recipe.yaml")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	var r Recipe
	if err := yaml.UnmarshalWithOptions(text, &r, yaml.Strict()); err != nil {
		return nil, err
	}
	r.parts = []part{{sub, r.Setup}}
	return &r, nil
}

// add puts the recipe that this one is like before it. To leave out what that one doesn't have is an error.
func (r *Recipe) add(base *Recipe) error {
	if len(r.Arch) == 0 {
		r.Arch = base.Arch
	}
	if r.Epoch.IsZero() {
		r.Epoch = base.Epoch
	}
	for own, of := range map[*string]string{
		&r.Summary: base.Summary, &r.Kernel: base.Kernel, &r.Squashfs.Compressor: base.Squashfs.Compressor,
		&r.Debian.Suite: base.Debian.Suite, &r.Debian.Variant: base.Debian.Variant,
	} {
		*own = cmp.Or(*own, of)
	}
	r.Squashfs.Level = cmp.Or(r.Squashfs.Level, base.Squashfs.Level)
	for own, of := range map[*[]string][]string{
		&r.Debian.Packages: base.Debian.Packages, &r.Debian.Without: base.Debian.Without, &r.Exclude: base.Exclude,
		&r.Include: base.Include, &r.Remove: base.Remove, &r.Blank: base.Blank,
		&r.Drivers: base.Drivers, &r.Programs: base.Programs,
	} {
		all := slices.Clone(of)
		for _, item := range *own {
			left, without := strings.CutPrefix(item, "-")
			if !without {
				all = append(all, item)
				continue
			}
			if !slices.Contains(of, left) {
				return fmt.Errorf("it has no %q that %q could leave out", left, item)
			}
			all = slices.DeleteFunc(all, func(had string) bool { return had == left })
		}
		*own = all
	}
	r.Checks = slices.Concat(base.Checks, r.Checks)
	r.parts = slices.Concat(base.parts, r.parts)
	return nil
}

// RecipeNames lists the folders that hold a recipe.
func RecipeNames(recipes fs.FS) ([]string, error) {
	found, err := fs.Glob(recipes, "*/recipe.yaml")
	if err != nil {
		return nil, fmt.Errorf("list recipes: %w", err)
	}
	for i, f := range found {
		found[i] = path.Dir(f)
	}
	return found, nil
}

func (r *Recipe) validate() error {
	if err := checkName(r.Name); err != nil {
		return err
	}
	switch {
	case len(r.Arch) == 0:
		return errors.New("arch: names no architecture")
	case r.Epoch.IsZero():
		return errors.New("epoch: missing; without it no two builds are alike")
	case r.Debian.Suite == "" || r.Debian.Variant == "":
		return errors.New("debian: suite and variant are needed")
	case r.Squashfs.Compressor == "":
		return errors.New("squashfs: compressor is missing")
	}
	for _, p := range slices.Concat(r.Remove, r.Blank) {
		if !strings.HasPrefix(p, "/") || slices.Contains(strings.Split(p, "/"), "..") {
			return fmt.Errorf("remove and blank: %q is not an absolute path in the image", p)
		}
	}
	if r.Kernel != "" && !programForm.MatchString(r.kernelPackage()) {
		return fmt.Errorf("kernel: %q is not the name of a package", r.Kernel)
	}
	for _, p := range r.Debian.Without {
		if !programForm.MatchString(p) {
			return fmt.Errorf("debian: without: %q is not the name of a package", p)
		}
	}
	if err := r.checkDrivers(); err != nil {
		return err
	}
	return checkPromises(r.Programs, r.Checks)
}

func (r *Recipe) kernelPackage() string { return strings.ReplaceAll(r.Kernel, "$arch", runtime.GOARCH) }

// globs matches paths of the image, written "/var/log/x", against a recipe's Remove list.
type globs struct{ files, folders []*regexp.Regexp }

func compileGlobs(patterns []string) globs {
	var g globs
	for _, p := range patterns {
		folder := strings.HasSuffix(p, "/")
		text := regexp.QuoteMeta(strings.TrimSuffix(p, "/"))
		text = strings.NewReplacer(`/\*\*/`, `/(?:.*/)?`, `\*\*`, `.*`, `\*`, `[^/]*`).Replace(text)
		re := regexp.MustCompile("^" + text + "$")
		if folder {
			g.folders = append(g.folders, re)
		} else {
			g.files = append(g.files, re)
		}
	}
	return g
}

func (g globs) match(path string, folder bool) bool {
	list := g.files
	if folder {
		list = g.folders
	}
	return slices.ContainsFunc(list, func(re *regexp.Regexp) bool { return re.MatchString(path) })
}
