package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"muster/internal/admission"
	"muster/internal/boot/images"
	"muster/internal/drivers/substrate"
	"muster/internal/noded/protocol"
)

// imageFinder is the image store as admission and substrates ask for it.
type imageFinder struct{ store *images.Store }

func (f imageFinder) Image(name string) (admission.Image, error) {
	image, err := f.store.Get(name)
	if err == nil {
		return admission.Image{Name: image.Name, Digest: image.Digest, Arch: image.Arch, Boots: image.Kernel != nil,
			Drivers: image.Carries}, nil
	}
	all, listed := f.store.List()
	if listed != nil {
		return admission.Image{}, listed
	}
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	slices.Sort(names)
	there := "there are none"
	if names = slices.Compact(names); len(names) > 0 {
		there = "there are " + strings.Join(names, ", ")
	}
	return admission.Image{}, fmt.Errorf("there is no image %q; %s", name, there)
}

// With names the images that carry all of these drivers; the newest of a name counts.
func (f imageFinder) With(drivers []string) []string {
	all, _ := f.store.List() // a damaged image is none that would do
	var names []string
	seen := map[string]bool{}
	for _, image := range all {
		lacks := slices.ContainsFunc(drivers, func(d string) bool { return !slices.Contains(image.Carries, d) })
		if !seen[image.Name] && !lacks {
			names = append(names, image.Name)
		}
		seen[image.Name] = true
	}
	return names
}

// Named is the digest of the image of a name.
func (f imageFinder) Named(name string) (string, error) {
	image, err := f.store.Get(name)
	return image.Digest, err
}

// Files are those of the image of a digest.
func (f imageFinder) Files(digest string) (substrate.ImageFiles, error) {
	image, err := findImage(f.store, digest)
	if err != nil {
		return substrate.ImageFiles{}, err
	}
	files := substrate.ImageFiles{Name: image.Name, Root: image.Squashfs()}
	if image.Kernel != nil && image.Drivers != nil {
		files.Kernel, files.Drivers = filepath.Join(image.Dir, image.Kernel.File), filepath.Join(image.Dir, image.Drivers.File)
	}
	return files, nil
}

func findImage(store *images.Store, digest string) (images.Image, error) {
	all, err := store.List()
	for _, image := range all {
		if image.Digest == digest {
			return image, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("image %s is not in the image store", digest)
	}
	return images.Image{}, err
}

// blobOf describes content.
func blobOf(content io.Reader) (b protocol.Blob, err error) {
	hash := sha256.New()
	b.Size, err = io.Copy(hash, content)
	b.Digest = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	return b, err
}
