package gateway

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// Each channel whose end is not read holds megabytes in the gateway: a hundred held 600 MiB within seconds.
func TestWhoHasManyChannelsThatNobodyReadsIsEnded(t *testing.T) {
	s := newFixture(t, func(g *Gateway) { g.Limits.Backlog = Backlog{Person: 4, Crowded: 4, All: 100} })
	stuff := func(c *ssh.Client) error {
		session, err := c.NewSession()
		if err != nil {
			return err
		}
		input, err := session.StdinPipe()
		if err != nil {
			return err
		}
		if _, err := session.StdoutPipe(); err != nil { // it is never read
			return err
		}
		if err := session.Start("echo"); err != nil {
			return err
		}
		go func() {
			for piece := []byte(strings.Repeat("x", 1<<20)); ; {
				if _, err := input.Write(piece); err != nil {
					return
				}
			}
		}()
		return nil
	}
	modest, greedy := s.client("cfd"), s.client("cfd")
	ended := func(c *ssh.Client) <-chan struct{} {
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_ = c.Wait()
		}()
		return gone
	}
	modestGone, greedyGone := ended(modest), ended(greedy)
	for i, c := range []*ssh.Client{modest, greedy, greedy, greedy} { // each waits in both directions
		if err := stuff(c); err != nil && i < 3 { // by the last it may be ended already
			t.Fatal(err)
		}
	}
	select {
	case <-greedyGone:
	case <-time.After(time.Minute):
		t.Fatal("what nobody reads is held for a minute")
	}
	time.Sleep(2 * waitsLong)
	select {
	case <-modestGone:
		t.Error("who has few is ended with who has many")
	default:
	}
}

func TestBacklogsAreSharesOfPersons(t *testing.T) {
	named := func(name string) *visit {
		v := &visit{}
		v.who.caller.Name = name
		return v
	}
	alice, alices, bob := named("alice"), named("alice"), named("bob")
	for name, c := range map[string]struct {
		limits Backlog
		ends   []*visit
	}{
		"nobody has too many":                   {Backlog{Person: 9, Crowded: 1, All: 99}, nil},
		"one person has":                        {Backlog{Person: 5, Crowded: 1, All: 99}, []*visit{alice}},
		"so much that both connections go":      {Backlog{Person: 1, Crowded: 1, All: 99}, []*visit{alice, alices, bob}},
		"all together have, and shares shrink":  {Backlog{Person: 9, Crowded: 3, All: 10}, []*visit{alice}},
		"all together have, and nobody is over": {Backlog{Person: 9, Crowded: 9, All: 10}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var b backlog
			now := time.Now()
			for v, n := range map[*visit]int{alice: 5, alices: 3, bob: 3} {
				for range n {
					d, leave := b.enter(v)
					defer leave()
					d.since.Store(now.Add(-2 * waitsLong).UnixNano())
				}
				b.enter(v)                    // it reads, as it should
				d, _ := b.enter(v)            //
				d.since.Store(now.UnixNano()) // and this one has only just begun to wait
			}
			ends := map[*visit]bool{}
			for _, v := range b.over(c.limits, now) {
				ends[v] = true
			}
			if len(ends) != len(c.ends) {
				t.Errorf("%d visits end, not %d", len(ends), len(c.ends))
			}
			for _, v := range c.ends {
				if !ends[v] {
					t.Errorf("a visit of %s goes on", v.who.caller.Name)
				}
			}
		})
	}
}

// stuck is a channel whose peer answers no request until it is told.
type stuck struct {
	ssh.Channel
	answers chan struct{}
}

func (s stuck) SendRequest(string, bool, []byte) (bool, error) { <-s.answers; return true, nil }

// While a request waits for its answer, what else comes fills the gateway's memory.
func TestRequestsThatNobodyAnswersWait(t *testing.T) {
	v := &visit{g: &Gateway{}}
	peer, handed := stuck{answers: make(chan struct{})}, make(chan struct{})
	go func() {
		defer close(handed)
		(&relayed{v: v}).hand(&ssh.Request{Type: "env"}, peer)
	}()
	ends := func() int { return len(v.g.backlog.over(Backlog{}, time.Now().Add(2*waitsLong))) }
	for deadline := time.Now().Add(time.Minute); ends() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not count")
		}
	}
	close(peer.answers)
	<-handed
	if ends() > 0 {
		t.Error("it counts when it has been answered")
	}
}

// closes is a channel that ends its requests when it is closed.
type closes struct {
	ssh.Channel
	requests chan *ssh.Request
}

func (c closes) Close() error { close(c.requests); return nil }

func TestWhatComesBeforeASessionBeginsIsBounded(t *testing.T) {
	held := func(requests chan *ssh.Request, within time.Duration) *relayed {
		g := &Gateway{Limits: Limits{Handshake: within}}
		v := &visit{g: g, stderrChannels: map[ssh.Channel]bool{}}
		s := &relayed{v: v, outside: closes{requests: requests}, requests: requests}
		s.hold()
		return s
	}
	requests := make(chan *ssh.Request)
	go func() {
		for range 20_000 {
			requests <- &ssh.Request{Type: "env", Payload: make([]byte, 100)}
		}
		requests <- &ssh.Request{Type: "exec"}
	}()
	if s := held(requests, time.Minute); s.start == nil || len(s.held) == 0 || len(s.held) > mostHeld/100 {
		t.Errorf("%d requests are kept, and then %v", len(s.held), s.start)
	}
	if s := held(make(chan *ssh.Request), 10*time.Millisecond); s.start != nil {
		t.Error("who starts nothing is waited for")
	}
}
