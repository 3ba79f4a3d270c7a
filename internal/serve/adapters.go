package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"muster/internal/admission"
	"muster/internal/boot/images"
	"muster/internal/protocol"
)

// imageFinder is the image store as admission asks for it.
type imageFinder struct{ store *images.Store }

func (f imageFinder) Image(name string) (admission.Image, error) {
	image, err := f.store.Get(name)
	if err == nil {
		return admission.Image{Name: image.Name, Digest: image.Digest, Arch: image.Arch, Boots: image.Kernel != nil,
			Drivers: image.Carries, Programs: image.Programs}, nil
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

// blobOf describes content.
func blobOf(content io.Reader) (b protocol.Blob, err error) {
	hash := sha256.New()
	b.Size, err = io.Copy(hash, content)
	b.Digest = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	return b, err
}
