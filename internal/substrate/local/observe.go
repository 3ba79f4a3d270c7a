package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"muster/internal/substrate"
)

// Observe looks at what is there, without a lock: it may see a node in the middle of being made or removed, which is
// then present and not running.
func (d *Driver) Observe(_ context.Context, r substrate.Ref) (substrate.Observation, error) {
	h, err := d.home(r)
	if err != nil {
		return substrate.Observation{}, err
	}
	boots, err := h.boots()
	if err != nil {
		return substrate.Observation{}, fmt.Errorf("observe node %s: %w", r.Node, err)
	}
	if len(boots) == 0 {
		return substrate.Observation{}, nil
	}
	b := boots[len(boots)-1]
	seen := substrate.Observation{Present: true, Boot: b.number, Running: d.runs(b)}
	if seen.Running {
		seen.Limits = d.cgroups.limits(b.name)
	} else {
		seen.Detail = d.whyNot(b)
	}
	return seen, nil
}

// whyNot says in words why a boot that is present does not run.
func (d *Driver) whyNot(b boot) string {
	reason := "its start was not finished"
	if _, err := os.Stat(b.path("pid")); err == nil {
		reason = "its first process has ended"
		d.wards.collect()
	}
	words := []string{reason}
	if exit, err := os.ReadFile(b.path("exit")); err == nil {
		words = append(words, string(exit))
	}
	if killed := d.cgroups.outOfMemory(b.name); killed > 0 {
		words = append(words, fmt.Sprintf("processes killed at the memory limit: %d", killed))
	}
	if line := lastLine(b.path("console.log")); line != "" {
		words = append(words, "last words: "+line)
	}
	return strings.Join(words, "; ")
}

// lastLine returns the last line of a file that is not blank, of at most 1 KiB.
func lastLine(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	const most = 1 << 10
	if end, err := file.Seek(0, io.SeekEnd); err == nil && end > most {
		file.Seek(-most, io.SeekEnd)
	} else {
		file.Seek(0, io.SeekStart)
	}
	text, _ := io.ReadAll(io.LimitReader(file, most))
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return strings.ToValidUTF8(string(bytes.TrimSpace(lines[len(lines)-1])), "?")
}

// List names every boot of every node that is present.
func (d *Driver) List(context.Context) ([]substrate.Ref, error) {
	nodes := filepath.Join(d.config.Dir, "nodes")
	entries, err := os.ReadDir(nodes)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var refs []substrate.Ref
	for _, entry := range entries {
		cluster, node, _ := strings.Cut(entry.Name(), ".")
		boots, err := home{entry.Name(), filepath.Join(nodes, entry.Name())}.boots()
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		for _, b := range boots {
			refs = append(refs, substrate.Ref{Cluster: cluster, Node: node, Boot: b.number})
		}
	}
	return refs, nil
}
