package kmod

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Loader loads modules of one folder into the running kernel. It is for one goroutine.
type Loader struct {
	*Tree
	dir    string
	loaded map[string]bool // paths that were tried, whatever came of it
}

// Open reads the lists of /lib/modules/VERSION.
func Open(dir string) (*Loader, error) {
	t, err := Read(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	return &Loader{Tree: t, dir: dir, loaded: map[string]bool{}}, nil
}

// Load loads the modules that a name or a modalias wants, and what they need. What was loaded before, by anyone, is fine,
// as is what nothing answers to. A module that fails is told of once and not tried again.
func (l *Loader) Load(what string) error {
	var failed []error
	for _, file := range l.Order(l.For(what)...) {
		if l.loaded[file] {
			continue
		}
		l.loaded[file] = true
		if _, err := os.Stat("/sys/module/" + Name(file)); err == nil {
			continue // reading a file, even of a squashfs in memory, takes longer
		}
		if err := insert(filepath.Join(l.dir, file)); err != nil {
			failed = append(failed, fmt.Errorf("load %s: %w", Name(file), err))
		}
	}
	return errors.Join(failed...)
}

func insert(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(file, ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE // the kernel unpacks what its own build packed, from 5.17 on
	}
	err = unix.FinitModule(int(f.Fd()), "", flags)
	// ENODEV is a driver's way to say that its hardware isn't there, as of two that match one CPU.
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
