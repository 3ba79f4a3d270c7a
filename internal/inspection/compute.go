package inspection

import (
	"context"
	"slices"
	"time"

	"muster/internal/inspection/measure"
	"muster/internal/protocol"
)

// rates is how fast each CPU is: SHA-256 of blocks of 1 KiB, a second.
type rates struct {
	cpus   []int
	second []float64
}

// rateCPUs measures all CPUs at the same time, for about so long.
func rateCPUs(ctx context.Context, cpus []int, within time.Duration) rates {
	if within < checkLeast {
		return rates{cpus, make([]float64, len(cpus))}
	}
	return rates{cpus, measure.Hashes(ctx, cpus, measure.Wall(), within)}
}

// thousands is all CPUs' rate together, in thousands a second.
func (r rates) thousands() float64 {
	total := 0.0
	for _, rate := range r.second {
		total += rate
	}
	return total / 1000
}

// check wants each CPU to have at least half of the median rate. One that has not is measured again in turns with the CPU
// that has the median, and the best turn of each counts, since on a virtual machine either may be held up by others. While it
// seems to be slow there are more turns: one that is slow stays so. alone measures one CPU while the others do nothing.
func (r rates) check(ctx context.Context, alone func(cpu int) float64) protocol.Check {
	var n notes
	if r.thousands() == 0 {
		n.remark("left out: there was no time")
		return n.check("cpu")
	}
	middle := slices.Index(r.second, slices.Sorted(slices.Values(r.second))[len(r.second)/2])
	const fewest, most = 6, 30 // turns
	for i, cpu := range r.cpus {
		rate, median := r.second[i], r.second[middle]
		if rate >= median/2 {
			continue
		}
		rate, median = 0, 0
		for turn := 0; turn < fewest || turn < most && rate < median/2 && ctx.Err() == nil; turn++ {
			rate, median = max(rate, alone(cpu)), max(median, alone(r.cpus[middle]))
		}
		if rate < median/2 && ctx.Err() == nil {
			n.fail("CPU %d is slow: %.0f %% of the median", cpu, rate/median*100)
		}
	}
	n.remark("%d CPUs: %.0f thousand SHA-256 of 1 KiB a second together", len(r.cpus), r.thousands())
	return n.check("cpu")
}

// bandwidth is what triad measured.
type bandwidth struct {
	gbs        float64
	mib        int64 // size of each of the three arrays
	small      bool  // less than four times the caches
	impossible error
}

// triad measures the memory bandwidth over about within.
func (m *machine) triad(ctx context.Context, cpus []int, within time.Duration) bandwidth {
	if within < checkLeast {
		return bandwidth{}
	}
	size, small := measure.ArraySize(len(cpus), m.LastLevelCaches(), int64(m.Memory("MemAvailable"))<<20)
	result := bandwidth{mib: size >> 20, small: small}
	result.gbs, result.impossible = measure.Triad(ctx, cpus, size, measure.Wall(), within)
	return result
}

func (b bandwidth) check() protocol.Check {
	var n notes
	switch {
	case b.impossible != nil:
		n.fail("can't be measured: %v", b.impossible)
	case b.gbs == 0:
		n.remark("left out: there was no time")
	default:
		n.remark("STREAM triad: %.1f GB/s, arrays of %d MiB", b.gbs, b.mib)
		if b.small {
			n.remark("the free memory allows no arrays of %d times the caches, so caches help", measure.TriadCaches)
		}
	}
	return n.check("bandwidth")
}
