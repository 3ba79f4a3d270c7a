package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"muster/internal/admission"
	"muster/internal/agent/protocol"
	"muster/internal/environment/images"
	"muster/internal/hardware"
	"muster/internal/inventory"
)

// imageFinder is the image store as admission and the local substrate ask for it.
type imageFinder struct{ store *images.Store }

func (f imageFinder) Image(name string) (admission.Image, error) {
	image, err := f.store.Get(name)
	if err == nil {
		return admission.Image{Name: image.Name, Digest: image.Digest, Arch: image.Arch, Boots: image.Kernel != nil, Drivers: image.Carries}, nil
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

func (f imageFinder) squashfs(digest string) (string, error) {
	image, err := findImage(f.store, digest)
	return image.Squashfs(), err
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

// defaultMemory is what a local machine has if its enrolment did not say: enough for a small MPI job, little enough for
// several machines on one host.
const defaultMemory = 4096 // MiB

// inspectHost finds what this host is.
func inspectHost() (inventory.Facts, error) {
	facts := hardware.Read("/")
	if facts.MemoryMiB == 0 {
		return facts, errors.New("inspect this host: /proc/meminfo tells of no memory; is /proc mounted?")
	}
	name, err := os.Hostname()
	facts.Host = name
	return facts, err
}

// inspectLocal finds what a part of this host is. No core and no device is its own.
func inspectLocal(m inventory.Machine) (inventory.Facts, error) {
	host, err := inspectHost()
	if err != nil {
		return inventory.Facts{}, err
	}
	facts := host
	facts.Layout, facts.Devices = nil, nil
	facts.MemoryMiB = min(defaultMemory, host.MemoryMiB)
	// What the enrolment asked for stays, within what there is.
	if m.Facts.CPUs > 0 {
		facts.CPUs = min(m.Facts.CPUs, host.CPUs)
	}
	if m.Facts.MemoryMiB > 0 {
		facts.MemoryMiB = min(m.Facts.MemoryMiB, host.MemoryMiB)
	}
	return facts, nil
}

// blobOf describes a file by its content.
func blobOf(path string) (protocol.Blob, error) {
	var b protocol.Blob
	file, err := os.Open(path)
	if err != nil {
		return b, err
	}
	defer file.Close()
	hash := sha256.New()
	b.Size, err = io.Copy(hash, file)
	b.Digest = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	return b, err
}
