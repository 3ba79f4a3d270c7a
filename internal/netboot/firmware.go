package netboot

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/insomniacslk/dhcp/iana"
)

// firmware is the folders with iPXE's files. They are read from disk, not kept in this program: their licence is another,
// and a site may have its own, signed for Secure Boot.
type firmware []string

// bootFile is what a machine's own firmware loads first, by its architecture (RFC 4578, section 2.1, and IANA's list of
// processor architecture types). "" is an architecture that there are no files for.
func bootFile(arch iana.Arch) string {
	switch arch {
	case iana.INTEL_X86PC:
		return "undionly.kpxe"
	case iana.EFI_X86_64, iana.EFI_BC: // 9 is what early x86-64 firmware says
		return "snponly.efi"
	case iana.EFI_ARM64:
		return "arm64/snponly.efi"
	case iana.EFI_X86_64_HTTP:
		return "ipxe.efi"
	case iana.EFI_ARM64_HTTP:
		return "arm64/ipxe.efi"
	}
	return ""
}

// needed are the files that a usual site cannot do without.
func needed() []string { return []string{"undionly.kpxe", "snponly.efi", "ipxe.efi"} }

// isServed says that a file may be given to any caller. Secure Boot needs a signed shim: one that was loaded as
// X-shim.efi loads X.efi from beside it.
func isServed(name string) bool {
	plain := strings.TrimPrefix(name, "arm64/")
	return slices.Contains(needed(), plain) || plain == shimOf("snponly.efi") || plain == shimOf("ipxe.efi")
}

func shimOf(name string) string { return strings.TrimSuffix(name, ".efi") + "-shim.efi" }

// first is the file that a machine loads in order to run name: its shim, if a folder has one.
func (f firmware) first(name string) string {
	if file, _, err := f.open(shimOf(name)); err == nil {
		file.Close()
		return shimOf(name)
	}
	return name
}

// open opens a boot file; os.ErrNotExist if it is none, or in none of the folders.
func (f firmware) open(name string) (*os.File, int64, error) {
	if !isServed(name) {
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	for _, folder := range f {
		file, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			continue
		}
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return file, info.Size(), nil
		}
		file.Close()
	}
	return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// missing lists the needed files that are in no folder.
func (f firmware) missing() []string {
	return slices.DeleteFunc(needed(), func(name string) bool {
		file, _, err := f.open(name)
		if err == nil {
			file.Close()
		}
		return err == nil
	})
}
