package inspection

import (
	"context"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"muster/internal/protocol"
)

const (
	readCount = 1 << 8  // places, at equal distances from a disk's first byte to its last
	readSize  = 1 << 20 // bytes at each
)

// checkDisks reads all disks at the same time, each at places over the whole of it, and asks whether they are well. A
// storage controller without a driver fails: its disks would be neither tested nor erased.
func (m *machine) checkDisks(ctx context.Context, disks []disk, within time.Duration) protocol.Check {
	var n notes
	for _, controller := range m.undriven() {
		n.fail("storage controller %s has no driver: its disks can't be seen; add its module to the image", controller)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	results := make([]readResult, len(disks))
	var reading sync.WaitGroup
	for i, d := range disks {
		reading.Go(func() { results[i] = m.readOver(ctx, d) })
	}
	reading.Wait()
	for i, d := range disks {
		r := results[i]
		switch {
		case r.failures > 0:
			n.fail("%s: %d of %d reads failed, the first: %v", d.Name, r.failures, r.reads, r.first)
		case r.reads == 0:
			n.remark("%s: not read, there was no time", d.Name)
		default:
			n.remark("%s: %s", d.Name, r.words())
		}
		if !d.Healthy {
			n.fail("%s: %s", d.Name, d.Health)
		}
		if d.readOnly {
			n.fail("%s is read-only", d.Name)
		}
		if d.remote {
			n.remark("%s is on a storage network: it is never erased", d.Name)
		}
	}
	if len(disks) == 0 {
		n.remark("no disks")
	}
	return n.check("disks")
}

// readResult is what came of reading over a disk.
type readResult struct {
	reads, failures int
	first           error
	bytes           int64
	took            time.Duration
}

func (r readResult) words() string {
	return fmt.Sprintf("%d places read at %.0f MB/s", r.reads, float64(r.bytes)/1e6/max(r.took.Seconds(), 1e-6))
}

// readOver reads until all places are done, ctx ends, or too many fail. The places' order is that of their numbers with the bits
// reversed (van der Corput), so that a run that is cut short has read at equal distances over the whole disk.
func (m *machine) readOver(ctx context.Context, d disk) (r readResult) {
	const tooMany = 8
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	dev, err := m.open(d, false)
	if err != nil {
		return readResult{reads: 1, failures: 1, first: err}
	}
	defer dev.Close()
	buffer := aligned(readSize)
	for i := range readCount {
		if ctx.Err() != nil || r.failures >= tooMany {
			return r
		}
		length := min(readSize, dev.Size())
		place := int64(bits.Reverse8(uint8(i)))
		offset := (dev.Size() - length) * place / (readCount - 1) / blockSize * blockSize
		r.reads++
		if err := readFull(dev, buffer[:length], offset); err != nil {
			r.failures++
			if r.first == nil {
				r.first = err
			}
			continue
		}
		r.bytes += length
	}
	return r
}
