package rig

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Programs watches which programs the processes that descend from this one start, in namespaces of their own or not. The kernel
// tells of each (perf_event_open(2)), so that none is missed, however short it lives.
type Programs struct {
	rings []*ring

	mu   sync.Mutex
	said []birth
	lost bool
}

// birth is a process that begins, or that begins a program.
type birth struct {
	at          uint64
	pid, parent int    // parent is 0 of a program
	program     string // of a program
}

const ringPages = 1024

// WatchPrograms begins to watch. The test is skipped where the kernel does not tell.
func WatchPrograms(t testing.TB) *Programs {
	t.Helper()
	p := &Programs{}
	for cpu := range runtime.NumCPU() {
		r, err := openRing(cpu)
		if err != nil {
			p.close()
			t.Skipf("programs cannot be counted: %v", err)
		}
		p.rings = append(p.rings, r)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		p.follow(stop)
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
		p.close()
	})
	return p
}

// Started counts the programs that were started since the watch began, by name. It forgets them.
func (p *Programs) Started(t testing.TB) map[string]int {
	t.Helper()
	p.drain()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost {
		t.Fatal("the kernel had more to tell than there was room for")
	}
	slices.SortStableFunc(p.said, func(a, b birth) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	ours, started := map[int]bool{os.Getpid(): true}, map[string]int{}
	for _, b := range p.said {
		switch {
		case b.program == "":
			ours[b.pid] = ours[b.parent]
		case ours[b.pid]:
			started[b.program]++
		}
	}
	return started
}

// Forget begins again: what was started is not counted, what runs is still followed.
func (p *Programs) Forget() {
	p.drain()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = slices.DeleteFunc(p.said, func(b birth) bool { return b.program != "" })
}

func (p *Programs) close() {
	for _, r := range p.rings {
		_ = unix.Munmap(r.memory)
		_ = unix.Close(r.fd)
	}
}

// follow keeps room for what is to be told.
func (p *Programs) follow(stop <-chan struct{}) {
	often := time.NewTicker(50 * time.Millisecond)
	defer often.Stop()
	for {
		select {
		case <-often.C:
			p.drain()
		case <-stop:
			return
		}
	}
}

func (p *Programs) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rings {
		r.read(func(kind uint32, body []byte) {
			word := func(i int) int { return int(int32(binary.NativeEndian.Uint32(body[4*i:]))) }
			at := binary.NativeEndian.Uint64(body[len(body)-8:]) // sample_id_all with the time alone
			switch kind {
			case unix.PERF_RECORD_LOST:
				p.lost = true
			case unix.PERF_RECORD_FORK: // pid, ppid, tid, ptid; a thread has its process's pid
				if pid, tid := word(0), word(2); pid == tid {
					p.said = append(p.said, birth{at: at, pid: pid, parent: word(1)})
				}
			case unix.PERF_RECORD_COMM | commExec:
				name, _, _ := bytes.Cut(body[8:len(body)-8], []byte{0})
				p.said = append(p.said, birth{at: at, pid: word(0), program: string(name)})
			}
		})
	}
}

// commExec is set in the kind of a record of a new name that comes with a new program: PERF_RECORD_MISC_COMM_EXEC, which is
// above the 16 bits of the type here.
const commExec = 1 << (13 + 16)

// ring is what the kernel tells of one CPU.
type ring struct {
	fd     int
	memory []byte
	page   *unix.PerfEventMmapPage
}

func openRing(cpu int) (*ring, error) {
	fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample_type: unix.PERF_SAMPLE_TIME,
		Bits: unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask |
			unix.PerfBitSampleIDAll | unix.PerfBitExcludeKernel,
	}, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("perf_event_open: %w", err)
	}
	memory, err := unix.Mmap(fd, 0, (1+ringPages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map what the kernel tells: %w", err), unix.Close(fd))
	}
	return &ring{fd, memory, (*unix.PerfEventMmapPage)(unsafe.Pointer(&memory[0]))}, nil
}

// read hands each record over: its type, with the bits of misc above, and what follows its header.
func (r *ring) read(record func(kind uint32, body []byte)) {
	data := r.memory[os.Getpagesize():]
	head, tail := atomic.LoadUint64(&r.page.Data_head), r.page.Data_tail
	at := func(from uint64, n int) []byte {
		out := make([]byte, n)
		for i := range out {
			out[i] = data[(from+uint64(i))%uint64(len(data))]
		}
		return out
	}
	for tail < head {
		header := at(tail, 8) // type, misc, size
		size := binary.NativeEndian.Uint16(header[6:])
		kind := binary.NativeEndian.Uint32(header)
		misc := uint32(binary.NativeEndian.Uint16(header[4:])) << 16
		record(kind|misc&commExec, at(tail+8, int(size)-8))
		tail += uint64(size)
	}
	atomic.StoreUint64(&r.page.Data_tail, tail)
}
