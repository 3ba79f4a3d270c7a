package firststage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"muster/internal/protocol"
)

// Fetcher fetches files by their digests from boot services, as the first stage does, for later stages that need more of them.
type Fetcher struct{ server *server }

// fetchPatience is how long a Fetcher tries without getting any further.
const fetchPatience = 20 * time.Second

// NewFetcher takes the base of the boot services, as "http://10.78.0.1:8069". What goes on is said at the console.
func NewFetcher(base string, out io.Writer) (*Fetcher, error) {
	u, err := parseServer(base)
	if err != nil {
		return nil, fmt.Errorf("boot services: %w", err)
	}
	s := newServer(arguments{server: u}, console{out})
	s.patience = fetchPatience
	return &Fetcher{s}, nil
}

// Fetch makes path be the blob: it is there whole, as its digest says, or not at all. It fails when it has got no further for a
// while. what is what people know the file as. A blob's size may be 0: then the server is asked.
func (f *Fetcher) Fetch(ctx context.Context, what string, b protocol.Blob, path string) error {
	if b.Size == 0 && checkBlob(protocol.Blob{Digest: b.Digest, Size: 1}, rootLimit) == nil {
		var err error
		if b.Size, err = f.server.sizeOf(ctx, what, b.Digest); err != nil {
			return err
		}
	}
	if err := checkBlob(b, rootLimit); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	part := path + ".part"
	file, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	err = f.server.fetch(ctx, what, b, file)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}

// sizeOf asks how long a file is.
func (s *server) sizeOf(ctx context.Context, what, digest string) (length int64, err error) {
	err = s.again(ctx, what, func() (bool, error) {
		response, err := s.ask(ctx, http.MethodHead, protocol.BlobPath+digest, nil, nil)
		if err != nil {
			return false, err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return false, errors.New("the server answers " + response.Status)
		}
		length = response.ContentLength
		return true, nil
	})
	return length, err
}
