package inspection

import (
	"context"
	"crypto/sha256"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"muster/internal/agent/protocol"
)

// onEachCPU runs a function on each CPU at the same time, and none begins before all are there. The threads end with
// it, since they are bound for good.
func onEachCPU(cpus []int, prepare func(i int), run func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i, cpu := range cpus {
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
			var set unix.CPUSet
			set.Set(cpu)
			_ = unix.SchedSetaffinity(0, &set) // where that is not allowed the kernel spreads them
			prepare(i)
			ready.Done()
			<-start
			run(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// rates is how fast each CPU is: SHA-256 of blocks of 1 KiB, a second.
type rates struct {
	cpus   []int
	second []float64
}

const hashedBlock = 1024 // bytes

// rateCPUs measures all CPUs at the same time, for about so long.
func rateCPUs(ctx context.Context, cpus []int, within time.Duration) rates {
	r := rates{cpus, make([]float64, len(cpus))}
	if within < checkLeast {
		return r
	}
	onEachCPU(cpus, func(int) {}, func(i int) { r.second[i] = hashRate(ctx, within) })
	return r
}

func hashRate(ctx context.Context, within time.Duration) float64 {
	const between = 64 // blocks, from one look at the clock to the next
	var block [hashedBlock]byte
	count := 0
	began := time.Now()
	for time.Since(began) < within && ctx.Err() == nil {
		for range between {
			sum := sha256.Sum256(block[:])
			copy(block[:], sum[:]) // the next depends on it: nothing can be left out
		}
		count += between
	}
	return float64(count) / time.Since(began).Seconds()
}

// thousands is all CPUs' rate together, in thousands a second.
func (r rates) thousands() float64 {
	total := 0.0
	for _, rate := range r.second {
		total += rate
	}
	return total / 1000
}

// check wants each CPU to have at least half of the median rate. One that has not is measured again alone, twice, since
// on a virtual machine it may have been held up by others.
func (r rates) check(ctx context.Context) protocol.Check {
	var n notes
	if r.thousands() == 0 {
		n.remark("left out: there was no time")
		return n.check("cpu")
	}
	sorted := slices.Sorted(slices.Values(r.second))
	median := sorted[len(sorted)/2]
	slow := func(rate float64) bool { return rate < median/2 }
	const again, briefly = 2, 200 * time.Millisecond
	for i, cpu := range r.cpus {
		rate := r.second[i]
		for range again {
			if slow(rate) && ctx.Err() == nil {
				rate = max(rate, rateCPUs(ctx, []int{cpu}, briefly).second[0])
			}
		}
		if slow(rate) {
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

const (
	triadCaches = 4         // each array has at least so many times the last-level caches, as STREAM wants it
	triadLeast  = 8 << 20   // bytes of an array for each CPU where the caches are not known
	triadShare  = 2         // the arrays take at most one part in so many of the free memory
	float       = 8         // bytes
	triadPasses = 3 * float // bytes moved for one element: two read, one written
)

// triad measures memory bandwidth as STREAM's triad does, a[i] = b[i] + q·c[i], and counts 24 bytes for each i (J. D.
// McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance Computers", IEEE TCCA Newsletter,
// December 1995; www.cs.virginia.edu/stream). Each CPU has its own part of the arrays and touches it first, so that it
// lies beside it. Unlike STREAM, which reports the best of ten passes, this is the mean over about within.
func (m *machine) triad(ctx context.Context, cpus []int, within time.Duration) bandwidth {
	if within < checkLeast {
		return bandwidth{}
	}
	wanted := max(triadCaches*m.lastLevelCaches(), int64(len(cpus))*triadLeast)
	allowed := int64(m.memory("MemAvailable")) << 20 / triadShare / 3
	size := min(wanted, allowed)
	elements := size / float / int64(len(cpus))
	result := bandwidth{mib: size >> 20, small: size < wanted}
	if elements < 1 {
		result.impossible = fmt.Errorf("%d bytes of free memory are too few", allowed)
		return result
	}
	moved := make([]float64, len(cpus))
	took := make([]time.Duration, len(cpus))
	arrays := make([][3][]float64, len(cpus))
	failed := make([]error, len(cpus))
	onEachCPU(cpus,
		func(i int) { arrays[i], failed[i] = newArrays(elements) },
		func(i int) {
			if failed[i] != nil {
				return
			}
			began := time.Now()
			a, b, c := arrays[i][0], arrays[i][1], arrays[i][2]
			for took[i] < within && ctx.Err() == nil {
				triadPass(a, b, c, 3)
				moved[i] += float64(elements * triadPasses)
				took[i] = time.Since(began)
			}
		})
	for i := range cpus {
		for _, array := range arrays[i] {
			free(array)
		}
		if failed[i] != nil {
			result.impossible = failed[i]
		} else if took[i] > 0 {
			result.gbs += moved[i] / took[i].Seconds() / 1e9
		}
	}
	return result
}

func triadPass(a, b, c []float64, q float64) {
	b, c = b[:len(a)], c[:len(a)]
	for i := range a {
		a[i] = b[i] + q*c[i]
	}
}

// newArrays makes and touches a CPU's part of the arrays.
func newArrays(elements int64) (arrays [3][]float64, err error) {
	for k := range arrays {
		pages, err := unix.Mmap(-1, 0, int(elements*float), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return arrays, fmt.Errorf("get memory: %w", err)
		}
		_ = unix.Madvise(pages, unix.MADV_HUGEPAGE) // where there are none it is a little slower
		arrays[k] = unsafe.Slice((*float64)(unsafe.Pointer(&pages[0])), elements)
		for i := range arrays[k] {
			arrays[k][i] = float64(k)
		}
	}
	return arrays, nil
}

func free(array []float64) {
	if len(array) > 0 {
		_ = unix.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(&array[0])), len(array)*float)) // ends with the process at the latest
	}
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
			n.remark("the free memory allows no arrays of %d times the caches, so caches help", triadCaches)
		}
	}
	return n.check("bandwidth")
}
