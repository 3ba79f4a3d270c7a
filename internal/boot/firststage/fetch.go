package firststage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"muster/internal/protocol"
)

// damaged says that bytes are not what their digest says.
type damaged struct{ what, want, got string }

func (d damaged) Error() string {
	return fmt.Sprintf("%s damaged: want %s, got %s", d.what, d.want, d.got)
}

// fetch writes a blob to w from its start. A transfer that breaks goes on where it broke. If the whole is not what its
// digest says it is fetched once more from the start; the second time that is a damaged error.
func (s *server) fetch(ctx context.Context, what string, b protocol.Blob, w io.WriteSeeker) error {
	for try := 1; ; try++ {
		err := s.fetchOnce(ctx, what, b, w)
		bad, is := errors.AsType[damaged](err)
		if !is || try == 2 {
			return err
		}
		s.console.say("%v; once more from the start", bad)
	}
}

func (s *server) fetchOnce(ctx context.Context, what string, b protocol.Blob, w io.WriteSeeker) error {
	if _, err := w.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	now := time.Now()
	t := transfer{w: w, sum: sha256.New(), size: b.Size, progress: progress{console: s.console, what: what, size: b.Size,
		start: now, news: often{every: 2 * time.Second, last: now}}}
	if s.signs > 0 {
		t.progress.signs = often{every: s.signs, last: now}
		t.progress.tell = func(words string) { s.progress(ctx, protocol.StepInit, words) }
	}
	err := s.again(ctx, what, func() (bool, error) {
		before := t.got
		err := s.resume(ctx, b, &t)
		return t.got > before, err
	})
	if err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(t.sum.Sum(nil)); got != b.Digest {
		return damaged{what + " arrived", b.Digest, got}
	}
	t.progress.end(t.got)
	return nil
}

// verify reads what should be a blob, and nothing behind it, and says whether it is.
func verify(what string, b protocol.Blob, r io.Reader) error {
	sum := sha256.New()
	if _, err := io.CopyBuffer(onlyWriter{sum}, io.LimitReader(r, b.Size), make([]byte, 256<<10)); err != nil {
		return fmt.Errorf("read the %s again: %w", what, err)
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != b.Digest {
		return damaged{what + " is", b.Digest, got}
	}
	return nil
}

// transfer is a blob on its way: so much of it has been written and hashed.
type transfer struct {
	w         io.Writer
	sum       hash.Hash
	got, size int64
	progress  progress
}

// Write takes the next bytes. An error to write is final: the machine's memory or disk is at fault, not the network.
func (t *transfer) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	t.sum.Write(p[:n])
	t.got += int64(n)
	t.progress.at(t.got)
	if err != nil {
		return n, final{err}
	}
	return n, nil
}

// resume fetches what is missing, as far as the connection lasts.
func (s *server) resume(ctx context.Context, b protocol.Blob, t *transfer) error {
	header := http.Header{}
	if t.got > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", t.got))
	}
	response, err := s.ask(ctx, http.MethodGet, protocol.BlobPath+b.Digest, header, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body := io.Reader(response.Body)
	switch response.StatusCode {
	case http.StatusPartialContent:
		if first := firstByte(response.Header.Get("Content-Range")); first != t.got {
			return fmt.Errorf("the server sent a range from byte %d, not from %d", first, t.got)
		}
	case http.StatusOK: // it knows no ranges: what is here already goes by once more
		if _, err := io.CopyN(io.Discard, body, t.got); err != nil {
			return broken(err)
		}
	default:
		return errors.New("the server answers " + answer(response))
	}
	if _, err := io.CopyBuffer(onlyWriter{t}, io.LimitReader(body, t.size-t.got), make([]byte, 256<<10)); err != nil {
		return broken(err)
	}
	if t.got < t.size {
		return fmt.Errorf("the transfer ended after %d of %d bytes", t.got, t.size)
	}
	return nil
}

// onlyWriter keeps io.Copy from other ways than Write.
type onlyWriter struct{ io.Writer }

func broken(err error) error {
	if _, is := errors.AsType[final](err); is {
		return err
	}
	return fmt.Errorf("the transfer broke: %w", err)
}

// firstByte reads the start of "bytes 5-9/10"; -1 if there is none.
func firstByte(contentRange string) int64 {
	rest, found := strings.CutPrefix(contentRange, "bytes ")
	first, _, _ := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	if !found || err != nil || n < 0 {
		return -1
	}
	return n
}

// progress shows a transfer on the console, every two seconds and at its end. The controller hears of it less often: for it
// that is a sign of life of a boot whose files take long, since many boots at once share a network.
type progress struct {
	console console
	what    string
	size    int64
	start   time.Time
	news    often
	signs   often
	tell    func(words string) // nil: no signs are sent
}

func (p *progress) at(got int64) {
	words := func() string { return fmt.Sprintf("%s: %d of %s", p.what, got>>20, size(p.size)) }
	if p.news.now() {
		p.console.say("%s", words())
	}
	if p.tell != nil && p.signs.now() {
		p.tell(words())
	}
}

func (p *progress) end(got int64) {
	took := time.Since(p.start)
	p.console.say("%s: %s in %.1f s, %.0f MB/s, as its digest says", p.what, size(got), took.Seconds(),
		float64(got)/1e6/max(took.Seconds(), 0.001))
}
