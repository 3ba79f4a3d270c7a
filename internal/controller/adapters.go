package controller

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"muster/internal/admission"
	"muster/internal/agent/protocol"
	"muster/internal/environment/images"
	"muster/internal/inventory"
	"muster/internal/substrate/local"
)

func tlsListener(l net.Listener, c *tls.Config) net.Listener { return tls.NewListener(l, c) }

// imageFinder is the image store as admission and the local substrate ask for it.
type imageFinder struct{ store *images.Store }

func (f imageFinder) Image(name string) (admission.Image, error) {
	image, err := f.store.Get(name)
	if err == nil {
		return admission.Image{Name: image.Name, Digest: image.Digest, Arch: image.Arch, Boots: image.Kernel != nil}, nil
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

// inspectLocal finds what a part of this host is.
func inspectLocal(ctx context.Context, driver *local.Driver, m inventory.Machine) (inventory.Facts, error) {
	host, err := driver.Inspect(ctx, m.Name)
	if err != nil {
		return inventory.Facts{}, err
	}
	facts := inventory.Facts{
		Host: host.Hostname, Arch: host.Arch, CPUModel: host.CPUModel, Kernel: host.Kernel,
		CPUs: host.Threads, Cores: host.Cores, MemoryMiB: min(defaultMemory, host.MemoryMiB),
	}
	for _, n := range host.NUMA {
		facts.NUMA = append(facts.NUMA, inventory.NUMANode{ID: n.ID, CPUs: cpuList(n.CPUs), MemoryMiB: n.MemoryMiB})
	}
	// What the enrolment asked for stays, within what there is.
	if m.Facts.CPUs > 0 {
		facts.CPUs = min(m.Facts.CPUs, host.Threads)
	}
	if m.Facts.MemoryMiB > 0 {
		facts.MemoryMiB = min(m.Facts.MemoryMiB, host.MemoryMiB)
	}
	return facts, nil
}

// cpuList writes CPUs as Linux does: "0-3,8".
func cpuList(cpus []int) string {
	cpus = slices.Sorted(slices.Values(cpus))
	var parts []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		if j == i {
			parts = append(parts, fmt.Sprint(cpus[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", cpus[i], cpus[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
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
