package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// attachLoop puts a file behind a free loop device, which the kernel frees when the last user is gone: the returned
// file, and then the mount. A crash in between leaves nothing.
func attachLoop(path string, flags uint32) (*os.File, error) {
	mode := os.O_RDWR
	if flags&unix.LO_FLAGS_READ_ONLY != 0 {
		mode = os.O_RDONLY
	}
	backing, err := os.OpenFile(path, mode, 0)
	if err != nil {
		return nil, err
	}
	defer backing.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	config := unix.LoopConfig{Fd: uint32(backing.Fd()), Info: unix.LoopInfo64{Flags: flags | unix.LO_FLAGS_AUTOCLEAR}}
	// Between asking for a free device and taking it, another process may take it.
	for range 100 {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, err
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), mode, 0)
		if err != nil {
			return nil, err
		}
		if err = unix.IoctlLoopConfigure(int(device.Fd()), &config); err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, err
		}
	}
	return nil, unix.EBUSY
}

// attached opens the loop device that a file is behind already, nil if there is none. As long as it is open, it stays.
func attached(path string) (*os.File, error) {
	var image unix.Stat_t
	if err := unix.Stat(path, &image); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil, nil
		}
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	behind, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	for _, file := range behind {
		text, err := os.ReadFile(file)
		// The path is as its opener's root saw it, so only its end is compared; what counts is the inode.
		if err != nil || filepath.Base(strings.TrimSpace(string(text))) != filepath.Base(path) {
			continue
		}
		number, err := strconv.Atoi(strings.TrimPrefix(strings.Split(file, "/")[3], "loop"))
		if err != nil {
			continue
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
		if err != nil {
			continue // freed meanwhile
		}
		info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
		if err == nil && info.Inode == image.Ino && info.Device == image.Dev {
			return device, nil
		}
		device.Close()
	}
	return nil, nil
}
