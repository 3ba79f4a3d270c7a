package admission

import (
	"fmt"
	"slices"
	"strings"

	"muster/internal/boot/images"
	"muster/internal/kit/lists"
)

// Stored are the images of a store.
type Stored struct{ Store *images.Store }

func (s Stored) Image(name string) (Image, error) {
	image, err := s.Store.Get(name)
	if err == nil {
		return Image{Name: image.Name, Digest: image.Digest, Arch: image.Arch, Boots: image.Kernel != nil,
			Drivers: image.Carries, Programs: image.Programs}, nil
	}
	all, listed := s.Store.List()
	if listed != nil {
		return Image{}, listed
	}
	names := lists.Map(all, func(i images.Image) string { return i.Name })
	slices.Sort(names)
	there := "there are none"
	if names = slices.Compact(names); len(names) > 0 {
		there = "there are " + strings.Join(names, ", ")
	}
	return Image{}, fmt.Errorf("there is no image %q; %s", name, there)
}

// With names the images that carry all of these drivers; the newest of a name counts.
func (s Stored) With(drivers []string) []string {
	all, _ := s.Store.List() // a damaged image is none that would do
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
