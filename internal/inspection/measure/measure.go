// Package measure times what a machine's programs live from: its CPUs and its memory.
//
// What enters: which CPUs, how much memory, how long. What leaves: rates. It judges nothing: an inspection compares a
// machine's CPUs with each other, and the acceptance of a node compares it with its like.
package measure

import (
	"context"
	"crypto/sha256"
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CPUs are those that this process may run on.
func CPUs() []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return []int{0}
	}
	var cpus []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// OnEachCPU runs a function on each CPU at the same time, and none begins before all are there. The threads end with
// it, since they are bound for good.
func OnEachCPU(cpus []int, prepare func(i int), run func(i int)) {
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

// Clock is a time that only grows, such as a rate is taken of. It is read on the thread that computes.
type Clock func() time.Duration

// Wall is everybody's time. A rate by it is what a program gets, beside whatever else the CPU does.
func Wall() Clock {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

// Own is the time for which the thread has had a CPU. A rate by it is what the CPU can, however much of it others take.
func Own() Clock {
	return func() time.Duration {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // fails for no clock that Linux has
		return time.Duration(t.Nano())
	}
}

const hashedBlock = 1024 // bytes

// Hashes is how many blocks of 1 KiB each CPU puts through SHA-256 a second, all CPUs at the same time, for about so long by
// this clock.
func Hashes(ctx context.Context, cpus []int, clock Clock, within time.Duration) []float64 {
	second := make([]float64, len(cpus))
	OnEachCPU(cpus, func(int) {}, func(i int) { second[i] = hashRate(ctx, clock, within) })
	return second
}

func hashRate(ctx context.Context, clock Clock, within time.Duration) float64 {
	const between = 64 // blocks, from one look at the clock to the next
	var block [hashedBlock]byte
	count, began, took := 0, clock(), time.Duration(0)
	for took < within && ctx.Err() == nil {
		for range between {
			sum := sha256.Sum256(block[:])
			copy(block[:], sum[:]) // the next depends on it: nothing can be left out
		}
		count += between
		took = clock() - began
	}
	if took == 0 {
		return 0
	}
	return float64(count) / took.Seconds()
}

const (
	triadLeast  = 8 << 20   // bytes of an array for each CPU where the caches are not known
	triadShare  = 2         // the arrays take at most one part in so many of the free memory
	float       = 8         // bytes
	triadPasses = 3 * float // bytes moved for one element: two read, one written
)

// TriadCaches is how many times the last-level caches each array should have at least, as STREAM wants it.
const TriadCaches = 4

// ArraySize is how many bytes each of Triad's arrays should have on so many CPUs with these caches, and whether the free
// memory allowed that.
func ArraySize(cpus int, caches, free int64) (size int64, small bool) {
	wanted := max(TriadCaches*caches, int64(cpus)*triadLeast)
	size = min(wanted, free/triadShare/3)
	return size, size < wanted
}

// Triad measures memory bandwidth in GB/s as STREAM's triad does, a[i] = b[i] + q·c[i], and counts 24 bytes for each i
// (J. D. McCalpin, "Memory Bandwidth and Machine Balance in Current High Performance Computers", IEEE TCCA Newsletter,
// December 1995; www.cs.virginia.edu/stream). Each CPU has its own part of the arrays, of size bytes each, and touches it
// first, so that it is on the same NUMA node. Unlike STREAM, which reports the best of ten passes, this is the mean over
// about within, by this clock.
func Triad(ctx context.Context, cpus []int, size int64, clock Clock, within time.Duration) (gbs float64, err error) {
	elements := size / float / int64(len(cpus))
	if elements < 1 {
		return 0, fmt.Errorf("arrays of %d bytes are too small: there is no free memory", size)
	}
	moved := make([]float64, len(cpus))
	took := make([]time.Duration, len(cpus))
	arrays := make([][3][]float64, len(cpus))
	failed := make([]error, len(cpus))
	OnEachCPU(cpus,
		func(i int) { arrays[i], failed[i] = newArrays(elements) },
		func(i int) {
			if failed[i] != nil {
				return
			}
			began := clock()
			a, b, c := arrays[i][0], arrays[i][1], arrays[i][2]
			for took[i] < within && ctx.Err() == nil {
				triadPass(a, b, c, 3)
				moved[i] += float64(elements * triadPasses)
				took[i] = clock() - began
			}
		})
	for i := range cpus {
		for _, array := range arrays[i] {
			free(array)
		}
		if failed[i] != nil {
			err = failed[i]
		} else if took[i] > 0 {
			gbs += moved[i] / took[i].Seconds() / 1e9
		}
	}
	return gbs, err
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
