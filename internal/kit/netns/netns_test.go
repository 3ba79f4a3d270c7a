package netns

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWhatIsNoNamespaceIsNeverOpened names a pipe: to open it would wait for a process that writes there.
func TestWhatIsNoNamespaceIsNeverOpened(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- Do(pipe, func() error { return nil }) }()
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it opened the pipe, and waits")
	}
}
