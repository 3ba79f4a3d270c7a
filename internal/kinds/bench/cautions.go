package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"muster/internal/core"
	"muster/internal/kit/words"
)

// Cautions say what a run's values depend on beside its nodes, as its last round with such facts shows: each is a sentence.
func Cautions(ctx context.Context, tx *core.Tx, r Run) (all []string, err error) {
	if r.Plan.Suite.Brief {
		all = append(all, "in a shortened form, which shows that it runs, and not how fast")
	}
	var looks Looks
	err = kept(ctx, tx, &looks, `SELECT looks FROM benchmark_round WHERE benchmark_id = $1 AND looks <> ''
		ORDER BY number DESC LIMIT 1`, r.ID)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return nil, fmt.Errorf("nodes of run %s: %w", r.ID, err)
	}
	for _, caution := range []struct {
		of   func(said map[string]string) bool
		text string
	}{
		{func(said map[string]string) bool { return said["virtualization"] == "emulated in software" },
			"emulated in software, without the CPU's help: values are those of the emulator"},
		{func(said map[string]string) bool { return said[BesideKey] != "" && said[BesideKey] != "0" },
			"beside other nodes on the same host: they use the same CPUs, memory or links"},
	} {
		var nodes []string
		for _, name := range slices.Sorted(maps.Keys(looks.Before)) {
			if caution.of(looks.Before[name]) {
				nodes = append(nodes, name)
			}
		}
		if len(nodes) > 0 {
			all = append(all, words.Few(nodes)+" "+isOrAre(len(nodes))+" "+caution.text)
		}
	}
	return all, nil
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
