package bench

import (
	"context"
	"maps"
	"slices"

	"muster/internal/core"
	"muster/internal/kit/words"
)

// Cautions say what a run's values depend on beside its nodes, as its last round shows: each is a sentence.
func Cautions(ctx context.Context, tx *core.Tx, r Run) (all []string, err error) {
	if r.Round == 0 {
		return nil, nil
	}
	looks, err := LooksOf(ctx, tx, r.ID, r.Round-1)
	if err != nil {
		return nil, err
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
