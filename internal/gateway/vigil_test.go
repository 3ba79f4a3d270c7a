package gateway

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestTheVigilIsKeptWhileMessagesPassDensely looks at what the kernel would see: a pipe stands for its device.
func TestTheVigilIsKeptWhileMessagesPassDensely(t *testing.T) {
	device := filepath.Join(t.TempDir(), "latency")
	if err := unix.Mkfifo(device, 0o600); err != nil {
		t.Fatal(err)
	}
	kernel, err := unix.Open(device, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(kernel) }()
	// look returns what was asked for, and whether somebody still holds the device.
	look := func() (asked []byte, held bool) {
		buffer := make([]byte, 16)
		n, err := unix.Read(kernel, buffer)
		return buffer[:max(n, 0)], err == unix.EAGAIN || n > 0
	}
	v := newVigil(device, slog.New(slog.NewTextHandler(io.Discard, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); v.run(ctx) }()

	for range 3 { // many at once, but not again and again
		for range denseMessages {
			v.pass()
		}
		time.Sleep(2 * denseWithin)
	}
	if asked, held := look(); held || len(asked) > 0 {
		t.Errorf("the CPUs are kept awake by single bursts: %v", asked)
	}

	within := time.Now().Add(time.Minute)
	for {
		v.pass()
		if asked, _ := look(); len(asked) > 0 {
			if string(asked) != "\x00\x00\x00\x00" {
				t.Errorf("asked for %v, not for 0 µs", asked)
			}
			break
		}
		if time.Now().After(within) {
			t.Fatal("the CPUs are not kept awake by dense traffic")
		}
	}
	for held := true; held; _, held = look() {
		if time.Now().After(within) {
			t.Fatal("the CPUs are kept awake when it is quiet")
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
}

// lines is where a log's lines come out one by one.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func TestAVigilThatCannotBeKeptSaysSoOnceAndStopsNothing(t *testing.T) {
	told := make(lines, 100)
	v := newVigil(filepath.Join(t.TempDir(), "none"), slog.New(slog.NewTextHandler(told, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); v.run(ctx) }()
	for within := time.Now().Add(time.Minute); len(told) == 0 && time.Now().Before(within); {
		v.pass()
	}
	for range 100 * denseMessages {
		v.pass()
	}
	cancel()
	<-ended
	if len(told) != 1 {
		t.Errorf("it was told %d times", len(told))
	}
}
