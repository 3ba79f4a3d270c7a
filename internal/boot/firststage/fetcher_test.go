package firststage

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/internal/protocol"
)

func TestAFileIsFetchedWholeOrNotAtAll(t *testing.T) {
	whole, blob := content(1<<20 + 7)
	answers := map[string]http.HandlerFunc{
		blob.Digest: func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(whole))
		},
		"sha256:" + strings.Repeat("00", 32): func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(whole) },
	}
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers[strings.TrimPrefix(r.URL.Path, protocol.BlobPath)](w, r)
	}))
	defer there.Close()
	f, err := NewFetcher(there.URL, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "kernel")
	if err := f.Fetch(t.Context(), "kernel", blob, path); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("%d bytes arrived: %v", len(got), err)
	}
	if err := f.Fetch(t.Context(), "kernel", protocol.Blob{Digest: blob.Digest}, path); err != nil {
		t.Errorf("a file whose size is not known: %v", err)
	}
	for what, b := range map[string]protocol.Blob{
		"damaged": {Digest: "sha256:" + strings.Repeat("00", 32), Size: blob.Size},
		"digest":  {Digest: "../../etc/passwd", Size: 1},
		"size":    {Digest: blob.Digest, Size: -1},
	} {
		if err := f.Fetch(t.Context(), "kernel", b, filepath.Join(dir, "bad")); err == nil ||
			!strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	if _, err := NewFetcher("ftp://10.78.0.1", io.Discard); err == nil {
		t.Error("a server that speaks no HTTP was taken")
	}
}

func TestAFetcherLosesPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(arguments{}, console{io.Discard})
		s.patience = fetchPatience
		began, tries := time.Now(), 0
		err := s.again(t.Context(), "kernel", func() (bool, error) {
			tries++
			return tries == 6, io.ErrUnexpectedEOF // the sixth gets further
		})
		if took := time.Since(began); err == nil || tries < 10 || took < fetchPatience+7*time.Second {
			t.Errorf("%v after %d tries and %v", err, tries, took)
		}
	})
}
