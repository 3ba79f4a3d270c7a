package inspection

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	mathrand "math/rand/v2"
)

// How an erasure is proved. The places are spread: the disk is divided into as many equal parts, and each has one at a
// random place in it. So a region that was left out is seen for sure if it is longer than two parts, and a share s of
// the disk that was left out here and there is missed with probability (1−s)^n.
const (
	sampleSize  = 1 << 20 // bytes
	sampleCount = 512
	markerCount = 64
	markerSize  = blockSize
	tagSize     = 32
)

// wholeBelow is the size up to which a disk is read from end to end.
const wholeBelow = 2 * sampleCount * sampleSize

// proof shows whether an erasure did something. Before it, markers are written that cannot have been there before; after it, none
// may be there.
type proof struct {
	size    int64
	tag     []byte // what each marker starts with, made for this proof alone
	markers []marker
	samples []span
	before  []fingerprint // one a sample, once recorded
	seed    maphash.Seed
}

type marker struct {
	offset  int64
	content []byte
}

// span is a part of the disk.
type span struct{ offset, length int64 }

// fingerprint is what a sample held.
type fingerprint struct {
	sum   uint64 // by the proof's own seed
	known bool   // it could be read
}

func newProof(size int64) (*proof, error) {
	if size < 4*markerSize {
		return nil, fmt.Errorf("%d bytes are too few to prove anything", size)
	}
	p := &proof{size: size, tag: random(tagSize), samples: samplesOf(size), seed: maphash.MakeSeed()}
	for _, offset := range markerPlaces(size) {
		content := random(markerSize)
		copy(content, p.tag)
		p.markers = append(p.markers, marker{offset, content})
	}
	return p, nil
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return b
}

// markerPlaces has one place in each part of the disk, the first in its first MiB and the last in its last.
func markerPlaces(size int64) []int64 {
	blocks := size / markerSize
	count := min(markerCount, blocks)
	near := min(sampleSize/markerSize, blocks/count)
	places := make([]int64, count)
	for i := range count {
		first, end := i*blocks/count, (i+1)*blocks/count
		switch i {
		case 0:
			end = near
		case count - 1:
			first = blocks - near
		}
		places[i] = (first + mathrand.Int64N(end-first)) * markerSize
	}
	return places
}

// samplesOf is the whole of a small disk, MiB by MiB; of a large one the first and the last MiB, where partition tables
// are, and one in each part of it.
func samplesOf(size int64) []span {
	var samples []span
	if size <= wholeBelow {
		for offset := int64(0); offset < size; offset += sampleSize {
			samples = append(samples, span{offset, min(sampleSize, size-offset)})
		}
		return samples
	}
	part := size / sampleCount
	for i := range int64(sampleCount) {
		offset := i*part + mathrand.Int64N(part-sampleSize)
		switch i {
		case 0:
			offset = 0
		case sampleCount - 1:
			offset = size - sampleSize
		}
		offset = offset / blockSize * blockSize
		length := int64(sampleSize)
		if i == sampleCount-1 {
			length = size - offset // to the very end
		}
		samples = append(samples, span{offset, length})
	}
	return samples
}

// record keeps what the samples hold, so that later they can be seen to have changed. What can't be read is no
// evidence for either.
func (p *proof) record(ctx context.Context, d device) error {
	p.before = make([]fingerprint, len(p.samples))
	buffer := aligned(sampleSize + blockSize)
	for i, s := range p.samples {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		content := buffer[:s.length]
		if readFull(d, content, s.offset) == nil {
			p.before[i] = fingerprint{maphash.Bytes(p.seed, content), true}
		}
	}
	return nil
}

// mark writes the markers and reads them back: what can't be written to can't be proved to be erased.
func (p *proof) mark(d device) error {
	buffer := aligned(markerSize)
	for _, m := range p.markers {
		copy(buffer, m.content)
		if err := writeFull(d, buffer, m.offset); err != nil {
			return fmt.Errorf("write a marker: %w", err)
		}
	}
	if err := d.Flush(); err != nil {
		return fmt.Errorf("write markers: %w", unwrapPath(err))
	}
	for _, m := range p.markers {
		if err := readFull(d, buffer, m.offset); err != nil {
			return fmt.Errorf("read a marker back: %w", err)
		}
		if !bytes.Equal(buffer, m.content) {
			return fmt.Errorf("a marker %s does not read as it was written: the disk does not keep what it is given",
				at(m.offset))
		}
	}
	return nil
}

// verify reads the disk after an erasure and says in words how that was proved, or what is left. zeroes says that
// nothing but zeros may be read; otherwise anything but what was there before.
func (p *proof) verify(ctx context.Context, d device, zeroes bool) (string, error) {
	if d.Size() != p.size {
		return "", fmt.Errorf("the disk had %d bytes and has %d now", p.size, d.Size())
	}
	if left, err := p.markersLeft(d, zeroes); err != nil {
		return "", err
	} else if left > 0 {
		return "", fmt.Errorf("%d of %d markers are still readable", left, len(p.markers))
	}
	var remains, blank, changed int
	first := int64(-1)
	buffer := aligned(sampleSize + blockSize)
	for i, s := range p.samples {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		content := buffer[:s.length]
		if err := readFull(d, content, s.offset); err != nil {
			return "", err
		}
		switch {
		case zeroes && content[0] == 0 && uniform(content):
			blank++
			continue
		case zeroes, bytes.Contains(content, p.tag):
		case uniform(content):
			blank++
			continue
		case p.before == nil:
			return "", errors.New("nothing was recorded before the erasure")
		case !p.before[i].known || p.before[i].sum != maphash.Bytes(p.seed, content):
			changed++
			continue
		}
		remains++
		if first < 0 {
			first = s.offset
		}
	}
	if remains > 0 {
		what := "are as they were"
		if zeroes {
			what = "are not zero"
		}
		return "", fmt.Errorf("%d of %d samples of 1 MiB %s, the first %s", remains, len(p.samples), what, at(first))
	}
	return p.words(zeroes, blank, changed), nil
}

// markersLeft counts the places of markers that hold them still, or, where only zeros may be, anything at all.
func (p *proof) markersLeft(d device, zeroes bool) (left int, err error) {
	buffer := aligned(markerSize)
	for _, m := range p.markers {
		if err := readFull(d, buffer, m.offset); err != nil {
			return left, err
		}
		switch {
		case zeroes && (buffer[0] != 0 || !uniform(buffer)),
			bytes.Contains(buffer, p.tag), bytes.Equal(buffer[tagSize:], m.content[tagSize:]):
			left++
		}
	}
	return left, nil
}

func (p *proof) words(zeroes bool, blank, changed int) string {
	what := fmt.Sprintf("%d samples of 1 MiB", len(p.samples))
	if p.size <= wholeBelow {
		what = fmt.Sprintf("all of %d MiB", p.size>>20)
	}
	switch {
	case zeroes:
		what += " read as zero"
	case changed == 0:
		what += " read as blank"
	case p.size <= wholeBelow:
		what += " read as blank or as something else than before"
	default:
		what += fmt.Sprintf(": %d read as blank, %d as something else than before", blank, changed)
	}
	return fmt.Sprintf("%s; none of %d markers is left", what, len(p.markers))
}

// uniform says whether all bytes are the same.
func uniform(b []byte) bool { return bytes.Equal(b[1:], b[:len(b)-1]) }
