package noded

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"testing"
	"time"
)

// answering runs a responder on a loopback address of its own and admits these callers.
func answering(t *testing.T, admitted ...string) (r *responder, address string) {
	t.Helper()
	r, address = &responder{}, "127.64.0."+strconv.Itoa(2+os.Getpid()%250)
	r.admit(admitted)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.run(ctx, net.JoinHostPort(address, strconv.Itoa(exchangePort))) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		conn, err := net.Dial("tcp", net.JoinHostPort(address, strconv.Itoa(exchangePort)))
		if err == nil {
			_ = conn.Close() // from no port of root's: refused
			return r, address
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("exchanges are not tested: only root has a port below 1024")
	}
}

// soon opens an exchange when the one before has ended.
func soon(t *testing.T, address string) *exchange {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		x, err := openExchange(t.Context(), address)
		if err == nil {
			return x
		}
		if time.Now().After(deadline) {
			t.Fatal("busy for ever: ", err)
		}
	}
}

func TestAnExchangeMeasuresRoundTripAndThroughput(t *testing.T) {
	asRoot(t)
	_, address := answering(t, "127.0.0.1")
	for _, e := range []effort{effortFor(true), {roundTrips: 20, throughput: 5 * time.Millisecond}} {
		var us, mbs float64
		var err error
		for range 5 { // a busy host may take longer than an exchange may
			x := soon(t, address)
			us, mbs, err = exchanged(x, e)
			x.close()
			if err == nil {
				break
			}
		}
		// Far below and far above what any loopback has: the units are right.
		if err != nil || us < 0.5 || us > 1e6 || mbs < 0.1 || mbs > 1e6 {
			t.Errorf("%.1f µs, %.1f MB/s, %v", us, mbs, err)
		}
	}
}

func TestOnlyAgentsOfPeersAreAnswered(t *testing.T) {
	asRoot(t)
	r, address := answering(t, "127.0.0.1")
	port := net.JoinHostPort(address, strconv.Itoa(exchangePort))
	conn, err := net.Dial("tcp", port) // as any user's program may
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("a program without root's port was answered")
	}
	r.admit([]string{"10.77.0.3"})
	if x, err := openExchange(t.Context(), address); err == nil {
		x.close()
		t.Error("one that is no peer was answered")
	}
}

func TestOneExchangeAtATime(t *testing.T) {
	asRoot(t)
	r, address := answering(t, "127.0.0.1")
	for what, begin := range map[string]func() (end func()){
		"a second one":             func() func() { return soon(t, address).close },
		"while it measures itself": func() func() { r.one.Lock(); return r.one.Unlock },
	} {
		err := os.ErrDeadlineExceeded
		for os.IsTimeout(err) { // a busy host may answer too late
			end, began := begin(), time.Now()
			var x *exchange
			if x, err = openExchange(t.Context(), address); err == nil {
				x.close()
				if time.Since(began) >= exchangeLimit { // the first one is over
					err = os.ErrDeadlineExceeded
				}
			}
			end()
		}
		if !errors.Is(err, errBusy) {
			t.Errorf("%s: %v", what, err)
		}
	}
	soon(t, address).close()
}

func TestAnExchangeIsBounded(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	r, done := &responder{}, make(chan struct{})
	go func() { r.answer(theirs); _ = theirs.Close(); close(done) }()
	x := &exchange{conn: ours, block: make([]byte, exchangeBlock)}
	if _, err := io.ReadFull(ours, x.block[:1]); err != nil || x.block[0] != atYourService {
		t.Fatal(err)
	}
	if _, err := x.send(60); err != nil {
		t.Error(err)
	}
	if _, err := x.send(exchangeMost); err == nil {
		t.Error("more than one exchange may have was taken")
	}
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Error("the exchange does not end")
	}
}
