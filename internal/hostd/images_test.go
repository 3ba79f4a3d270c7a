package hostd

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
)

func TestImagesAreFetchedOnceAndGoWhenNobodyNamesThem(t *testing.T) {
	files, requests := map[string]string{}, 0
	offer := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		digest := "sha256:" + hex.EncodeToString(sum[:])
		files[digest] = text
		return digest
	}
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(files[strings.TrimPrefix(r.URL.Path, protocol.BlobPath)]))
	}))
	defer there.Close()
	s, err := OpenStore(filepath.Join(t.TempDir(), "images"), there.URL)
	if err != nil {
		t.Fatal(err)
	}
	image := protocol.HostedImage{
		Digest: "sha256:" + strings.Repeat("1a", 32), Root: protocol.Blob{Digest: offer("the root"), Size: 8},
		Kernel: offer("the kernel"), Drivers: offer("the drivers"),
	}
	if _, err := s.Find(image.Digest); err == nil {
		t.Error("an image was found that was never fetched")
	}
	var said bytes.Buffer
	for range 2 {
		if err := s.Fetch(t.Context(), image, &said); err != nil {
			t.Fatal(err)
		}
	}
	if once := 5; requests != once { // of kernel and drivers the size is asked first
		t.Errorf("%d requests, want %d", requests, once)
	}
	found, err := s.Find(image.Digest)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{found.Root: "the root", found.Kernel: "the kernel", found.Drivers: "the drivers"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if !strings.Contains(said.String(), "root image") {
		t.Errorf("it said %q", said.String())
	}
	for _, c := range []struct {
		kept  []protocol.HostedImage
		there bool
	}{{[]protocol.HostedImage{image}, true}, {nil, false}} {
		if err := s.Keep(c.kept); err != nil {
			t.Error(err)
		}
		if _, err := s.Find(image.Digest); (err == nil) != c.there {
			t.Errorf("while %d images are wanted: %v", len(c.kept), err)
		}
	}
}
