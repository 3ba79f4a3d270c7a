package agents

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"

	"muster/internal/boot/images"
	"muster/internal/inventory"
	"muster/internal/netboot"
	"muster/internal/netboot/control"
	"muster/internal/protocol"
)

// Files are the images as machines that boot are told of them.
type Files struct {
	images *images.Store
	agent  func() (agentFile, error)
}

// NewFiles are those of a store, with the program at a path, which machines run as their agent.
func NewFiles(images *images.Store, program string) Files {
	return Files{images, sync.OnceValues(func() (agentFile, error) { return openAgent(program) })}
}

// agentFile is this program, which becomes the agent. It stays open: while the controller runs, its path may get another one.
type agentFile struct {
	protocol.Blob
	file *os.File
}

// openAgent opens a program for as long as this process runs.
func openAgent(path string) (agentFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return agentFile{}, err
	}
	a := agentFile{file: file}
	if a.Blob, err = blobOf(file); err != nil {
		file.Close()
	}
	return a, err
}

// open opens it once more, to be read from its beginning.
func (a agentFile) open() (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", a.file.Fd()))
}

func (f Files) Inspector() (string, error) {
	image, err := f.images.Get(inventory.InspectorImage)
	return image.Digest, err
}

func (f Files) BootFiles(digest string) (control.Files, error) {
	image, err := f.images.Find(digest)
	if err != nil {
		return control.Files{}, err
	}
	if image.Kernel == nil || image.Drivers == nil {
		return control.Files{}, fmt.Errorf("image %s has no kernel", image.Name)
	}
	agent, err := f.agent()
	return control.Files{
		Root: protocol.Blob{Digest: image.Digest, Size: image.Size}, Agent: agent.Blob, Kernel: image.Kernel.Digest,
		Drivers: image.Drivers.Digest,
	}, err
}

// Blob opens the file of a digest: of an image, or this program, which becomes the agent.
func (f Files) Blob(digest string) (netboot.Blob, error) {
	if agent, err := f.agent(); err == nil && digest == agent.Digest {
		return agent.open()
	}
	return f.images.Blob(digest)
}

// blobOf describes content.
func blobOf(content io.Reader) (b protocol.Blob, err error) {
	hash := sha256.New()
	b.Size, err = io.Copy(hash, content)
	b.Digest = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	return b, err
}
