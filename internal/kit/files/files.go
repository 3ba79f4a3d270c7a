// Package files writes files that are there whole or not at all, for readers at the same time and whenever the power fails.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write puts a file in the place of what is at path. It is on the disk when Write returns, under its name.
func Write(path string, text []byte, mode fs.FileMode) error {
	return publish(path, text, mode, true, os.Rename)
}

// Create is Write for a file that is not there yet; else it changes nothing, and the error is fs.ErrExist.
func Create(path string, text []byte, mode fs.FileMode) error {
	return publish(path, text, mode, true, os.Link)
}

// Replace is Write for a file that may be lost or empty after a power failure, and so costs less. The functions in prepare are
// called with the new file before it has its content, to give it another owner.
func Replace(path string, text []byte, mode fs.FileMode, prepare ...func(file *os.File) error) error {
	return publish(path, text, mode, false, os.Rename, prepare...)
}

func publish(path string, text []byte, mode fs.FileMode, durable bool, publish func(from, to string) error,
	prepare ...func(*os.File) error) error {
	part, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) // which is gone if all went well
	err = part.Chmod(mode)
	for _, do := range prepare {
		if err == nil {
			err = do(part)
		}
	}
	if err == nil {
		_, err = part.Write(text)
	}
	if err == nil && durable {
		err = part.Sync()
	}
	if err = errors.Join(err, part.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := publish(part.Name(), path); err != nil || !durable {
		return err
	}
	return Sync(filepath.Dir(path))
}

// Sync waits until a file, or the names in a folder, are on the disk.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
