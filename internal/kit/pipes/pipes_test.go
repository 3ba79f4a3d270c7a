package pipes

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// pair is two ends of a connection that can be closed in one direction.
func pair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return dialled.(*net.TCPConn), accepted.(*net.TCPConn)
}

func TestWhoHasSaidAllIsStillAnswered(t *testing.T) {
	client, a := pair(t)
	server, b := pair(t)
	joined := make(chan error, 1)
	go func() { joined <- Join(t.Context(), a, b) }()

	question := strings.Repeat("question ", 100_000)
	go func() {
		_, _ = io.WriteString(client, question)
		_ = client.CloseWrite()
	}()
	heard, err := io.ReadAll(server) // which ends only if it is told that this was all
	if err != nil || string(heard) != question {
		t.Fatalf("%d bytes, %v", len(heard), err)
	}
	if _, err := io.WriteString(server, "answer"); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if answer, err := io.ReadAll(client); err != nil || string(answer) != "answer" {
		t.Errorf("%q, %v", answer, err)
	}
	if err := <-joined; err != nil {
		t.Error(err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it is not closed: %v", err)
	}
}

func TestTheEndOfItsContextEndsAPipe(t *testing.T) {
	client, a := pair(t)
	_, b := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	joined := make(chan error, 1)
	go func() { joined <- Join(ctx, a, b) }()
	cancel()
	if err := <-joined; err != nil {
		t.Errorf("that it was ended is no error: %v", err)
	}
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("it is not closed")
	}
}

type broken struct{ net.Conn }

var errBroken = errors.New("broken")

func (broken) Read([]byte) (int, error) { return 0, errBroken }

func TestAnErrorEndsBothDirections(t *testing.T) {
	_, a := pair(t)
	_, b := pair(t)
	if err := Join(t.Context(), broken{a}, b); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}

func TestAConnectionThatCannotBeHalfClosedIsClosed(t *testing.T) {
	client, a := net.Pipe()
	server, b := net.Pipe()
	joined := make(chan error, 1)
	go func() { joined <- Join(t.Context(), a, b) }()
	client.Close()
	if _, err := server.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
	<-joined
}
