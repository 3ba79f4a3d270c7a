// Package space says how much may be written to a disk before its reserve, which Muster leaves for its database and its host.
package space

import (
	"os"

	"golang.org/x/sys/unix"
)

// Disk is a file system.
type Disk struct {
	Size, Free, Reserve int64 // bytes
	Files, FreeFiles    int64 // inodes; 0 where there are as many as there is room for
}

// Left is what may still be written; below 0: it has been taken from the reserve.
func (d Disk) Left() int64 { return d.Free - d.Reserve }

// FewFiles says that the last twentieth of the files is begun that the disk can have.
func (d Disk) FewFiles() bool { return d.FreeFiles < d.Files/20 }

// On looks at the disk of a directory. A reserve of 0 stands for the usual one: a twentieth of the disk, from 1 to 20 GiB.
func On(dir string, reserve int64) (Disk, error) {
	var now unix.Statfs_t
	if err := unix.Statfs(dir, &now); err != nil {
		return Disk{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	d := Disk{Size: int64(now.Blocks) * now.Bsize, Free: int64(now.Bavail) * now.Bsize, Reserve: reserve,
		Files: int64(now.Files), FreeFiles: int64(now.Ffree)}
	if reserve == 0 {
		d.Reserve = min(max(d.Size/20, 1<<30), 20<<30)
	}
	return d, nil
}
