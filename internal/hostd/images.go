package hostd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"muster/internal/boot/firststage"
	"muster/internal/drivers/substrate/vm"
	"muster/internal/kit/lists"
	"muster/internal/protocol"
)

// The files of an image.
const (
	rootFile    = "root.squashfs"
	kernelFile  = "vmlinuz"
	driversFile = "drivers"
)

// Store keeps images in a folder, one folder an image. What has its name there is whole: a file gets it when its digest was
// found right. Its methods may be called at the same time.
type Store struct {
	dir    string
	server string        // base of the boot services
	turn   chan struct{} // holds one token while nothing is fetched: two fetches would share one cable, and maybe one image
}

// OpenStore makes the folder.
func OpenStore(dir, server string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("folder of images: %w", err)
	}
	s := &Store{dir, server, make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s, nil
}

func (s *Store) folder(digest string) string {
	return filepath.Join(s.dir, strings.TrimPrefix(filepath.Base(digest), "sha256:"))
}

// Find tells a guest's driver where the files of an image are.
func (s *Store) Find(digest string) (vm.Image, error) {
	dir := s.folder(digest)
	i := vm.Image{Kernel: filepath.Join(dir, kernelFile), Drivers: filepath.Join(dir, driversFile),
		Root: filepath.Join(dir, rootFile)}
	for _, path := range []string{i.Kernel, i.Drivers, i.Root} {
		if _, err := os.Stat(path); err != nil {
			return i, fmt.Errorf("image %s: %w", digest, err)
		}
	}
	return i, nil
}

// Fetch returns when the image is here whole.
func (s *Store) Fetch(ctx context.Context, i protocol.HostedImage, say io.Writer) error {
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, err := s.Find(i.Digest); err == nil {
		return nil
	}
	from, err := firststage.NewFetcher(s.server, say)
	if err != nil {
		return err
	}
	dir := s.folder(i.Digest)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	for _, f := range []struct {
		name, what string
		blob       protocol.Blob
	}{{rootFile, "root image", i.Root}, {kernelFile, "kernel", protocol.Blob{Digest: i.Kernel}},
		{driversFile, "drivers", protocol.Blob{Digest: i.Drivers}}} {
		path := filepath.Join(dir, f.name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := from.Fetch(ctx, f.what, f.blob, path); err != nil {
			return fmt.Errorf("fetch image %s: %w", i.Digest, err)
		}
	}
	return nil
}

// Keep removes all images but these. Guests that run have links of their own to what they use.
func (s *Store) Keep(images []protocol.HostedImage) error {
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	default:
		return nil // somebody fetches
	}
	kept := lists.SetBy(images, func(i protocol.HostedImage) string { return s.folder(i.Digest) })
	there, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("look for images: %w", err)
	}
	for _, e := range there {
		if path := filepath.Join(s.dir, e.Name()); !kept[path] {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}
