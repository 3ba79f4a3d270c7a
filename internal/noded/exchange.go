package noded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Agents of a cluster measure the network between them by exchanges: one sends frames, a length and so many bytes, and
// the other answers each with one byte. The answerer never sends more than it got, over TCP, so nothing can be made
// bigger by it or sent elsewhere. It serves one at a time, only so many bytes and for so long, and only peers that call
// from a port below 1024, which only root has: the agents, but no program of a user, which could take CPU from others'.
const (
	exchangePort  = 6816
	exchangeLimit = 2 * time.Second // of one exchange
	exchangeMost  = 320 << 20       // bytes of one exchange
	exchangeBlock = 256 << 10       // bytes, read and written at a time
	rootsPorts    = 1024            // only root may use a port below
	rootsLowest   = 512
)

// Answers to a request for an exchange.
const (
	atYourService = 'y'
	atOthers      = 'n'
	received      = 'r'
)

// errBusy: the other one is at another exchange, or measures itself.
var errBusy = errors.New("it was busy")

// responder answers exchanges.
type responder struct {
	one  sync.Mutex // holds who is at an exchange or measures
	mu   sync.Mutex
	from map[netip.Addr]bool
}

// admit lets these addresses and no others ask.
func (r *responder) admit(addresses []string) {
	from := map[netip.Addr]bool{}
	for _, text := range addresses {
		if address, err := netip.ParseAddr(text); err == nil {
			from[address] = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.from = from
}

func (r *responder) admits(who net.Addr) bool {
	from, err := netip.ParseAddrPort(who.String())
	r.mu.Lock()
	defer r.mu.Unlock()
	return err == nil && from.Port() < rootsPorts && r.from[from.Addr().Unmap()]
}

// run answers on an address until ctx ends.
func (r *responder) run(ctx context.Context, address string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", address)
	if err != nil {
		return fmt.Errorf("answer measurements of the network: %w", err)
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = listener.Close(); close(closed) })
	defer func() { // the address is free when run has returned
		if stop() {
			_ = listener.Close()
		} else {
			<-closed
		}
	}()
	var sessions sync.WaitGroup
	defer sessions.Wait()
	const atOnce = 16 // one is served, the others are told so
	room := make(chan struct{}, atOnce)
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() == nil {
				return fmt.Errorf("answer measurements of the network: %w", err)
			}
			return nil
		}
		if !r.admits(conn.RemoteAddr()) {
			_ = conn.Close()
			continue
		}
		select {
		case room <- struct{}{}:
			sessions.Go(func() {
				defer func() { <-room }()
				ended := context.AfterFunc(ctx, func() { _ = conn.Close() })
				defer ended()
				defer conn.Close()
				r.answer(conn)
			})
		default:
			_ = conn.Close()
		}
	}
}

// answer serves one exchange; it ends with the connection or at its limits.
func (r *responder) answer(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(exchangeLimit)) // fails on a closed connection only
	if !r.one.TryLock() {
		_, _ = conn.Write([]byte{atOthers})
		return
	}
	defer r.one.Unlock()
	if _, err := conn.Write([]byte{atYourService}); err != nil {
		return
	}
	block := make([]byte, exchangeBlock)
	for left := int64(exchangeMost); ; {
		if _, err := io.ReadFull(conn, block[:4]); err != nil {
			return
		}
		size := int64(binary.BigEndian.Uint32(block))
		if left -= size; left < 0 {
			return
		}
		for size > 0 {
			n, err := conn.Read(block[:min(size, exchangeBlock)])
			if err != nil {
				return
			}
			size -= int64(n)
		}
		if _, err := conn.Write([]byte{received}); err != nil {
			return
		}
	}
}

// exchange is the asking end.
type exchange struct {
	conn  net.Conn
	block []byte
}

// openExchange asks the agent at an address; errBusy if it is at another exchange. Close ends it.
func openExchange(ctx context.Context, address string) (*exchange, error) {
	agent := net.JoinHostPort(address, strconv.Itoa(exchangePort))
	conn, err := dialAsRoot(ctx, agent, exchangeLimit/10, rootsLowest, rootsPorts-1)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(exchangeLimit)) // fails on a closed connection only
	var answer [1]byte
	if _, err = io.ReadFull(conn, answer[:]); err == nil && answer[0] != atYourService {
		err = errBusy
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &exchange{conn: conn, block: make([]byte, exchangeBlock)}, nil
}

// dialAsRoot calls from a free port of first to last, which only root can have. Each try takes at most within; 0: as long as ctx
// lets.
func dialAsRoot(ctx context.Context, address string, within time.Duration, first, last int) (net.Conn, error) {
	ports := last - first + 1
	for n, start := 0, rand.IntN(ports); ; n++ {
		dialer := net.Dialer{Timeout: within, LocalAddr: &net.TCPAddr{Port: first + (start+n)%ports}}
		conn, err := dialer.DialContext(ctx, "tcp4", address)
		switch taken := errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL); {
		case taken && n < ports-1:
		case err != nil:
			return nil, err
		default: // closed without the usual wait, which would keep the port for a minute
			if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return conn, nil
		}
	}
}

func (x *exchange) close() { _ = x.conn.Close() }

// send sends a frame and waits for the answer.
func (x *exchange) send(size int64) (took time.Duration, err error) {
	began := time.Now()
	binary.BigEndian.PutUint32(x.block, uint32(size))
	for left := size + 4; left > 0 && err == nil; {
		var n int
		n, err = x.conn.Write(x.block[:min(left, exchangeBlock)])
		left -= int64(n)
	}
	if err == nil {
		_, err = io.ReadFull(x.conn, x.block[:1])
	}
	return time.Since(began), err
}

// roundTrip is how long a small frame and its answer take: the tenth part of count is faster, since what is slower waited
// for something that is not the network.
func (x *exchange) roundTrip(count int) (time.Duration, error) {
	const small = 60 // bytes
	all := make([]time.Duration, count)
	for i := range all {
		var err error
		if all[i], err = x.send(small); err != nil {
			return 0, err
		}
	}
	slices.Sort(all)
	return all[count/10], nil
}

// throughput is the rate in bytes a second over about within. The first frame, which finds out how much that is, counts
// only where within is zero.
func (x *exchange) throughput(within time.Duration) (float64, error) {
	const first, most = int64(1 << 20), int64(256 << 20)
	took, err := x.send(first)
	if err != nil {
		return 0, err
	}
	rate := float64(first) / took.Seconds()
	if within == 0 {
		return rate, nil
	}
	size := min(max(int64(rate*within.Seconds()), first), most)
	took, err = x.send(size)
	return float64(size) / took.Seconds(), err
}

// respond answers for as long as the node lives. A node that cannot is no worse a node.
func (n *node) respond(ctx context.Context, own string) {
	if err := n.tester.responder.run(ctx, net.JoinHostPort(own, strconv.Itoa(exchangePort))); err != nil {
		n.console.printf("%v", err)
	}
}
