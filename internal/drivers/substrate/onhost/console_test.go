package onhost

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A tenant's requests had a daemon of the head write 0.8 MB/s to its console, on the disk of the database.
func TestAConsoleThatHasNoEndKeepsItsLastWords(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "console.log")
	console, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		KeepEnds(ctx, filepath.Join(dir, "*.log"))
	}()
	line := strings.Repeat("x", 1<<20-1) + "\n"
	for range 20 {
		if _, err := console.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = console.WriteString("before\n")
	taken := func() int64 {
		var info unix.Stat_t
		if err := unix.Stat(path, &info); err != nil {
			t.Fatal(err)
		}
		return info.Blocks * 512
	}
	for end := time.Now().Add(time.Minute); taken() > 2*keptEnd; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it takes %d MiB", taken()>>20)
		}
	}
	_, _ = console.WriteString("the last words\n")
	if got := LastLine(path); got != "the last words" {
		t.Errorf("the last line is %.100q", got)
	}
	_, _ = console.WriteString("[    9.1] Kernel panic - not syncing: Attempted to kill init!\n[    9.2] Kernel Offset: disabled\n")
	if got := LastLine(path); got != "[    9.1] Kernel panic - not syncing: Attempted to kill init!" {
		t.Errorf("the last line is %.100q", got)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(string(text), "Kernel Offset: disabled\n") ||
		!strings.Contains(string(text), "x\nbefore\nthe last words\n") {
		t.Error("the end is not whole: ", err)
	}
	cancel()
	<-ended
}
