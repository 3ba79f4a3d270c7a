package files

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"time"

	"muster/internal/kit/limit"
)

// head is one that answers each request with the next of its answers, whatever was asked.
type head struct {
	answers [][]byte // type and what follows the request's number
	said    *io.PipeWriter
	heard   []byte
}

// Write takes requests.
func (h *head) Write(text []byte) (int, error) {
	h.heard = append(h.heard, text...)
	for len(h.heard) >= 9 {
		size := int(binary.BigEndian.Uint32(h.heard)) + 4
		if len(h.heard) < size {
			break
		}
		kind, number := h.heard[4], bytes.Clone(h.heard[5:9])
		h.heard = h.heard[size:]
		answer := []byte{2, 0, 0, 0, 3} // the version
		if kind != 1 {
			if len(h.answers) == 0 {
				return len(text), h.said.Close()
			}
			next := h.answers[0]
			h.answers = h.answers[1:]
			if len(next) == 0 {
				continue // no answer
			}
			answer = append(append([]byte{next[0]}, number...), next[1:]...)
		}
		go func() {
			_, _ = h.said.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...))
		}()
	}
	return len(text), nil
}

// Close ends what the head says.
func (h *head) Close() error { return h.said.Close() }

// FuzzWhatAHeadSays has a head answer anything: what is given, cut at each 0xfe.
func FuzzWhatAHeadSays(f *testing.F) {
	const (
		status = "\x65\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
		handle = "\x66\x00\x00\x00\x01h"
		path   = "\x68\x00\x00\x00\x01\x00\x00\x00\x02/a\x00\x00\x00\x00\x00\x00\x00\x00"
		attrs  = "\x69\x00\x00\x00\x04\x00\x00\x81\xa4"
		folder = "\x69\x00\x00\x00\x04\x00\x00\x41\xed"
		data   = "\x67\x00\x00\x00\x02ab"
		ends   = "\x65\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"
		cut    = "\xfe"
	)
	for _, answers := range [][]string{
		{path, folder, handle, path, ends, status}, // a directory
		{attrs, handle, data, ends, status},        // a file
		{ends, handle, status, status, status},     // one that is written
		{path, folder, handle, "\x68\xff\xff\xff\xff"},
		{attrs, handle, "\x67\x00\x00\x00\x09a"},
		{"\x65"}, {"\x68"}, {"\x69\xff"}, {"\x66\xff\xff\xff\xff"}, {""},
	} {
		f.Add([]byte(strings.Join(answers, cut)))
	}
	limits := UsualLimits()
	limits.Patience = 20 * time.Millisecond
	f.Fuzz(func(t *testing.T, said []byte) {
		for name, act := range map[string]func(*Session) error{
			"list": func(s *Session) error { _, err := s.List(t.Context(), ""); return err },
			"read": func(s *Session) error {
				content, err := s.Read("a")
				if err == nil {
					_, err = io.CopyN(io.Discard, content, 1<<20)
				}
				return err
			},
			"write": func(s *Session) error { return s.Write(t.Context(), "a", true, strings.NewReader("text")) },
			"move":  func(s *Session) error { return s.Move("a", "b") },
		} {
			done := make(chan struct{})
			go func() {
				defer close(done)
				output, input := io.Pipe()
				s, err := speak(output, &head{said: input, answers: bytes.Split(said, []byte(cut))}, limits)
				if err == nil {
					s.lists = func() (func(), *limit.Over) { return func() {}, nil }
					_ = act(s) // whatever comes of it
					_ = s.sftp.Close()
				}
				_ = output.Close()
			}()
			select {
			case <-done:
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: it waits for a head that says no more", name)
			}
		}
	})
}
