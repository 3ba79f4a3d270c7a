package hostd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/fake"
	"muster/internal/inventory"
	"muster/internal/place"
	"muster/internal/protocol"
)

var errRefused = errors.New("refused")

// controller wants something, and hears reports.
type controller struct {
	mu      sync.Mutex
	wanted  *protocol.Hosting
	reports []protocol.HostReport
	changed chan struct{} // closed and replaced at each change
	gone    bool          // this boot is not wanted any more
}

func (c *controller) Hosting(ctx context.Context, after int64) (*protocol.Hosting, error) {
	for {
		c.mu.Lock()
		wanted, changed, gone := c.wanted, c.changed, c.gone
		c.mu.Unlock()
		switch {
		case gone:
			return nil, fmt.Errorf("ask: %w", errRefused)
		case wanted != nil && wanted.Revision > after:
			return wanted, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (c *controller) Hosted(_ context.Context, r protocol.HostReport) (protocol.ReportReply, error) {
	text, _ := json.Marshal(r) // as over the wire
	var heard protocol.HostReport
	_ = json.Unmarshal(text, &heard)
	c.edit(func() { c.reports = append(c.reports, heard) })
	return protocol.ReportReply{Every: time.Minute}, nil
}

func (c *controller) edit(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	close(c.changed)
	c.changed = make(chan struct{})
}

// want makes these guests all that is wanted.
func (c *controller) want(guests ...protocol.HostedGuest) { c.tell(guests) }

// tell wants guests, and steps of moves, at once: a host that is told of one after the other keeps no image between.
func (c *controller) tell(guests []protocol.HostedGuest, moves ...protocol.HostedMove) {
	c.edit(func() {
		next := &protocol.Hosting{Revision: 1, Guests: guests, Moves: moves}
		if c.wanted != nil {
			next.Revision = c.wanted.Revision + 1
		}
		needs := func(g protocol.HostedGuest) {
			next.Networks = append(next.Networks, protocol.HostedNetwork{Cluster: g.Cluster, Segment: 7})
			next.Images = append(next.Images, protocol.HostedImage{Digest: g.Image})
		}
		for _, g := range guests {
			needs(g)
		}
		for _, m := range moves {
			needs(m.Guest)
		}
		c.wanted = next
	})
}

// until waits for a report.
func (c *controller) until(t *testing.T, what string, is func(protocol.HostReport) bool) protocol.HostReport {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		c.mu.Lock()
		var last protocol.HostReport
		if len(c.reports) > 0 {
			last = c.reports[len(c.reports)-1]
		}
		heard, changed := len(c.reports) > 0, c.changed
		c.mu.Unlock()
		if heard && is(last) {
			return last
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("not reported: %s; the last report: %+v", what, last)
		}
	}
}

// state is what a report says of a guest; its zero value if nothing.
func state(r protocol.HostReport, node string) protocol.HostedState {
	for _, s := range r.Guests {
		if s.Node == node {
			return s
		}
	}
	return protocol.HostedState{}
}

// machine is a hypervisor of fakes. It outlives each run of its role.
type machine struct {
	*fake.Substrate
	dir    string
	mu     sync.Mutex
	images []string // that are there
	blind  error    // why lost devices cannot be seen now
	holds  map[string]place.Allocation
	unseen map[string]error // guests that cannot be looked at, and why
	moves  *travellers      // nil: guests do not move
	sleeps *dreamers        // nil: guests do not sleep
	looks  func(node string)
	keys   Keys
}

func newMachine(t *testing.T) *machine {
	return &machine{Substrate: fake.New(fake.Options{}), dir: t.TempDir(), holds: map[string]place.Allocation{}}
}

func (m *machine) Emulates() bool { return true }

func (m *machine) has(image string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.images, image)
}

func (m *machine) Ensure(ctx context.Context, n substrate.Node) error {
	m.mu.Lock()
	missing := !slices.Contains(m.images, n.Image)
	m.holds[n.Node] = *n.Allocation
	m.mu.Unlock()
	if missing {
		return fmt.Errorf("image %s is not there", n.Image)
	}
	return m.Substrate.Ensure(ctx, n)
}

func (m *machine) Observe(ctx context.Context, r substrate.Ref) (substrate.Observation, error) {
	if m.looks != nil {
		m.looks(r.Node)
	}
	seen, err := m.Substrate.Observe(ctx, r)
	m.mu.Lock()
	defer m.mu.Unlock()
	if why := m.unseen[r.Node]; why != nil {
		return substrate.Observation{}, why
	}
	if h, ok := m.holds[r.Node]; ok && seen.Present {
		seen.Allocation = &h
	}
	return seen, err
}

func (m *machine) Fetch(_ context.Context, i protocol.HostedImage, say io.Writer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.images = append(m.images, i.Digest)
	fmt.Fprintln(say, "muster: root image: 1 of 2 MiB")
	return nil
}

func (m *machine) Keep(images []protocol.HostedImage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.images = slices.DeleteFunc(m.images, func(there string) bool {
		return !slices.ContainsFunc(images, func(i protocol.HostedImage) bool { return i.Digest == there })
	})
	return nil
}

func (m *machine) PlugPort(context.Context, substrate.Node, string) error { return nil }
func (m *machine) DropPort(context.Context, string, string) error         { return nil }

// run is the role's life until the function it returns is called, which returns how it ended.
func (m *machine) run(t *testing.T, c *controller) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		o := Options{
			Controller: c, Refused: errRefused, Boot: 3, Guests: m, Networks: m, Images: m, Dir: m.dir, Console: io.Discard,
			Look: 10 * time.Millisecond,
			Lost: func() (map[string]string, error) {
				m.mu.Lock()
				defer m.mu.Unlock()
				return map[string]string{"0000:81:00.0": "no reset"}, m.blind
			},
			Partitions: func() map[string]string { return map[string]string{"0000:04:00.1": "guest a saw partition [0x8002]"} },
			Keys:       m.keys, Address: func() (netip.AddrPort, error) { return netip.ParseAddrPort("127.0.0.1:0") },
		}
		if m.moves != nil {
			o.Movers = m.moves
		}
		if m.sleeps != nil {
			o.Sleepers = m.sleeps
		}
		ended <- Run(ctx, o)
	}()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = stop() })
	return stop
}

func newController() *controller { return &controller{changed: make(chan struct{})} }

// wanted is the first boot of a guest, asked for the first time.
func wanted(node string) protocol.HostedGuest {
	return protocol.HostedGuest{
		Cluster: "c1", Node: node, Boot: 1, Try: 1, Name: "n1", Machine: "hv-" + node, Address: "10.77.2.1/16",
		MAC: "02:4d:00:07:02:01", Image: "sha256:b0b0",
		Allocation: json.RawMessage(`{"guest":"` + node + `","cells":[{"numa":0,"cores":[2],"memory_mib":96}],"share":1}`),
		Asked:      json.RawMessage(`{}`),
		File:       protocol.BootFile{Node: node, Token: "secret"},
	}
}

func runs(node string) func(protocol.HostReport) bool {
	return func(r protocol.HostReport) bool { s := state(r, node); return s.Present && s.Running && s.Doing == "" }
}

func TestGuestsComeAndGoAsTheyAreWanted(t *testing.T) {
	m, c := newMachine(t), newController()
	m.run(t, c)
	c.until(t, "a hypervisor without guests", func(r protocol.HostReport) bool {
		return r.Boot == 3 && r.Revision == 0 && len(r.Guests) == 0 && r.Emulates && r.Lost["0000:81:00.0"] == "no reset" &&
			r.Partitions["0000:04:00.1"] == "guest a saw partition [0x8002]"
	})
	c.want(wanted("a"), wanted("b"))
	r := c.until(t, "two guests run", func(r protocol.HostReport) bool { return runs("a")(r) && runs("b")(r) })
	if s := state(r, "a"); s.Boot != 1 || s.Try != 1 || !strings.Contains(string(s.Allocation), `"cores":[2]`) {
		t.Errorf("%+v", s)
	}
	if r.Revision != 1 || !slices.Equal(r.Networks, []string{"c1"}) {
		t.Errorf("%+v", r)
	}
	c.want(wanted("b"))
	c.until(t, "one is gone", func(r protocol.HostReport) bool { return r.Revision == 2 && len(r.Guests) == 1 && runs("b")(r) })
	c.want()
	c.until(t, "nothing is left", func(r protocol.HostReport) bool { return len(r.Guests) == 0 && len(r.Networks) == 0 })
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		m.mu.Lock()
		left := len(m.images)
		m.mu.Unlock()
		if left == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("images are kept that nobody needs")
		}
	}
}

func TestATryIsNotOverBeforeItsGuestWasLookedAt(t *testing.T) {
	m, c := newMachine(t), newController()
	looked, look := make(chan struct{}), make(chan struct{})
	m.looks = func(node string) {
		if node == "a" {
			looked <- struct{}{}
			<-look
		}
	}
	m.run(t, c)
	c.want(wanted("a"))
	<-looked // it runs, and has not been seen
	c.want(wanted("a"), wanted("b"))
	if s := state(c.until(t, "another one runs", runs("b")), "a"); s.Try > 0 || s.Doing != "starts" {
		t.Errorf("of the one that nobody has looked at it is said: %+v", s)
	}
	close(look)
	go func() {
		for range looked {
		}
	}()
	c.until(t, "both run", func(r protocol.HostReport) bool { return runs("a")(r) && state(r, "a").Try == 1 && runs("b")(r) })
}

func TestAGuestThatHasEndedIsMadeAgainOnlyWhenItIsAskedFor(t *testing.T) {
	m, c := newMachine(t), newController()
	m.run(t, c)
	g := wanted("a")
	c.want(g)
	c.until(t, "it runs", runs("a"))
	m.Die(substrate.Ref{Cluster: "c1", Node: "a"}, "its QEMU has ended")
	c.until(t, "it has ended", func(r protocol.HostReport) bool {
		s := state(r, "a")
		return s.Present && !s.Running && s.Detail == "its QEMU has ended" && s.Try == 1
	})
	c.want(g) // again the same
	c.until(t, "it was heard", func(r protocol.HostReport) bool { return r.Revision == 2 })
	if made := m.Calls().Ensure; made != 1 {
		t.Errorf("made %d times", made)
	}
	g.Try = 2
	c.want(g)
	c.until(t, "it runs again", func(r protocol.HostReport) bool { return runs("a")(r) && state(r, "a").Try == 2 })
	g.Boot, g.Try = 2, 1
	c.want(g)
	c.until(t, "its next boot runs", func(r protocol.HostReport) bool { return runs("a")(r) && state(r, "a").Boot == 2 })
}

func TestRefusalsAndFailuresAreTold(t *testing.T) {
	m, c := newMachine(t), newController()
	m.run(t, c)
	m.FailEnsure("a", 1, fmt.Errorf("%w: core 2 is offline", substrate.ErrRefused))
	m.FailEnsure("b", 1, errors.New("QEMU does not start"))
	unreadable := wanted("d")
	unreadable.Address = "here"
	c.want(wanted("a"), wanted("b"), unreadable)
	r := c.until(t, "all tries are over", func(r protocol.HostReport) bool {
		return state(r, "a").Try == 1 && state(r, "b").Try == 1 && state(r, "d").Try == 1
	})
	if s := state(r, "a"); !strings.Contains(s.Refused, "core 2 is offline") || s.Failed != "" || s.Boot != 1 {
		t.Errorf("%+v", s)
	}
	if s := state(r, "b"); s.Refused != "" || !strings.Contains(s.Failed, "QEMU does not start") {
		t.Errorf("%+v", s)
	}
	if s := state(r, "d"); !strings.Contains(s.Failed, "here") || s.Present {
		t.Errorf("%+v", s)
	}
	text, err := json.Marshal(r)
	if err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("a token is in a report: %s %v", text, err)
	}
}

func TestADeviceThatDoesNotTellOfItselfKeepsNoGuestAway(t *testing.T) {
	m, c := newMachine(t), newController()
	m.run(t, c)
	c.until(t, "a lost device", func(r protocol.HostReport) bool { return len(r.Lost) == 1 })
	m.mu.Lock()
	m.blind = errors.New("its record cannot be read")
	m.mu.Unlock()
	c.want(wanted("a"))
	r := c.until(t, "it runs", runs("a"))
	if r.Lost["0000:81:00.0"] != "no reset" {
		t.Errorf("what is lost is forgotten: %v", r.Lost)
	}
	c.want()
	c.until(t, "it is gone", func(r protocol.HostReport) bool { return len(r.Guests) == 0 })
}

func TestWhatIsNotWantedAnyMoreIsGivenUp(t *testing.T) {
	m, c := newMachine(t), newController()
	m.run(t, c)
	defer m.HangEnsure("a")()
	c.want(wanted("a"))
	c.until(t, "it is being made", func(r protocol.HostReport) bool {
		s := state(r, "a")
		return s.Doing == "starts" && s.Boot == 1
	})
	c.want()
	c.until(t, "it is gone", func(r protocol.HostReport) bool { return r.Revision == 2 && len(r.Guests) == 0 })
}

func TestWhoeverComesNextTakesGuestsUp(t *testing.T) {
	m, c := newMachine(t), newController()
	stop := m.run(t, c)
	c.want(wanted("a"), wanted("b"))
	c.until(t, "they run", func(r protocol.HostReport) bool { return runs("a")(r) && runs("b")(r) })
	if err := stop(); err != nil {
		t.Error(err)
	}
	m.Die(substrate.Ref{Cluster: "c1", Node: "b"}, "its QEMU has ended")

	deaf := newController() // that does not say yet what it wants
	stop = m.run(t, deaf)
	r := deaf.until(t, "what is there", func(r protocol.HostReport) bool { return r.Revision == 0 && len(r.Guests) == 2 })
	if !runs("a")(r) || state(r, "b").Running || !state(r, "b").Present {
		t.Errorf("the first report after a start: %+v", r)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}

	made := m.Calls().Ensure
	m.run(t, c)
	c.edit(func() { c.reports = nil })
	r = c.until(t, "the same is wanted", func(r protocol.HostReport) bool { return r.Revision == 1 && state(r, "b").Try == 1 })
	if !runs("a")(r) || state(r, "b").Running || m.Calls().Ensure != made {
		t.Errorf("tries that were over were tried again: %+v", r)
	}
}

// After a start nothing is known of any guest. One that cannot be looked at is told as that, and does not keep its host silent.
func TestAGuestThatCannotBeLookedAtDoesNotSilenceItsHost(t *testing.T) {
	m, c := newMachine(t), newController()
	stop := m.run(t, c)
	c.want(wanted("a"), wanted("b"))
	c.until(t, "they run", func(r protocol.HostReport) bool { return runs("a")(r) && runs("b")(r) })
	if err := stop(); err != nil {
		t.Error(err)
	}
	m.mu.Lock()
	m.unseen = map[string]error{"b": errors.New("its folder cannot be read")}
	m.mu.Unlock()
	deaf := newController()
	m.run(t, deaf)
	r := deaf.until(t, "what is there", func(r protocol.HostReport) bool { return len(r.Guests) == 2 })
	if !runs("a")(r) || state(r, "a").Unseen {
		t.Errorf("the guest that can be looked at: %+v", state(r, "a"))
	}
	if b := state(r, "b"); !b.Unseen || b.Present || b.Boot != 1 || b.Detail != "its folder cannot be read" {
		t.Errorf("the guest that cannot be looked at: %+v", b)
	}
	m.mu.Lock()
	m.unseen = nil
	m.mu.Unlock()
	deaf.until(t, "it can be looked at again", func(r protocol.HostReport) bool { return runs("b")(r) && !state(r, "b").Unseen })
}

func TestATryThatWasInterruptedIsGoneOnWith(t *testing.T) {
	m, c := newMachine(t), newController()
	stop := m.run(t, c)
	defer m.HangEnsure("a")()
	c.want(wanted("a"))
	c.until(t, "it is being made", func(r protocol.HostReport) bool { return state(r, "a").Doing == "starts" })
	if err := stop(); err != nil {
		t.Error(err)
	}
	m.run(t, c)
	r := c.until(t, "it runs", runs("a"))
	if s := state(r, "a"); s.Try != 1 || s.Failed != "" {
		t.Errorf("%+v", s)
	}
}

func TestAHostThatCanHoldNoGuestSaysWhy(t *testing.T) {
	c := newController()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = Run(ctx, Options{Controller: c, Refused: errRefused, Boot: 3, Trouble: "libvirtd is missing", Console: io.Discard})
	}()
	c.until(t, "the trouble", func(r protocol.HostReport) bool { return r.Trouble == "libvirtd is missing" })
}

func TestABootThatIsRefusedEnds(t *testing.T) {
	m, c := newMachine(t), newController()
	c.edit(func() { c.gone = true })
	ended := make(chan error, 1)
	go func() {
		ended <- Run(t.Context(), Options{Controller: c, Refused: errRefused, Guests: m, Networks: m, Images: m, Dir: m.dir,
			Console: io.Discard})
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, errRefused) {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it goes on")
	}
}

func TestFilesInMemoryAreNoMemoryForGuests(t *testing.T) {
	two := inventory.Facts{NUMA: []inventory.NUMANode{{ID: 0, MemoryMiB: 4096}, {ID: 1, MemoryMiB: 4096}}} // keeps 512 and 256
	for files, want := range map[int][2]int{0: {4096, 4096}, 384: {4096, 4096}, 1384: {3096, 4096}, 4384: {512, 3680},
		1 << 20: {512, 256}} {
		got := less(two, files)
		if is := [2]int{got.NUMA[0].MemoryMiB, got.NUMA[1].MemoryMiB}; is != want {
			t.Errorf("with %d MiB of files: %v, want %v", files, is, want)
		}
	}
	if two.NUMA[0].MemoryMiB != 4096 {
		t.Error("the facts that were given have changed")
	}
}
