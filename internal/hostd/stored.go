package hostd

import (
	"path/filepath"

	"muster/internal/boot/images"
	"muster/internal/drivers/substrate"
)

// Stored are the images of a store on this host, as drivers ask for them.
type Stored struct{ *images.Store }

var _ substrate.Images = Stored{}

// Named is the digest of the image of a name.
func (s Stored) Named(name string) (string, error) {
	image, err := s.Get(name)
	return image.Digest, err
}

// Files are those of the image of a digest.
func (s Stored) Files(digest string) (substrate.ImageFiles, error) {
	image, err := s.Find(digest)
	if err != nil {
		return substrate.ImageFiles{}, err
	}
	files := substrate.ImageFiles{Name: image.Name, Root: image.Squashfs()}
	if image.Kernel != nil && image.Drivers != nil {
		files.Kernel, files.Drivers = filepath.Join(image.Dir, image.Kernel.File), filepath.Join(image.Dir, image.Drivers.File)
	}
	return files, nil
}
