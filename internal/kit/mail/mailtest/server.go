// Package mailtest has a mail server for tests, which is not ours.
package mailtest

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// program writes where it listens, and then each letter.
const program = `import asyncore, smtpd
server = smtpd.DebuggingServer(("127.0.0.1", 0), None)
print("%s:%d" % server.socket.getsockname())
asyncore.loop()`

// Server runs a server that prints each letter that it is sent, until the test ends. The test is skipped where there is none.
func Server(t testing.TB) (address string, printed func() string) {
	t.Helper()
	if out, err := exec.Command("python3", "-W", "ignore", "-c", "import smtpd").CombinedOutput(); err != nil {
		t.Skipf("there is no mail server to try: this Python has none: %.100s", out)
	}
	var text buffer
	server := exec.Command("python3", "-W", "ignore", "-u", "-c", program)
	server.Stdout = &text
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	})
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if address, _, whole := strings.Cut(text.String(), "\n"); whole {
			return address, text.String
		}
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
