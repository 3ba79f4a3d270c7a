package rackd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"muster/internal/kit/pipes"
)

// monitor speaks QMP, QEMU's machine protocol, with one process over a socket that has no name.
type monitor struct {
	lock    sync.Mutex // one command at a time
	conn    net.Conn
	answers chan answer // closed when QEMU is gone
}

// answer is a line that QEMU sent, unless it is an event.
type answer struct {
	Greeting json.RawMessage `json:"QMP"`
	Event    string          `json:"event"`
	Error    *struct {
		Text string `json:"desc"`
	} `json:"error"`
}

// newMonitor makes a monitor and the end of its socket that QEMU gets.
func newMonitor() (*monitor, *os.File, error) {
	conn, theirs, err := pipes.Pair(unix.SOCK_STREAM)
	if err != nil {
		return nil, nil, fmt.Errorf("monitor: %w", err)
	}
	m := &monitor{conn: conn, answers: make(chan answer, 1)}
	go m.listen()
	return m, theirs, nil
}

// listen reads until the socket is closed at either end.
func (m *monitor) listen() {
	defer close(m.answers)
	for lines := bufio.NewScanner(m.conn); lines.Scan(); {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err == nil && a.Event == "" {
			m.answers <- a
		}
	}
}

// begin waits for QEMU to be there: from then on its machine runs.
func (m *monitor) begin(ctx context.Context) error {
	m.lock.Lock()
	_, err := m.next(ctx)
	m.lock.Unlock()
	if err != nil {
		return err
	}
	return m.do(ctx, "qmp_capabilities")
}

// do runs a command without arguments.
func (m *monitor) do(ctx context.Context, command string) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	if _, err := fmt.Fprintf(m.conn, "{\"execute\": %q}\n", command); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	a, err := m.next(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	if a.Error != nil {
		return fmt.Errorf("%s: %s", command, a.Error.Text)
	}
	return nil
}

func (m *monitor) next(ctx context.Context) (answer, error) {
	select {
	case a, open := <-m.answers:
		if !open {
			return a, errors.New("QEMU has ended")
		}
		return a, nil
	case <-ctx.Done():
		m.conn.Close() // the answer may still come, and would be taken for the next command's
		return answer{}, ctx.Err()
	}
}

// close ends listen, and lets it get rid of answers that are not waited for.
func (m *monitor) close() {
	m.conn.Close()
	go func() {
		for range m.answers {
		}
	}()
}
