package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/onhost"
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
		seen.Limits = d.cgroups.Limits(b.name)
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
	if killed := d.cgroups.OutOfMemory(b.name); killed > 0 {
		words = append(words, fmt.Sprintf("processes killed at the memory limit: %d", killed))
	}
	if line := onhost.LastLine(b.console()); line != "" {
		words = append(words, "last words: "+line)
	}
	return strings.Join(words, "; ")
}

// List names every boot of every node that is present.
func (d *Driver) List(context.Context) ([]substrate.Ref, error) {
	return onhost.List(filepath.Join(d.config.Dir, "nodes"))
}
