package images

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muster/internal/kit/files"
	"muster/internal/kit/pattern"
	"muster/internal/kit/wrap"
)

// The files that every image's folder has.
const (
	SquashfsFile = "root.squashfs"
	ManifestFile = "manifest.json"
)

// Format is the version of Manifest that this code writes, and the newest that it reads.
const Format = 1

// Errors to be told apart with errors.Is.
var (
	ErrNotFound  = errors.New("no such image")
	ErrAmbiguous = errors.New("more than one image fits")
	ErrCorrupt   = errors.New("the image is damaged")
	ErrName      = errors.New("not an image name")
)

// Manifest says what an image is. For images built from a recipe it follows from the squashfs and the recipe alone, so
// two builds with the same digest have the same manifest.
type Manifest struct {
	Format  int       `json:"format"`
	Name    string    `json:"name"`
	Summary string    `json:"summary,omitempty"`
	Arch    string    `json:"arch,omitempty"`    // amd64, arm64; empty: not known
	Digest  string    `json:"digest"`            // of root.squashfs, "sha256:" and 64 hex digits
	Size    int64     `json:"size"`              // of root.squashfs, bytes
	Created time.Time `json:"created"`           // the recipe's epoch, or the time written in a foreign squashfs
	Kernel  *File     `json:"kernel,omitempty"`  // what a machine boots; nil: the image is for nodes on their host's kernel
	Drivers *File     `json:"drivers,omitempty"` // what its first stage loads; there if and only if there is a kernel
	// Carries are drivers of GPUs and HCAs, as inventory.Drivers names them: modules of its kernel.
	Carries  []string          `json:"carries"`
	Programs []string          `json:"programs,omitempty"` // commands that it must have
	Packages map[string]string `json:"packages,omitempty"` // name → version
	Checks   []Check           `json:"checks,omitempty"`
}

// ReadManifest reads the manifest of an image's folder and checks its form, not the squashfs beside it.
func ReadManifest(dir string) (Manifest, error) {
	var m Manifest
	text, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if err != nil {
		return m, fmt.Errorf("image manifest: %w", err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("image manifest %s: %w: %w", filepath.Join(dir, ManifestFile), ErrCorrupt, err)
	}
	return m, wrap.Errorf(m.validate(), "image manifest %s", filepath.Join(dir, ManifestFile))
}

func (m Manifest) validate() error {
	if m.Format < 1 || m.Format > Format {
		return fmt.Errorf("format %d is not known, this program reads up to %d", m.Format, Format)
	}
	if !digestForm.MatchString(m.Digest) {
		return fmt.Errorf("%w: digest %q is not sha256: and 64 hex digits", ErrCorrupt, m.Digest)
	}
	if (m.Kernel == nil) != (m.Drivers == nil) {
		return fmt.Errorf("%w: kernel and drivers belong together, and it has only one of them", ErrCorrupt)
	}
	for _, f := range m.bootFiles() {
		if f.File != KernelFile && f.File != DriversFile || !digestForm.MatchString(f.Digest) {
			return fmt.Errorf("%w: file %q with digest %q; it may be %s or %s, with sha256: and 64 hex digits", ErrCorrupt,
				f.File, f.Digest, KernelFile, DriversFile)
		}
	}
	if err := checkPromises(m.Programs, m.Checks); err != nil {
		return err
	}
	return checkName(m.Name)
}

// write puts the manifest into dir, on the disk for good.
func (m Manifest) write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("image manifest: %w", err)
	}
	return files.Write(filepath.Join(dir, ManifestFile), append(text, '\n'), 0o644)
}

var (
	nameForm    = pattern.New(`^[a-z0-9]+([._-][a-z0-9]+)*$`)
	programForm = pattern.New(`^[A-Za-z0-9][A-Za-z0-9+._-]*$`)
	digestForm  = pattern.New(`^sha256:[0-9a-f]{64}$`)
)

// checkName keeps names fit to be folders, host name parts and words on a command line.
func checkName(name string) error {
	if len(name) > 64 || !nameForm.MatchString(name) {
		return fmt.Errorf("%w: %q; use up to 64 lower-case letters and digits, with single . _ - between them", ErrName, name)
	}
	return nil
}

// checkPromises looks at the programs that an image is to have, and at what is tried of it.
func checkPromises(programs []string, checks []Check) error {
	for _, p := range programs {
		if !programForm.MatchString(p) {
			return fmt.Errorf("programs: %q is not the name of a program", p)
		}
	}
	for _, c := range checks {
		if err := c.validate(); err != nil {
			return fmt.Errorf("checks: %w", err)
		}
	}
	return nil
}

func digestHex(digest string) string { return strings.TrimPrefix(digest, "sha256:") }
