package hostd

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/vm"
	"muster/internal/kit/limit"
	"muster/internal/protocol"
)

// authority gives certificates as the controller's does.
type authority struct {
	*testing.T
	ca  *x509.Certificate
	key *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "agents"}, NotBefore: time.Now().
				Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	ca, err := x509.ParseCertificate(der)
	check(t, err)
	return authority{t, ca, key}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keys are those of one boot of a host; those that a change makes them are somebody's who should not come in.
func (a authority) keys(machine string, boot int64, change ...func(*x509.Certificate)) Keys {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(a, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: machine, SerialNumber: strconv.FormatInt(boot, 10)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().
				Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, do := range change {
		do(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.ca, key.Public(), a.key)
	check(a, err)
	roots := x509.NewCertPool()
	roots.AddCert(a.ca)
	return Keys{func() *tls.Certificate { return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key} }, roots}
}

// echo is a gate behind which everything comes back.
func echo(t *testing.T, k Keys) *receiver {
	inside := func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(far, far); far.Close() }()
		return near, nil
	}
	g := &receiver{keys: k, say: func(string, ...any) {}, lines: limit.LinesOfUnknown(), inside: inside}
	t.Cleanup(g.shut)
	return g
}

var anyPort = netip.MustParseAddrPort("127.0.0.1:0")

// through says whether anything comes through a way.
func through(k Keys, address, way string, to peer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := k.dial(ctx, address, way, to)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte("memory")); err != nil {
		return err
	}
	back := make([]byte, 6)
	_, err = io.ReadFull(c, back)
	return err
}

// A stranger who reaches a host where a guest is awaited can connect, say nothing, and fail, as often as he likes.
func TestStrangersKeepNoGuestOutAndLeaveFewLines(t *testing.T) {
	a := newAuthority(t)
	g := echo(t, a.keys("m2", 5))
	var said atomic.Int32
	g.say = func(string, ...any) { said.Add(1) }
	way := protocolOf("n1", 17)
	address, err := g.open(t.Context(), anyPort, way, peer{"m1", 4})
	check(t, err)
	first, err := net.Dial("tcp", address)
	check(t, err)
	defer first.Close()
	for range mostWires {
		c, err := net.Dial("tcp", address)
		check(t, err)
		defer c.Close()
	}
	check(t, first.SetReadDeadline(time.Now().Add(greetWithin*9/10)))
	if _, err := first.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the first of %d stays: %v", mostWires+1, err)
	}
	for range 100 {
		if through(a.keys("m3", 4), address, way, peer{"m2", 5}) == nil {
			t.Fatal("another host comes through")
		}
	}
	if err := through(a.keys("m1", 4), address, way, peer{"m2", 5}); err != nil {
		t.Errorf("the guest that is awaited: %v", err)
	}
	g.shut()
	if n := said.Load(); n < 1 || n > 60 {
		t.Errorf("%d lines", n)
	}
}

func TestAWayIsForTwoBootsOfTwoHostsAndOneMove(t *testing.T) {
	a := newAuthority(t)
	g := echo(t, a.keys("m2", 5))
	way := protocolOf("n1", 17)
	address, err := g.open(t.Context(), anyPort, way, peer{"m1", 4})
	check(t, err)
	target := peer{"m2", 5}
	if err := through(a.keys("m1", 4), address, way, target); err != nil {
		t.Fatalf("its own two hosts: %v", err)
	}
	for what, err := range map[string]error{
		"another host":      through(a.keys("m3", 4), address, way, target),
		"an earlier boot":   through(a.keys("m1", 3), address, way, target),
		"another move":      through(a.keys("m1", 4), address, protocolOf("n1", 16), target),
		"another node":      through(a.keys("m1", 4), address, protocolOf("n2", 17), target),
		"another authority": through(newAuthority(t).keys("m1", 4), address, way, target),
		"a certificate that is over": through(a.keys("m1", 4, func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(-time.Minute)
		}), address, way, target),
		"a controller's certificate": through(a.keys("m1", 4, func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}), address, way, target),
		"no certificate": through(Keys{func() *tls.Certificate {
			return nil
		}, a.keys("m1", 4).Roots}, address, way, target),
		"to another host": through(a.keys("m1", 4), address, way, peer{"m9", 5}),
		"to a later boot": through(a.keys("m1", 4), address, way, peer{"m2", 6}),
	} {
		if err == nil {
			t.Errorf("%s comes through", what)
		}
	}
	plain, err := net.Dial("tcp", address)
	check(t, err)
	defer plain.Close()
	fmt.Fprint(plain, strings.Repeat("not TLS ", 100))
	_ = plain.SetDeadline(time.Now().Add(10 * time.Second))
	if text, err := io.ReadAll(plain); err == nil && bytes.Contains(text, []byte("memory")) {
		t.Errorf("without TLS one reads %q", text)
	}
}

func TestTheGateIsOpenWhileSomebodyIsAwaited(t *testing.T) {
	a := newAuthority(t)
	g := echo(t, a.keys("m2", 5))
	first, second := protocolOf("n1", 1), protocolOf("n2", 2)
	address, err := g.open(t.Context(), anyPort, first, peer{"m1", 4})
	check(t, err)
	for _, way := range []string{first, second} { // again, and another one: there is one listener
		if same, err := g.open(t.Context(), anyPort, way, peer{"m1", 4}); err != nil || same != address {
			t.Errorf("%s is opened at %s: %v", way, same, err)
		}
	}
	c, err := a.keys("m1", 4).dial(t.Context(), address, first, peer{"m2", 5})
	check(t, err)
	defer c.Close()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	g.keep([]string{second})
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) {
		t.Error("a way that is shut carries on")
	}
	if err := through(a.keys("m1", 4), address, second, peer{"m2", 5}); err != nil {
		t.Errorf("the other way: %v", err)
	}
	if err := through(a.keys("m1", 4), address, first, peer{"m2", 5}); err == nil {
		t.Error("a way that is shut lets somebody in")
	}
	g.keep(nil)
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("somebody listens although nobody is awaited")
	}
	if _, err := g.open(t.Context(), anyPort, first, peer{"m1", 4}); err != nil {
		t.Errorf("open it again: %v", err)
	}
}

// travellers are guests on paper that move: a guest's memory is its name.
type travellers struct {
	*machine
	tm    sync.Mutex
	place map[string]substrate.Node // that wait for a guest
	whole map[string]bool           // whose memory has come
	fails map[string]error          // calls, and why they fail
	calls []string
}

func newTravellers(t *testing.T, k Keys) *machine {
	m := newMachine(t)
	m.keys, m.moves = k, &travellers{machine: m, place: map[string]substrate.Node{}, whole: map[string]bool{},
		fails: map[string]error{}}
	return m
}

func (v *travellers) called(what, node string) error {
	v.tm.Lock()
	defer v.tm.Unlock()
	v.calls = append(v.calls, what+" "+node)
	return v.fails[what]
}

func (v *travellers) Leave(ctx context.Context, r substrate.Ref) (string, error) {
	if err := v.called("leave", r.Node); err != nil {
		return "", err
	}
	if seen, err := v.Substrate.Observe(ctx, r); err != nil || !seen.Running {
		return "", errors.Join(err, vm.ErrNotHere)
	}
	return "it is " + r.Node, nil
}

func (v *travellers) Receive(_ context.Context, n substrate.Node, description string) (string, error) {
	if err := v.called("receive", n.Node); err != nil {
		return "", err
	}
	v.tm.Lock()
	defer v.tm.Unlock()
	v.place[n.Node] = n
	return description + ", here", nil
}

func (v *travellers) Send(ctx context.Context, r substrate.Ref, description string, dial vm.Dial) error {
	if err := v.called("send", r.Node); err != nil {
		return err
	}
	c, err := dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := fmt.Fprintln(c, description); err != nil {
		return err
	}
	answer := make([]byte, 4)
	if _, err := io.ReadFull(c, answer); err != nil {
		return err
	}
	return v.Remove(ctx, substrate.Ref{Cluster: r.Cluster, Node: r.Node})
}

func (v *travellers) Dial(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		var description string
		if _, err := fmt.Fscanf(far, "it is %s here\n", &description); err != nil {
			return
		}
		v.tm.Lock()
		v.whole[strings.TrimSuffix(description, ",")] = true
		v.tm.Unlock()
		_, _ = io.WriteString(far, "all\n")
	}()
	return near, nil
}

func (v *travellers) Arrive(ctx context.Context, n substrate.Node) error {
	if err := v.called("arrive", n.Node); err != nil {
		return err
	}
	v.tm.Lock()
	whole := v.whole[n.Node]
	v.tm.Unlock()
	if !whole {
		return vm.ErrNotHere
	}
	return v.machine.Ensure(ctx, n)
}

// does waits until a step is over.
func (c *controller) does(t *testing.T, guests []protocol.HostedGuest, m protocol.HostedMove) (over protocol.HostedMoved) {
	t.Helper()
	c.tell(guests, m)
	c.until(t, string(m.Do), func(r protocol.HostReport) bool {
		for _, o := range r.Moves {
			if o.Number == m.Number && o.Step == m.Step {
				over = o
				return true
			}
		}
		return false
	})
	return over
}

// pair is two hosts, with a guest at the first one, which is to move.
type pair struct {
	m     [2]*machine
	c     [2]*controller
	stop  [2]func() error
	guest protocol.HostedGuest
}

func newPair(t *testing.T) *pair {
	a, p := newAuthority(t), &pair{guest: wanted("a")}
	for i := range p.m {
		p.m[i], p.c[i] = newTravellers(t, a.keys(fmt.Sprint("m", i+1), 3)), newController()
		p.stop[i] = p.m[i].run(t, p.c[i])
	}
	p.c[0].want(p.guest)
	p.c[0].until(t, "it runs", runs("a"))
	return p
}

// move is a step of its move; to is the number of the other host.
func (p *pair) move(step int64, do protocol.MoveStep, to int) protocol.HostedMove {
	g := p.guest
	g.File = protocol.BootFile{}
	return protocol.HostedMove{Guest: g, Number: 9, Step: step, Do: do, Peer: fmt.Sprint("m", to), PeerBoot: 3}
}

func TestAGuestGoesFromHostToHostStepByStep(t *testing.T) {
	p := newPair(t)
	here := []protocol.HostedGuest{p.guest}
	left := p.c[0].does(t, here, p.move(1, protocol.MoveLeave, 2))
	m := p.move(2, protocol.MoveReceive, 1)
	m.Description = left.Description
	place := p.c[1].does(t, nil, m)
	if place.Description != "it is a, here" || place.Failed != "" {
		t.Fatalf("its place: %+v", place)
	}
	heard := p.c[1].does(t, nil, p.move(3, protocol.MoveListen, 1))
	m = p.move(4, protocol.MoveSend, 2)
	m.Description, m.Address = place.Description, heard.Address
	p.c[1].tell(nil, p.move(4, protocol.MoveListen, 1)) // the next step, and the same again
	if sent := p.c[0].does(t, here, m); sent.Failed != "" {
		t.Fatalf("it is sent: %+v", sent)
	}
	if err := p.stop[1](); err != nil { // and the next process finds what has come
		t.Error(err)
	}
	p.m[1].run(t, p.c[1])
	p.c[1].tell(nil, p.move(5, protocol.MoveHold, 1))
	if over := p.c[1].does(t, nil, p.move(6, protocol.MoveArrive, 1)); over.Failed+over.Gone != "" {
		t.Fatalf("it arrives: %+v", over)
	}
	p.c[1].until(t, "it runs there", runs("a"))
	p.c[0].want()
	p.c[0].until(t, "nothing is left", func(r protocol.HostReport) bool {
		return len(r.Guests) == 0 && len(r.Moves) == 0 && r.Revision == p.c[0].wanted.Revision
	})
	made := p.m[1].Calls().Ensure
	p.c[1].want(p.guest)
	r := p.c[1].until(t, "it is the new host's own", func(r protocol.HostReport) bool {
		return r.Revision == p.c[1].wanted.Revision && runs("a")(r)
	})
	if s := state(r, "a"); s.Try != 1 || p.m[1].Calls().Ensure != made {
		t.Errorf("it is %+v, and was made %d times more", s, p.m[1].Calls().Ensure-made)
	}
}

// What was wrong once: the listener was opened by the step that lets a guest run, and failed there.
func TestAGuestArrivesWhereNobodyCanListenAnyMore(t *testing.T) {
	p := newPair(t)
	v := p.m[1].moves
	p.c[1].does(t, nil, p.move(2, protocol.MoveReceive, 1))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer taken.Close()
	if err := p.stop[1](); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			Controller: p.c[1], Refused: errRefused, Boot: 3, Guests: p.m[1], Networks: p.m[1], Images: p.m[1], Dir: p.m[1].dir,
			Console: io.Discard, Look: 10 * time.Millisecond,
			Movers: v, Keys: p.m[1].keys, Address: func() (netip.AddrPort, error) {
				return netip.ParseAddrPort(taken.Addr().String())
			},
		})
	}()
	defer func() { cancel(); <-ended }()
	if over := p.c[1].does(t, nil, p.move(3, protocol.MoveListen, 1)); !strings.Contains(over.Failed,
		"let guests of other hosts come") {
		t.Errorf("it says %+v", over)
	}
	v.tm.Lock()
	v.whole["a"] = true // it has come before
	v.tm.Unlock()
	// fetched again by the new agent
	for end := time.Now().Add(2 * time.Minute); !p.m[1].has("sha256:b0b0") && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	check(t, p.m[0].Remove(t.Context(), substrate.Ref{Cluster: "c1", Node: "a"}))
	if over := p.c[1].does(t, nil, p.move(4, protocol.MoveArrive, 1)); over.Failed+over.Gone != "" {
		t.Errorf("it does not arrive: %+v", over)
	}
	p.c[1].until(t, "it runs", runs("a"))
}

func TestWhatASteppingHostSaysIsWhatHappened(t *testing.T) {
	p := newPair(t)
	v := p.m[0].moves
	here := []protocol.HostedGuest{p.guest}
	v.tm.Lock()
	v.fails["leave"] = fmt.Errorf("%w: its QEMU has ended", vm.ErrNotHere)
	v.tm.Unlock()
	if over := p.c[0].does(t, here, p.move(1, protocol.MoveLeave, 2)); !strings.Contains(over.Gone, "its QEMU has ended") ||
		over.Failed != "" {
		t.Errorf("of a guest that is gone it says %+v", over)
	}
	v.tm.Lock()
	v.fails["leave"] = errors.New("libvirt does not answer")
	v.tm.Unlock()
	if over := p.c[0].does(t, here, p.move(2, protocol.MoveLeave, 2)); over.Failed != "libvirt does not answer" ||
		over.Gone != "" {
		t.Errorf("of a step that failed it says %+v", over)
	}
	if over := p.c[0].does(t, here, p.move(3, "jump", 2)); !strings.Contains(over.Failed, `does not know: "jump"`) {
		t.Errorf("of a step that it does not know it says %+v", over)
	}
	m := p.move(4, protocol.MoveSend, 2)
	m.Address = "127.0.0.1:1"
	if over := p.c[0].does(t, here, m); over.Failed == "" {
		t.Errorf("of a way that leads nowhere it says %+v", over)
	}
	p.c[0].until(t, "it runs where it was", runs("a"))
}
