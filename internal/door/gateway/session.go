package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/kit/clock"
	"muster/internal/kit/printable"
)

// asksFor lists what a client may ask of a session. Not in it: agent forwarding and X11.
func asksFor() []string {
	return []string{"pty-req", "env", "shell", "exec", "subsystem", "window-change", "signal", "break", "xon-xoff",
		"eow@openssh.com"}
}

// starts says whether a request starts what the session is for, and what that is.
func starts(r *ssh.Request) (what string, ok bool) {
	switch r.Type {
	case "shell", "exec":
		return r.Type, true
	case "subsystem":
		var m struct{ Name string }
		if ssh.Unmarshal(r.Payload, &m) == nil && m.Name == "sftp" {
			return m.Name, true
		}
		return "subsystem", true
	}
	return "", false
}

// session carries a session channel. A person who cannot be let through is told on stderr, once there is somebody to read it.
func (v *visit) session(ctx context.Context, opened ssh.NewChannel) {
	e, err := v.enter(ctx)
	var inside ssh.Channel
	var answers <-chan *ssh.Request
	if err == nil {
		inside, answers, err = e.inside.OpenChannel("session", nil)
		if err != nil {
			err = &Refusal{Text: e.row.Place + " opens no session: " + printable.Within(err.Error(), 200)}
		}
	}
	outside, requests, accepted := opened.Accept()
	if accepted != nil {
		if inside != nil {
			_ = inside.Close()
			ssh.DiscardRequests(answers)
		}
		return
	}
	s := &relayed{v: v, outside: outside, requests: requests}
	defer s.forget()
	if err != nil {
		v.g.backlog.while(v, func() { // what comes meanwhile is not read
			if s.hold(); s.start != nil {
				e, inside, answers, err = s.comeBack(ctx, err)
			}
		})
		switch {
		case s.start == nil:
			_ = outside.Close()
			return
		case err != nil:
			s.refuse(err)
			return
		}
	}
	s.e, s.inside, s.answers = e, inside, answers
	s.run(ctx)
}

// relayed is a session channel at both sides.
type relayed struct {
	v        *visit
	e        *entrance
	outside  ssh.Channel // the person's
	requests <-chan *ssh.Request
	inside   ssh.Channel // the place's
	answers  <-chan *ssh.Request

	held      []*ssh.Request // came before there was an inside; answered
	start     *ssh.Request   // the same, not answered
	passing   sync.Mutex     // held while a request of the client's is carried and answered
	started   bool           // what the session is for
	terminal  bool
	recording recording

	ending sync.Mutex // held while the client is told an exit status
	broken bool       // by the gateway: what the place says of its end does not count
}

// mostHeld is how many bytes of requests are kept that come before the one that starts something.
const (
	mostHeld  = 64 << 10
	leastHeld = 64 // that one counts for besides its payload
)

// hold takes requests until the one that starts something; only then does the client read. A client that starts nothing is not
// waited for.
func (s *relayed) hold() {
	late := time.AfterFunc(s.v.g.Limits.Handshake, func() { _ = s.outside.Close() })
	defer late.Stop()
	size := 0
	for r := range s.requests {
		s.see(r)
		if _, ok := starts(r); ok {
			s.start = r
			s.listen()
			return
		}
		size += len(r.Payload) + leastHeld
		known := slices.Contains(asksFor(), r.Type) && size <= mostHeld
		if r.WantReply {
			_ = r.Reply(known, nil)
		}
		if known {
			s.held = append(s.held, &ssh.Request{Type: r.Type, Payload: r.Payload})
		}
	}
}

// see notes what a request says of the terminal.
func (s *relayed) see(r *ssh.Request) {
	switch r.Type {
	case "pty-req":
		s.terminal = true
		s.recording.size(ptySize(r.Payload))
	case "window-change":
		s.recording.resize(windowSize(r.Payload))
	}
}

// listen makes the channel one where the person may be told things.
func (s *relayed) listen() {
	s.v.mu.Lock()
	defer s.v.mu.Unlock()
	s.v.stderrChannels[s.outside] = s.terminal
}

func (s *relayed) forget() {
	s.v.mu.Lock()
	defer s.v.mu.Unlock()
	delete(s.v.stderrChannels, s.outside)
}

// refuse says why nothing comes of it.
func (s *relayed) refuse(err error) {
	go ssh.DiscardRequests(s.requests)
	_ = s.start.Reply(true, nil)
	say(s.outside, false, err.Error()+map[bool]string{true: "\r"}[s.terminal])
	s.fails()
	_ = s.outside.Close()
}

// fails tells the client the exit status that ssh itself ends with when it does not get there.
func (s *relayed) fails() {
	_, _ = s.outside.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{255}))
}

// run carries everything both ways until the place has closed its side. Requests and data of one direction keep no order
// between them in SSH, apart from the end: it waits for all.
func (s *relayed) run(ctx context.Context) {
	for _, r := range s.held {
		_, _ = s.inside.SendRequest(r.Type, r.WantReply, r.Payload)
	}
	if s.start != nil {
		s.pass(ctx, s.start)
	}
	var output, all sync.WaitGroup
	all.Go(func() {
		for r := range s.requests {
			s.see(r)
			s.pass(ctx, r)
		}
		_ = s.inside.Close() // the client has closed the channel
	})
	ended, exited := make(chan struct{}), make(chan struct{})
	var whole atomic.Bool // it has an exit code: it was not broken off
	go func() {           // until the client's input ends, or at the first write after the place has closed
		defer close(ended)
		s.v.toPlace(s.e, s.inside, s.outside)
		_ = s.inside.CloseWrite()
	}()
	output.Go(func() { s.v.toPerson(s.e, s.screen(), s.inside) })
	output.Go(func() { s.v.toPerson(s.e, s.outside.Stderr(), s.inside.Stderr()) })
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		output.Wait()
		lastWords(ended, exited)
		if !whole.Load() {
			s.v.g.lookNow(ctx)
		}
		if s.v.outcome("") != "" { // the person is being told why
			_ = s.v.server.Wait()
		}
		_ = s.outside.CloseWrite()
	}()
	exit := sync.OnceFunc(func() { close(exited) })
	for r := range s.answers {
		if r.Type == "exit-status" {
			whole.Store(true)
		}
		s.answer(r)
		if r.Type == "exit-status" || r.Type == "exit-signal" {
			exit()
		}
	}
	exit()
	<-finished
	s.passing.Lock() // a command may have ended before its client heard that it began
	_ = s.outside.Close()
	s.passing.Unlock()
	all.Wait()
	s.recording.close()
}

// answer hands a request of the place's on.
func (s *relayed) answer(r *ssh.Request) {
	s.ending.Lock()
	defer s.ending.Unlock()
	if s.broken {
		return
	}
	s.hand(r, s.outside)
}

// hand hands a request on to the other side, and its answer back, which it returns.
func (s *relayed) hand(r *ssh.Request, to ssh.Channel) (answer bool) {
	s.v.g.backlog.while(s.v, func() {
		ok, err := to.SendRequest(r.Type, r.WantReply, r.Payload)
		if answer = ok && err == nil; r.WantReply {
			_ = r.Reply(answer, nil)
		}
	})
	return answer
}

// breakOff ends a terminal, and tells its client why and that it failed.
func (s *relayed) breakOff(why string) {
	s.ending.Lock()
	defer s.ending.Unlock()
	s.broken = true
	say(s.outside, true, why)
	s.fails()
	_ = s.inside.Close()
}

// silence is how long a command that has closed its output may go on before the client is told of that.
const silence = time.Second

// lastWords waits with the end of the output for the exit code. A client whose input has ended too closes the channel at
// the end of the output, and what comes after that is lost.
func lastWords(ended, exited <-chan struct{}) {
	select {
	case <-exited:
		return
	case <-time.After(silence):
	}
	select {
	case <-ended:
		<-exited
	default:
	}
}

// pass hands a request of the client's on.
func (s *relayed) pass(ctx context.Context, r *ssh.Request) {
	s.passing.Lock()
	defer s.passing.Unlock()
	if !slices.Contains(asksFor(), r.Type) {
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
		return
	}
	if what, ok := starts(r); ok {
		if s.started { // of these one succeeds in a channel (RFC 4254, 6.5)
			_ = r.Reply(false, nil)
			return
		}
		s.e.does(what)
		s.listen()
		if s.terminal && s.e.row.Recorded {
			if err := s.record(ctx); err != nil {
				_ = r.Reply(true, nil)
				s.breakOff(err.Error())
				return
			}
		}
	}
	ok := s.hand(r, s.inside)
	if _, begins := starts(r); begins { // a recording begins with the try
		s.started = ok || !r.WantReply || s.terminal && s.e.row.Recorded
	}
}

// comeBack brings a paused place back, if that is what logins do there, and waits until it can be entered.
func (s *relayed) comeBack(ctx context.Context, why error) (*entrance, ssh.Channel, <-chan *ssh.Request, error) {
	e, err := s.v.await(ctx, why, func(text string) { say(s.outside, false, text+map[bool]string{true: "\r"}[s.terminal]) })
	if err != nil {
		return nil, nil, nil, err
	}
	inside, answers, err := e.inside.OpenChannel("session", nil)
	return e, inside, answers, err
}

// await resumes a place and waits for it. It returns why, if that is nothing to wait for.
func (v *visit) await(ctx context.Context, why error, tell func(string)) (*entrance, error) {
	var refusal *Refusal
	if !errors.As(why, &refusal) || !refusal.Resume {
		return nil, why
	}
	p, err := v.resume(ctx)
	if err != nil {
		return nil, err
	}
	tell(p.Name + " was paused and comes back")
	for last := ""; ; {
		e, err := v.enter(ctx)
		if err == nil {
			return e, nil
		}
		if !errors.As(err, &refusal) || !refusal.Wait && !refusal.Resume {
			return nil, err
		}
		if refusal.Text != last {
			last = refusal.Text
			tell(last)
		}
		if err := clock.Sleep(ctx, v.g.Limits.Look/2); err != nil {
			return nil, err
		}
	}
}
