package inspection

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"muster/internal/inspection/measure"
	"muster/internal/kit/clock"
	"muster/internal/protocol"
)

const (
	memoryChunk   = 32 << 20 // bytes, taken and kept at a time: memory that is given back would be given out again
	memoryReserve = 8        // one part in so many of the free memory stays free
	reserveLeast  = 128 << 20
)

// memoryTest is the walk of all CPUs through the free memory.
type memoryTest struct {
	budget atomic.Int64 // bytes that may still be taken
	tested atomic.Int64 // bytes

	mu      sync.Mutex
	chunks  []chunk
	wrong   int64 // words that did not read as they were written
	example string
	refused error // the kernel gave no more
}

// chunk is a piece of memory with the last pattern in it.
type chunk struct {
	words   []uint64
	pattern pattern
}

// pattern is what memory is filled with: each word is the one before plus a step.
type pattern struct{ start, step uint64 }

// checkMemory fills as much free memory as time allows with patterns and reads it back: 0x55…, its complement 0xAA…,
// and numbers that occur once only. If time is left, these are read once more when all are written: where two addresses
// lead to the same memory, one of the numbers is gone. All CPUs take part.
func (m *machine) checkMemory(ctx context.Context, cpus []int, within time.Duration, say func(string)) protocol.Check {
	var n notes
	free := int64(m.Memory("MemAvailable")) << 20
	budget := free - max(free/memoryReserve, min(reserveLeast, free/2))
	if within < checkLeast || budget < memoryChunk {
		n.remark("left out: %v and %d MiB of free memory are too few", within.Round(time.Millisecond), free>>20)
		return n.check("memory")
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	test := &memoryTest{}
	test.budget.Store(budget)
	defer test.free()

	telling := make(chan struct{})
	go func() {
		defer close(telling)
		for clock.Sleep(ctx, time.Second) == nil {
			say(fmt.Sprintf("%d of %d MiB", test.tested.Load()>>20, budget>>20))
		}
	}()
	began := time.Now()
	measure.OnEachCPU(cpus, func(int) {}, func(int) { test.walk(ctx) })
	took := time.Since(began)
	measure.OnEachCPU(cpus, func(int) {}, func(i int) { test.lookAgain(ctx, i, len(cpus)) })
	cancel()
	<-telling

	if test.wrong > 0 {
		n.fail("%d words did not read as they were written, the first %s: a memory module is bad", test.wrong, test.example)
	}
	if test.refused != nil {
		n.remark("the kernel gave no more memory: %v", test.refused)
	}
	tested := test.tested.Load()
	n.remark("%d of %d MiB tested at %.1f GB/s", tested>>20, m.Memory("MemTotal"), float64(tested*bytesMoved)/took.Seconds()/1e9)
	return n.check("memory")
}

const (
	memoryPatterns = 3
	bytesMoved     = 2 * memoryPatterns // each pattern is written and read
)

// walk takes chunk after chunk until time or memory is used up.
func (t *memoryTest) walk(ctx context.Context) {
	for ctx.Err() == nil && t.budget.Add(-memoryChunk) >= 0 {
		pages, err := unix.Mmap(-1, 0, memoryChunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			t.mu.Lock()
			t.refused = err
			t.mu.Unlock()
			return
		}
		_ = unix.Madvise(pages, unix.MADV_HUGEPAGE) // where there are none it is a little slower
		c := chunk{words: unsafe.Slice((*uint64)(unsafe.Pointer(&pages[0])), memoryChunk/8)}
		const odd = 0x9e3779b97f4a7c15 // its multiples differ in all bits, and none occurs twice
		for _, p := range [memoryPatterns]pattern{{0x5555555555555555, 0}, {0xaaaaaaaaaaaaaaaa, 0},
			{uint64(uintptr(unsafe.Pointer(&pages[0]))/8) * odd, odd}} {
			if ctx.Err() != nil {
				break
			}
			c.pattern = p
			c.fill()
			t.count(c.verify())
		}
		t.mu.Lock()
		t.chunks = append(t.chunks, c)
		t.mu.Unlock()
		if ctx.Err() == nil {
			t.tested.Add(memoryChunk)
		}
	}
}

// lookAgain reads a CPU's share of all chunks.
func (t *memoryTest) lookAgain(ctx context.Context, cpu, of int) {
	for i := cpu; i < len(t.chunks) && ctx.Err() == nil; i += of {
		t.count(t.chunks[i].verify())
	}
}

func (t *memoryTest) count(wrong int64, example string) {
	if wrong == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wrong == 0 {
		t.example = example
	}
	t.wrong += wrong
}

func (t *memoryTest) free() {
	for _, c := range t.chunks {
		_ = unix.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(&c.words[0])), memoryChunk)) // ends with the process at the latest
	}
}

func (c chunk) fill() {
	value := c.pattern.start
	for i := range c.words {
		c.words[i] = value
		value += c.pattern.step
	}
}

// verify counts the words that don't hold the pattern, and shows the first.
func (c chunk) verify() (wrong int64, example string) {
	value := c.pattern.start
	for _, word := range c.words {
		if word != value {
			if wrong == 0 {
				example = fmt.Sprintf("%#016x instead of %#016x", word, value)
			}
			wrong++
		}
		value += c.pattern.step
	}
	return wrong, example
}
