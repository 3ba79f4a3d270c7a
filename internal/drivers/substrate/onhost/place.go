// Package onhost is what drivers share that keep nodes on this host with all their state on disk and in the kernel: where
// a node's boots are, locks that die with their holders, processes that cannot be mistaken for others, and their control groups.
//
// What enters: directories, pids. What leaves: what is there. Any number of processes may do this with one directory.
package onhost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"muster/internal/drivers/substrate"
	"muster/internal/kit/files"
)

// A node has a directory, named by its key, which is the first thing made of it and the last one removed. In it are the
// file boot, with the highest boot ever asked for, and a directory for each boot that is present.

// Key names a node in all of the host: <cluster>.<node>.
func Key(r substrate.Ref) (string, error) {
	return r.Cluster + "." + r.Node, errors.Join(CheckID(r.Cluster), CheckID(r.Node))
}

// CheckID keeps IDs to what is safe as a file name, as a container's name and in the separator-joined key.
func CheckID(id string) error {
	if ok, _ := regexp.MatchString(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`, id); !ok {
		return fmt.Errorf("%q is no ID: letters, digits, - and _ only", id)
	}
	return nil
}

// Boots lists what is present of a node, oldest first.
func Boots(dir string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var found []int64
	for _, entry := range entries {
		if number, err := strconv.ParseInt(entry.Name(), 10, 64); err == nil && entry.IsDir() {
			found = append(found, number)
		}
	}
	slices.Sort(found)
	return found, nil
}

// Highest reads the highest boot ever asked for, 0 if none was.
func Highest(dir string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(dir, "boot"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// Raise records a boot as asked for; it makes the node's directory.
func Raise(dir string, number int64) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return files.Replace(filepath.Join(dir, "boot"), []byte(strconv.FormatInt(number, 10)+"\n"), 0o600)
}

// List names every boot of every node below a directory of nodes.
func List(nodes string) ([]substrate.Ref, error) {
	entries, err := os.ReadDir(nodes)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var refs []substrate.Ref
	for _, entry := range entries {
		cluster, node, _ := strings.Cut(entry.Name(), ".")
		boots, err := Boots(filepath.Join(nodes, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		for _, number := range boots {
			refs = append(refs, substrate.Ref{Cluster: cluster, Node: node, Boot: number})
		}
	}
	return refs, nil
}
