package calls_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/fake"
	"muster/internal/drivers/substrate/substratetest"
	"muster/internal/hostd/calls"
	"muster/internal/hostd/calls/callstest"
	"muster/internal/inventory"
	"muster/internal/place"
	"muster/internal/protocol"
)

// host is the fake with what else a host does.
type host struct {
	*fake.Substrate
	ensured chan substrate.Node
	shares  func(substrate.Network)
	fails   error
	listens net.Listener
	removes func(context.Context) error
}

func (h host) Ensure(ctx context.Context, n substrate.Node) error {
	if h.ensured != nil {
		h.ensured <- n
	}
	if h.fails != nil {
		return fmt.Errorf("node %s: %w", n.Node, h.fails)
	}
	return h.Substrate.Ensure(ctx, n)
}

func (h host) EnsureShared(ctx context.Context, cluster string, n substrate.Network) error {
	if h.shares != nil {
		h.shares(n)
	}
	return h.Substrate.EnsureShared(ctx, cluster, n)
}

func (h host) Remove(ctx context.Context, r substrate.Ref) error {
	if h.removes != nil {
		return h.removes(ctx)
	}
	return h.Substrate.Remove(ctx, r)
}

func (host) Inspect(_ context.Context, i substrate.Inspection) (substrate.Inspected, error) {
	return substrate.Inspected{Done: i.Number == 7, Facts: i.Machine.Facts}, substrate.ErrUnderway
}
func (host) EnsureOff(_ context.Context, m inventory.Machine) (string, error) {
	return "rests: " + m.Name, nil
}
func (host) Introduce(context.Context, string, netip.Addr) error             { return nil }
func (host) Endpoints(context.Context) ([]string, error)                     { return []string{"unix:///there"}, nil }
func (host) HomeUsage(context.Context, string) (size, used int64, err error) { return 3, 2, nil }
func (host) Room(context.Context) (left int64, full string, err error)       { return -1, "full", nil }
func (host) OwnUsers(context.Context) (own bool, why string, err error) {
	return false, "old kernel", nil
}
func (host) Emulates() bool { return true }
func (h host) Listen(context.Context, string, int) (net.Listener, error) {
	if h.listens == nil {
		return nil, fmt.Errorf("listen: %w", os.ErrNotExist)
	}
	return h.listens, nil
}

func node() substrate.Node {
	return substrate.Node{
		Ref: substrate.Ref{Cluster: "c", Node: "n", Boot: 3}, Name: "n1", Machine: "m", Address: substrate.Address(259),
		MAC: substrate.MAC(7, 259), Image: "sha256:00", CPUs: 2, MemoryMiB: 768, ServesHome: true, KeepsState: true, Disk: true,
		File: protocol.BootFile{Node: "n", Name: "n1", Boot: 3, Token: "t", Authority: "PEM", Endpoints: []string{"unix:///s"},
			Attachment: &protocol.Attachment{MAC: "m", Address: "a", Home: "h", Gateway: protocol.Neighbour{Address: "g"}}},
		Allocation: &place.Allocation{Guest: "g", Share: 2,
			Cells: []place.Cell{{NUMA: 1, Cores: []int{4, 5}, MemoryMiB: 768}}, Devices: []string{"0000:41:00.0"}},
		Asked: place.Guest{CPUs: 2, MemoryMiB: 768, Devices: map[string]int{"gpu": 1}, Locality: place.Required, Share: 2},
		Keys:  substrate.PortKeys{0: 0x0123, 0x0002c903000a0b0d: 0x7ffe},
	}
}

func TestAHostIsToldAllOfANode(t *testing.T) {
	h := host{Substrate: fake.New(fake.Options{}), ensured: make(chan substrate.Node, 1)}
	n := node()
	err := callstest.From(t, h).Ensure(t.Context(), n) // its cluster is not there
	select {
	case told := <-h.ensured:
		if d := cmp.Diff(n, told, cmpopts.EquateComparable(netip.Prefix{})); d != "" {
			t.Error(d)
		}
	default:
		t.Error("it is told nothing:", err)
	}
}

func TestAHostIsToldAllOfANetwork(t *testing.T) {
	n := substrate.Network{Segment: 7, Uplinks: []substrate.Uplink{{Namespace: "/n", Interface: "br1", Joined: true}}, Away: true,
		Home: 1 << 30, MTU: 1450, Tunnel: &substrate.Tunnel{From: netip.MustParseAddr("192.0.2.1"), Stations: []substrate.Station{
			{Address: substrate.Address(259).Addr(), At: netip.MustParseAddr("2001:db8::2")}}}}
	var told substrate.Network
	h := host{Substrate: fake.New(fake.Options{}), shares: func(n substrate.Network) { told = n }}
	if err := callstest.From(t, h).EnsureShared(t.Context(), "c", n); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(n, told, cmpopts.EquateComparable(netip.Addr{})); d != "" {
		t.Error(d)
	}
}

// TestErrorsKeepTheirMeaning is what handlers go by.
func TestErrorsKeepTheirMeaning(t *testing.T) {
	for _, meaning := range []error{substrate.ErrStale, substrate.ErrRefused, substrate.ErrUnderway, substrate.ErrNoRoom,
		substrate.ErrStays, substrate.ErrEnded, os.ErrNotExist, errors.ErrUnsupported, syscall.ECONNREFUSED,
		syscall.EHOSTUNREACH, syscall.ETIMEDOUT} {
		c := callstest.From(t, host{Substrate: fake.New(fake.Options{}), fails: meaning})
		err := c.Ensure(t.Context(), node())
		if !errors.Is(err, meaning) || err.Error() != "node n: "+meaning.Error() {
			t.Errorf("%v became %v", meaning, err)
		}
		if errors.Is(err, fake.ErrInjected) {
			t.Errorf("%v is any error", err)
		}
	}
	seen, err := callstest.From(t, host{}).Inspect(t.Context(), substrate.Inspection{Number: 7,
		Machine: inventory.Machine{Facts: inventory.Facts{CPUs: 5}}})
	if !errors.Is(err, substrate.ErrUnderway) || !seen.Done || seen.Facts.CPUs != 5 {
		t.Errorf("an answer beside an error: %+v, %v", seen, err)
	}
}

// TestGuestsKeepTheContract has guests on paper; the contract's real ones are package vm's.
func TestGuestsKeepTheContract(t *testing.T) {
	substratetest.Test(t, func(t *testing.T) substratetest.Harness {
		s := fake.New(fake.Options{})
		c := callstest.Guests(t, host{Substrate: s})
		return substratetest.Harness{
			Caps: substrate.Capabilities{Sleeps: true}, Substrate: c, Shared: s, Sleeper: c, Emulator: c, Image: "sha256:00",
			Untried:  map[string]string{"Shared.Dial": "nobody answers there"},
			Crash:    func(_ *testing.T, r substrate.Ref) { s.Die(r, "crashed") },
			HalfMake: func(_ *testing.T, n substrate.Node) { s.HalfMake(n) },
		}
	})
	if c := callstest.Guests(t, host{Substrate: fake.New(fake.Options{})}); !c.Emulates() || !c.CanSuspend("here") {
		t.Error("what a host can is not told")
	}
}

// TestSubstratesOfAHostAreApart: what one of them has no other has, and none is asked for what it does not do.
func TestSubstratesOfAHostAreApart(t *testing.T) {
	one, other := fake.New(fake.Options{}), fake.New(fake.Options{})
	a := callstest.Agent(t, map[string]calls.Nodes{"one": host{Substrate: one}, "other": nodes{other}})
	ctx, n := t.Context(), node()
	for _, s := range []*fake.Substrate{one, other} {
		if err := s.EnsureShared(ctx, n.Cluster, substrate.Network{Segment: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Host("other").Ensure(ctx, n); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"one": 0, "other": 1} {
		if refs, err := a.Host(name).List(ctx); err != nil || len(refs) != want {
			t.Errorf("%s has %v: %v", name, refs, err)
		}
	}
	if _, err := a.Host("other").ListShared(ctx); err == nil || !strings.Contains(err.Error(), `does not answer "shared/list"`) {
		t.Error(err)
	}
	if _, err := a.Guests(ctx, "third"); err == nil {
		t.Error("a substrate answers that there is not")
	}
}

// nodes is a substrate with nothing but nodes.
type nodes struct{ s *fake.Substrate }

func (n nodes) Ensure(ctx context.Context, of substrate.Node) error          { return n.s.Ensure(ctx, of) }
func (n nodes) Remove(ctx context.Context, r substrate.Ref) error            { return n.s.Remove(ctx, r) }
func (n nodes) List(ctx context.Context) ([]substrate.Ref, error)            { return n.s.List(ctx) }
func (n nodes) EnsureOff(context.Context, inventory.Machine) (string, error) { return "", nil }
func (n nodes) Observe(ctx context.Context, r substrate.Ref) (substrate.Observation, error) {
	return n.s.Observe(ctx, r)
}
func (n nodes) Inspect(context.Context, substrate.Inspection) (substrate.Inspected, error) {
	return substrate.Inspected{Done: true}, nil
}

func TestSmallQuestions(t *testing.T) {
	c, ctx := callstest.From(t, host{Substrate: fake.New(fake.Options{})}), t.Context()
	size, used, err1 := c.HomeUsage(ctx, "c")
	left, full, err2 := c.Room(ctx)
	own, why, err3 := c.OwnUsers(ctx)
	did, err4 := c.EnsureOff(ctx, inventory.Machine{Name: "m"})
	at, err5 := c.Endpoints(ctx)
	got := fmt.Sprintf("%v|%v|%v|%v|%v|%v|%v|%v", size, used, left, full, own, why, did, at)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil || got != "3|2|-1|full|false|old kernel|rests: m|[unix:///there]" {
		t.Error(got, err)
	}
}

func TestAHostThatIsNotThereIsNamed(t *testing.T) {
	c := calls.NewAgent("rack1-03", func(context.Context) (net.Conn, error) {
		return nil, errors.New("no connection")
	}).Host("local")
	for _, err := range []error{
		c.Ensure(t.Context(), node()),
		func() error { _, err := c.Dial(t.Context(), "c", netip.MustParseAddrPort("10.77.0.2:22")); return err }(),
		c.Restore(t.Context(), "s", "c", 0, nil),
	} {
		if err == nil || !strings.Contains(err.Error(), "host rack1-03 is not reached: ") ||
			!strings.Contains(err.Error(), "no connection") {
			t.Error(err)
		}
	}
}

// TestWhoGoesIsNotWaitedFor: what its caller does not wait for any more ends on the host too.
func TestWhoGoesIsNotWaitedFor(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	c := callstest.From(t, host{Substrate: fake.New(fake.Options{}), removes: func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	}})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("fenced out")
	go func() { <-began; cancel(why) }()
	if err := c.Remove(ctx, substrate.Ref{Cluster: "c", Node: "n"}); !errors.Is(err, why) {
		t.Error(err)
	}
	<-ended
}

func TestAConnectionIntoACluster(t *testing.T) {
	inside := fake.New(fake.Options{Connect: func(_ context.Context, cluster string, to netip.AddrPort) (net.Conn, error) {
		if cluster != "c" || to.Port() != 22 {
			return nil, fmt.Errorf("%s %s: %w", cluster, to, os.ErrNotExist)
		}
		return echo(t), nil
	}})
	ctx := t.Context()
	c := callstest.From(t, host{Substrate: inside})
	if err := c.EnsureShared(ctx, "c", substrate.Network{Segment: 1}); err != nil {
		t.Fatal(err)
	}
	conn, err := c.Dial(ctx, "c", netip.MustParseAddrPort("10.77.0.2:22"))
	if err != nil {
		t.Fatal(err)
	}
	wantEcho(t, conn)
	if conn, err := c.Dial(ctx, "c", netip.MustParseAddrPort("10.77.0.2:23")); !errors.Is(err, os.ErrNotExist) || conn != nil {
		t.Error(conn, err)
	}
}

// echo is a connection to somebody who says all again, to the end.
func echo(t *testing.T) net.Conn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
	}
	defer l.Close()
	go func() {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Error(err)
	}
	return conn
}

func wantEcho(t *testing.T, conn net.Conn) {
	t.Helper()
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	said := bytes.Repeat([]byte("muster "), 1<<16)
	go func() {
		_, _ = conn.Write(said)
		_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	heard, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(heard, said) {
		t.Errorf("%d bytes came back of %d: %v", len(heard), len(said), err)
	}
}

func TestWhoComesInAtAPortOfTheHost(t *testing.T) {
	there, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	l, err := callstest.From(t, host{listens: there}).Listen(ctx, "c", 7421)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		outside, err := net.Dial("tcp", there.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		inside, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if inside.RemoteAddr().String() != outside.LocalAddr().String() {
			t.Errorf("%s came as %s", outside.LocalAddr(), inside.RemoteAddr())
		}
		go func() {
			_, _ = io.Copy(inside, inside)
			_ = inside.Close()
		}()
		wantEcho(t, outside)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	for deadline := time.Now().Add(time.Minute); ; { // the host hears of it
		conn, err := net.Dial("tcp", there.Addr().String())
		if err != nil {
			break
		}
		_ = conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("the port is still open")
		}
	}
	if _, err := callstest.From(t, host{}).Listen(ctx, "c", 7421); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// FuzzHandler calls a host with what may come in at its door.
func FuzzHandler(f *testing.F) {
	f.Add("ensure", `{"Cluster":"c","Node":"n","Boot":1,"Address":"10.77.1.1/16","MAC":"AkwAAQEB","Keys":{"0x1":5}}`)
	f.Add("observe", `{"Cluster":"c"}`)
	f.Add("shared/ensure", `{"Cluster":"c","Network":{"Segment":1,"Uplinks":[{"Namespace":"/x"}]}}`)
	f.Add("list", `{}`)
	f.Add("inspect", `{"Machine":{"name":"m"},"Number":7}`)
	f.Add("dial", `{"Cluster":"c","To":"10.77.0.2:22"}`)
	f.Add("accept", `"nobody"`)
	f.Add("save", `null`)
	h := calls.Handler(map[string]calls.Nodes{"local": host{Substrate: fake.New(fake.Options{})}}, calls.NewNotices())
	f.Fuzz(func(t *testing.T, name, body string) {
		r, err := http.NewRequest(http.MethodPost, "http://host/x", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Path = "/local/" + name
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("%s %s: %d %s", name, body, w.Code, w.Body)
		}
	})
}

// BenchmarkObserve is what the wire costs, beside the same call without it.
func BenchmarkObserve(b *testing.B) {
	here := host{Substrate: fake.New(fake.Options{})}
	ctx := b.Context()
	for name, s := range map[string]substrate.Substrate{"here": here, "by wire": callstest.From(b, here)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Observe(ctx, substrate.Ref{Cluster: "c", Node: "n"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
