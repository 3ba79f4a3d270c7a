package images

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// squashfsMagic begins every squashfs.
const squashfsMagic = "hsqs"

// describe reads off a squashfs all that a manifest can know without a recipe.
func describe(ctx context.Context, squashfs string) (Manifest, error) {
	m := Manifest{Format: Format}
	f, err := os.Open(squashfs)
	if err != nil {
		return m, err
	}
	defer f.Close()
	head := make([]byte, 12)
	if _, err := io.ReadFull(f, head); err != nil || string(head[:4]) != squashfsMagic {
		return m, fmt.Errorf("%s: %w: not a squashfs", squashfs, ErrCorrupt)
	}
	m.Created = time.Unix(int64(binary.LittleEndian.Uint32(head[8:])), 0).UTC()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return m, err
	}
	if m.Digest, m.Size, err = hash(ctx, io.Discard, f); err != nil {
		return m, err
	}

	status, err := extract(ctx, squashfs, "var/lib/dpkg/status")
	if err != nil {
		return m, err
	}
	m.Packages = parsePackages(status)
	for _, program := range []string{"usr/bin/bash", "bin/bash", "usr/bin/busybox", "bin/busybox"} {
		binary, err := extract(ctx, squashfs, program)
		if err != nil {
			return m, err
		}
		if m.Arch = elfArch(binary); m.Arch != "" {
			break
		}
	}
	return m, nil
}

// hash copies r to w and returns the digest and number of the bytes that went through.
func hash(ctx context.Context, w io.Writer, r io.Reader) (digest string, size int64, err error) {
	sum := sha256.New()
	size, err = io.CopyBuffer(io.MultiWriter(w, sum), untilDone{ctx, r}, make([]byte, 1<<20))
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), size, err
}

func hashFile(ctx context.Context, path string) (digest string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	return hash(ctx, io.Discard, f)
}

// untilDone makes a long copy end with its context.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(p)
}

// extract returns the content of one file of a squashfs; nothing if it isn't there. An unreadable squashfs is ErrCorrupt.
func extract(ctx context.Context, squashfs, path string) ([]byte, error) {
	var listed, content bytes.Buffer
	if err := (command{args: []string{"unsquashfs", "-l", squashfs, path}, stdout: &listed}).run(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w: %w", squashfs, ErrCorrupt, err)
	}
	if !strings.Contains(listed.String(), "squashfs-root/"+path+"\n") {
		return nil, nil
	}
	if err := (command{args: []string{"unsquashfs", "-cat", squashfs, path}, stdout: &content}).run(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, nil // a link or a folder of that name
	}
	return content.Bytes(), nil
}

// parsePackages reads dpkg's status file: the installed packages and their versions.
func parsePackages(status []byte) map[string]string {
	packages := map[string]string{}
	var name, version string
	installed := false
	flush := func() {
		if installed && name != "" {
			packages[name] = version
		}
		name, version, installed = "", "", false
	}
	lines := bufio.NewScanner(bytes.NewReader(status))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "":
			flush()
		case "Package":
			name = value
		case "Version":
			version = value
		case "Status":
			installed = strings.HasSuffix(value, " installed")
		}
	}
	flush()
	if len(packages) == 0 {
		return nil
	}
	return packages
}

// elfArch names the architecture of a program as Go does; empty if it is not one we know.
func elfArch(program []byte) string {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return ""
	}
	switch f.Machine {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_AARCH64:
		return "arm64"
	}
	return ""
}
