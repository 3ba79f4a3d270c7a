package pipes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
)

func TestAConnectionWithinTheProcessCarriesBothWays(t *testing.T) {
	inside := NewInside()
	from := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 5}
	go func() {
		far, err := inside.Accept()
		if err != nil {
			return
		}
		defer far.Close()
		line, _ := bufio.NewReader(far).ReadString('\n')
		_, _ = fmt.Fprintf(far, "%s says %s", far.RemoteAddr(), line)
	}()
	near, err := inside.Dial(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	_, _ = fmt.Fprintln(near, "hello")
	if line, err := bufio.NewReader(near).ReadString('\n'); line != "192.0.2.7:5 says hello\n" {
		t.Error(line, err)
	}
}

func TestNobodyIsWaitedForWhereNobodyAccepts(t *testing.T) {
	inside := NewInside()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := inside.Dial(ctx, inside.Addr()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := errors.Join(inside.Close(), inside.Close()); err != nil {
		t.Error(err)
	}
	if _, err := inside.Dial(t.Context(), inside.Addr()); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := inside.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
