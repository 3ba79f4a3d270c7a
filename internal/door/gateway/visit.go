package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/core"
	"muster/internal/kinds/person"
	"muster/internal/kit/clock"
	"muster/internal/kit/printable"
)

// visit is one connection of a person who is in.
type visit struct {
	g       *Gateway
	server  *ssh.ServerConn
	who     who
	login   login
	refusal error // why nothing is let through; nil: what the person may

	entering sync.Mutex // only one channel at a time opens the place that the user name says

	mu             sync.Mutex
	head           *entrance            // into that place; nil before the first channel
	open           []*entrance          // that one, and those of ProxyJump
	stderrChannels map[ssh.Channel]bool // channels whose stderr a person may read; true: of a terminal
	reason         string               // why it ends; "": it goes on
	checked        int64                // access revision at which it was known that the person may be here
}

func newVisit(g *Gateway, server *ssh.ServerConn) *visit {
	w, _ := server.Permissions.ExtraData[extraWho{}].(who)
	return &visit{g: g, server: server, who: w, login: parseLogin(server.User()), stderrChannels: map[ssh.Channel]bool{}}
}

// carry serves the connection until it ends.
func (v *visit) carry(ctx context.Context, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { v.answer(requests) })
	all.Go(func() { keepAlive(ctx, v.server, v.g.Limits.KeepAlive) })
	if _, _, err := v.server.SendRequest(announceKeys, false, v.g.keys.announcement()); err != nil {
		_ = v.server.Close()
	}
	running := make(chan struct{}, v.g.Limits.Channels)
	for opened := range channels {
		leave, over := v.g.channels.Enter(v.who.caller.Name, false)
		switch {
		case over != nil:
			reject(opened, ssh.ResourceShortage, over.Error())
			continue
		case len(opened.ExtraData()) > mostExtra: // it stays for as long as the channel does
			reject(opened, ssh.ResourceShortage, "too much is said of a channel")
			leave()
			continue
		}
		select {
		case running <- struct{}{}:
			all.Go(func() {
				defer func() { leave(); <-running }()
				v.channel(ctx, opened)
			})
		default:
			reject(opened, ssh.ResourceShortage, "too many channels in one connection")
			leave()
		}
	}
	cancel()
	v.mu.Lock()
	if v.reason == "" { // from now on nothing joins: a channel may just be on its way into a place
		v.reason = "closed by the person"
	}
	open := slices.Clone(v.open)
	v.mu.Unlock()
	for _, e := range open {
		e.close()
	}
	all.Wait()
	for _, e := range open {
		v.leave(ctx, e, v.outcome(""))
	}
}

// mostExtra is how many bytes a client may say of a channel as it opens it: names of hosts, and ports.
const mostExtra = 4 << 10

// channel serves one channel. What is not named here is refused: agents, X11, ports of the client's host, sockets,
// network devices.
func (v *visit) channel(ctx context.Context, opened ssh.NewChannel) {
	switch kind := opened.ChannelType(); kind {
	case "session":
		v.session(ctx, opened)
	case "direct-tcpip":
		v.forward(ctx, opened)
	default:
		reject(opened, ssh.Prohibited, "muster's gateway does not allow "+printable.Within(kind, 60))
	}
}

// answer answers what is asked about the connection itself. Ports of the cluster's side are not forwarded.
func (v *visit) answer(requests <-chan *ssh.Request) {
	for r := range requests {
		if r.Type == proveKeys {
			proofs := v.g.keys.prove(v.server.SessionID(), r.Payload)
			_ = r.Reply(proofs != nil, proofs)
			continue
		}
		if r.WantReply {
			_ = r.Reply(false, nil) // also the answer that keepalive@openssh.com expects
		}
	}
}

// keepAlive asks the peer of a connection whether it is there, and closes one that does not answer. TCP would find out
// too, hours later.
func keepAlive(ctx context.Context, conn ssh.Conn, every time.Duration) {
	for clock.Sleep(ctx, every) == nil {
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			_, _, _ = conn.SendRequest("keepalive@openssh.com", true, nil)
		}()
		select {
		case <-answered: // that it refuses is an answer
		case <-ctx.Done():
			return
		case <-time.After(2 * every):
			_ = conn.Close()
			return
		}
	}
}

// entrance is a place that a visit has been let into: what a row of sessions tells of.
type entrance struct {
	row    person.Session
	target Target
	close  func()
	inside ssh.Conn // to the place's sshd; nil for ProxyJump, which only carries bytes
	flow   flow

	mu      sync.Mutex
	what    []string
	checked int64 // access revision at which it was known that the person may be there; 0: not since it was opened
	place   int64 // the place's own revision then
}

// does notes what somebody does in a place.
func (e *entrance) does(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Contains(e.what, what) {
		e.what = append(e.what, what)
	}
}

// session is the row as it is now.
func (e *entrance) session() person.Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	row := e.row
	row.What, row.Received, row.Sent = strings.Join(e.what, ","), e.flow.received.Load(), e.flow.sent.Load()
	return row
}

// resolve finds and authorises a place, from what is true now.
func (v *visit) resolve(ctx context.Context, ref string) (p Place, t Target, recorded bool, err error) {
	err = v.g.DB.View(ctx, func(tx *core.Tx) error {
		caller, err := callerOf(ctx, tx, v.who)
		if errors.Is(err, core.ErrNotFound) {
			return &Refusal{Text: reasonKey}
		}
		if err != nil {
			return err
		}
		if p, err = v.g.find(ctx, tx, caller, ref); err != nil {
			return err
		}
		project, err := person.GetProject(ctx, tx, p.Project)
		if err != nil {
			return err
		}
		recorded = project.Recorded
		t, err = p.Open(ctx, tx, caller.Name)
		return err
	})
	return p, t, recorded, v.tellable(ctx, err)
}

// tellable is an error as the person may read it.
func (v *visit) tellable(ctx context.Context, err error) error {
	var refusal *Refusal
	if err == nil || errors.As(err, &refusal) || ctx.Err() != nil {
		return err
	}
	v.g.Log.ErrorContext(ctx, "cannot open a session", "person", v.who.caller.Name, "error", err)
	return errInternal
}

// begin writes that somebody is let in, before anything is carried: what is in no row has not been.
func (v *visit) begin(ctx context.Context, p Place, what string, recorded bool) (*entrance, error) {
	if over := v.g.sessions.More(v.who.caller.Name, time.Now()); over != nil {
		return nil, &Refusal{Text: over.Text, Hint: over.Hint}
	}
	e := &entrance{row: person.Session{
		ID: newID("s"), Person: v.who.caller.Name, Credential: v.who.credential(), Gateway: v.g.Name, Kind: p.Kind, PlaceID: p.ID,
		Place:   p.Name,
		Project: p.Project, What: what, Remote: v.server.RemoteAddr().String(), Recorded: recorded,
	}}
	if what != "" {
		e.does(what)
	}
	err := v.g.DB.Quietly(core.For(ctx, core.OfPerson(v.who.caller.Name)), func(tx *core.Tx) error {
		return errors.Join(person.BeginSession(ctx, tx, e.row), person.Audit(ctx, tx, v.entry(e.row, "begin-session", "let in")))
	})
	return e, v.tellable(ctx, err)
}

func (v *visit) entry(s person.Session, action, outcome string) person.Entry {
	return person.Entry{ID: newID("a"), Person: s.Person, Token: v.who.caller.Token, Door: person.SSHDoor, Action: action,
		Project: s.Project, Object: s.Place, Outcome: outcome,
		Remote: s.Remote, Request: s.ID}
}

// join makes an entrance part of the visit, or not, if that is about to end.
func (v *visit) join(e *entrance) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.reason != "" {
		return false
	}
	v.open = append(v.open, e)
	v.g.Telemetry.SessionBegan(e.row.Kind)
	return true
}

// leave writes the end of an entrance. Of two calls the first counts.
func (v *visit) leave(ctx context.Context, e *entrance, outcome string) {
	v.mu.Lock()
	was := len(v.open)
	v.open = slices.DeleteFunc(v.open, func(one *entrance) bool { return one == e })
	if v.head == e {
		v.head = nil
	}
	known := len(v.open) < was
	v.mu.Unlock()
	if !known {
		return
	}
	v.record(ctx, e, outcome)
	v.g.Telemetry.SessionEnded(e.row.Kind, e.flow.received.Load(), e.flow.sent.Load())
}

// record writes the end of an entrance's row, also when the connection or the gateway has ended.
func (v *visit) record(ctx context.Context, e *entrance, outcome string) {
	row := e.session()
	row.Outcome = outcome
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := v.g.DB.Quietly(limited, func(tx *core.Tx) error {
		return errors.Join(person.EndSession(limited, tx, row), person.Audit(limited, tx, v.entry(row, "end-session", outcome)))
	})
	if err != nil {
		v.g.Log.ErrorContext(limited, "cannot write the end of a session", "session", row.ID, "error", err)
	}
}

// outcome is why a session ends: what the gateway says, or else the usual.
func (v *visit) outcome(usual string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return cmp.Or(v.reason, usual)
}

// farewell is how long the last words to a person may take.
const farewell = 2 * time.Second

// end tells the person why, and ends the visit. It does not wait.
func (v *visit) end(reason string) {
	v.mu.Lock()
	if v.reason != "" {
		v.mu.Unlock()
		return
	}
	v.reason = reason
	var said sync.WaitGroup
	for channel, terminal := range v.stderrChannels {
		said.Go(func() { say(channel, terminal, "this session ends: "+reason) })
	}
	v.mu.Unlock()
	time.AfterFunc(farewell, func() { _ = v.server.Close() }) // a client that does not read is not waited for
	go func() {
		said.Wait()
		_ = v.server.Close()
	}()
}

// say writes a line to a person's stderr. Terminals are in raw mode.
func say(channel ssh.Channel, terminal bool, text string) {
	begin, end := "", "\n"
	if plain, given := strings.CutSuffix(text, "\r"); given {
		text, end = plain, "\r\n"
	}
	if terminal {
		begin, end = "\r\n", "\r\n"
	}
	// who has gone needs no words
	_, _ = channel.Stderr().Write([]byte(begin + "muster: " + printable.Within(text, mostTold) + end))
}

// reject refuses a channel with words that the client shows to its user.
func reject(opened ssh.NewChannel, reason ssh.RejectionReason, why string) {
	_ = opened.Reject(reason, printable.Within(why, mostTold)) // who has gone needs no words
}

// mostTold is how many bytes a person is told at once: reasons hold what machines and other hosts said.
const mostTold = 2 << 10
