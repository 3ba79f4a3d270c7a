// Package mailtest has a mail server for tests, which is not ours.
package mailtest

import (
	"bytes"
	"net"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Server runs a server that prints each letter that it is sent, until the test ends. The test is skipped where there is none.
func Server(t testing.TB) (address string, printed func() string) {
	t.Helper()
	if out, err := exec.Command("python3", "-W", "ignore", "-c", "import smtpd").CombinedOutput(); err != nil {
		t.Skipf("there is no mail server to try: this Python has none: %.100s", out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	l.Close()
	var text buffer
	server := exec.Command("python3", "-W", "ignore", "-u", "-m", "smtpd", "-n", "-c", "DebuggingServer", address)
	server.Stdout = &text
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	})
	for range 200 {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return address, text.String
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the mail server does not listen")
	return "", nil
}

// buffer is read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
