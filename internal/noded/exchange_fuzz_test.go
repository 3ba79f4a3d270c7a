package noded

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// FuzzAnswer sends any bytes to the answering end: it never answers with more than one byte a frame of four bytes or more,
// and it ends with the connection.
func FuzzAnswer(f *testing.F) {
	frame := func(size uint32, bytes int) []byte {
		return append(binary.BigEndian.AppendUint32(nil, size), make([]byte, bytes)...)
	}
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0})
	f.Add(frame(0, 0))
	f.Add(frame(60, 60))
	f.Add(append(frame(60, 60), frame(3, 3)...))
	f.Add(frame(60, 59))
	f.Add(frame(exchangeMost+1, 100))
	f.Add(frame(1<<32-1, 100))
	f.Add(append(frame(exchangeMost, 10), frame(0, 0)...))
	f.Fuzz(func(t *testing.T, sent []byte) {
		ours, theirs := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer theirs.Close()
			(&responder{}).answer(theirs)
		}()
		answered := make(chan int, 1)
		go func() {
			n, _ := io.Copy(io.Discard, ours) // ends when either end is closed
			answered <- int(n)
		}()
		_, _ = ours.Write(sent) // fails where the other end has had enough
		_ = ours.Close()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Fatal("the exchange outlives its connection")
		}
		if n, most := <-answered, 1+len(sent)/4; n > most {
			t.Errorf("%d bytes were answered with %d, more than %d", len(sent), n, most)
		}
	})
}
