package gateway

import (
	"io"
	"sync/atomic"
)

// flow counts the bytes that are carried in and out of a place.
type flow struct {
	received atomic.Int64 // from the person
	sent     atomic.Int64
}

// Buffers are small until there is much to carry: most sessions wait for somebody to type. The large one holds several
// packets, which are 32 KiB at most, of the window of 2 MiB.
const (
	smallBuffer = 1 << 10
	largeBuffer = 128 << 10
)

func (v *visit) toPlace(e *entrance, to io.Writer, from io.Reader) {
	v.pump(to, from, &e.flow.received)
}

func (v *visit) toPerson(e *entrance, to io.Writer, from io.Reader) {
	v.pump(to, from, &e.flow.sent)
}

// pump copies until either side ends. Why does not matter: what follows is the same.
func (v *visit) pump(to io.Writer, from io.Reader, count *atomic.Int64) {
	d, leave := v.g.backlog.enter(v)
	defer leave()
	buffer := make([]byte, smallBuffer)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			d.waits()
			if _, failed := to.Write(buffer[:n]); failed != nil {
				return
			}
			d.goesOn()
			count.Add(int64(n))
		}
		if err != nil {
			return
		}
		if n == len(buffer) && n < largeBuffer {
			buffer = make([]byte, largeBuffer)
		}
	}
}
