package gateway

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/kit/printable"
)

// enter is the way into the place that the user name says: the one that is open, or a new one.
func (v *visit) enter(ctx context.Context) (*entrance, error) {
	v.entering.Lock()
	defer v.entering.Unlock()
	v.mu.Lock()
	e := v.head
	v.mu.Unlock()
	if e != nil {
		return e, nil
	}
	switch {
	case v.refusal != nil:
		return nil, v.refusal
	case v.login.person != "" && v.login.person != v.who.caller.Name:
		return nil, &Refusal{Text: fmt.Sprintf("this key is %s's, not %s's", v.who.caller.Name, v.login.person)}
	}
	p, target, recorded, err := v.resolve(ctx, cmp.Or(v.login.ref, printable.Within(v.server.User(), maxName)))
	if err != nil {
		return nil, err
	}
	return v.connect(ctx, p, target, recorded)
}

// connect connects with a place. Writing it down and connecting take their time side by side.
func (v *visit) connect(ctx context.Context, p Place, target Target, recorded bool) (*entrance, error) {
	type connected struct {
		conn     ssh.Conn
		channels <-chan ssh.NewChannel
		requests <-chan *ssh.Request
		err      error
	}
	dialed := make(chan connected, 1)
	go func() {
		var c connected
		c.conn, c.channels, c.requests, c.err = target.Connect(ctx)
		dialed <- c
	}()
	e, err := v.begin(ctx, p, "", recorded)
	c := <-dialed
	if err != nil {
		if c.err == nil {
			_ = c.conn.Close()
		}
		return nil, err
	}
	e.target = target
	if c.err != nil {
		if say, omitted := v.g.lines.Say(v.server.RemoteAddr().String(), time.Now()); say {
			v.g.Log.WarnContext(ctx, "cannot reach a head or an external cluster", "project", p.Project, "place", p.Name, "error",
				printable.Within(c.err.Error(), mostTold), "omitted", omitted)
		}
		v.record(ctx, e, "it did not answer")
		if p.Why != nil {
			return nil, p.Why(v.who.caller.Name, c.err)
		}
		return nil, &Refusal{Text: p.Name + " does not answer", Hint: "`muster describe " + p.ref() + "` shows its state"}
	}
	e.inside, e.close = c.conn, func() { _ = c.conn.Close() }
	if !v.join(e) {
		e.close()
		v.record(ctx, e, v.outcome(""))
		return nil, &Refusal{Text: v.outcome("")}
	}
	v.mu.Lock()
	v.head = e
	v.mu.Unlock()
	go ssh.DiscardRequests(c.requests)
	go func() { // nothing begins at that side: no agents, no X11, no ports of the client's
		for opened := range c.channels {
			reject(opened, ssh.Prohibited, "muster's gateway does not allow this")
		}
	}()
	go keepAlive(ctx, c.conn, v.g.Limits.KeepAlive)
	go func() {
		_ = c.conn.Wait()
		if v.outcome("") == "" {
			v.g.lookNow(ctx)
		}
		v.leave(ctx, e, v.outcome("closed by "+p.Name))
	}()
	return e, nil
}
