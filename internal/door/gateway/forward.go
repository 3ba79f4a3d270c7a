package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/crypto/ssh"

	"muster/internal/kit/printable"
)

// sshPort is the only port of a node that ProxyJump reaches.
const sshPort = 22

// directTCP is what a client wants a connection to (RFC 4254, 7.2).
type directTCP struct {
	Host       string
	Port       uint32
	Origin     string
	OriginPort uint32
}

// forward carries a connection: to the SSH port of a node, for ProxyJump, or from where the person is logged in to
// another port of that cluster.
func (v *visit) forward(ctx context.Context, opened ssh.NewChannel) {
	var to directTCP
	if ssh.Unmarshal(opened.ExtraData(), &to) != nil || to.Port > 65535 {
		reject(opened, ssh.ConnectionFailed, "a malformed request")
		return
	}
	var err error = &Refusal{Text: fmt.Sprintf("%s:%d is not a port of one of your clusters", printable.Within(to.Host, maxName),
		to.Port)}
	if to.Port == sshPort {
		var done bool
		if done, err = v.jump(ctx, opened, to.Host); done {
			return
		}
	}
	if v.login.ref == "" {
		reject(opened, ssh.Prohibited, err.Error())
		return
	}
	e, failed := v.enter(ctx)
	if failed != nil {
		reject(opened, ssh.ConnectionFailed, failed.Error())
		return
	}
	address, ok := "", false
	if e.target.Forward != nil {
		address, ok = e.target.Forward(to.Host)
	}
	if !ok {
		reject(opened, ssh.Prohibited, fmt.Sprintf("%s is no node of %s; ports are forwarded to its own nodes only",
			printable.Within(to.Host, maxName), e.row.Place))
		return
	}
	to.Host = address
	inside, requests, err := e.inside.OpenChannel("direct-tcpip", ssh.Marshal(to))
	if err != nil {
		text := "it does not answer"
		if refused, is := errors.AsType[*ssh.OpenChannelError](err); is {
			text = refused.Message
		}
		reject(opened, ssh.ConnectionFailed, printable.Within(text, 200))
		return
	}
	go ssh.DiscardRequests(requests)
	e.does("forward")
	v.splice(opened, e, inside)
}

// splice carries bytes between a channel of the person's and the far side, until both directions have ended.
func (v *visit) splice(opened ssh.NewChannel, e *entrance, inside io.ReadWriteCloser) {
	defer func() { _ = inside.Close() }()
	outside, requests, err := opened.Accept()
	if err != nil {
		return
	}
	defer func() { _ = outside.Close() }()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		ssh.DiscardRequests(requests) // until the person's side is closed
		_ = inside.Close()
	}()
	var both sync.WaitGroup
	both.Go(func() {
		v.toPlace(e, inside, outside)
		if half, ok := inside.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	})
	both.Go(func() {
		v.toPerson(e, outside, inside)
		_ = outside.CloseWrite()
	})
	both.Wait()
}

// jump carries a connection to the sshd of a node. It returns false, and why, if the name means no node that this person
// may log in to; otherwise it has answered the channel.
func (v *visit) jump(ctx context.Context, opened ssh.NewChannel, host string) (done bool, err error) {
	err = &Refusal{Text: fmt.Sprintf("%q is not the name of a node", printable.Within(host, maxName)),
		Hint: "NODE.CLUSTER or NODE.CLUSTER.PROJECT is"}
	if v.refusal != nil {
		return false, v.refusal
	}
	for _, j := range parseJump(host) {
		p, target, recorded, unknown := v.resolve(ctx, j.ref)
		if unknown != nil {
			err = unknown
			if p.ID == "" {
				continue
			}
			reject(opened, ssh.ConnectionFailed, unknown.Error())
			return true, nil
		}
		if target.Jump == nil {
			err = &Refusal{Text: "ProxyJump does not lead to " + p.Name}
			continue
		}
		inside, failed := target.Jump(ctx, j.node)
		if failed != nil {
			err = v.tellable(ctx, failed)
			reject(opened, ssh.ConnectionFailed, err.Error())
			return true, nil
		}
		e, failed := v.begin(ctx, p, "jump", recorded)
		if failed != nil {
			_ = inside.Close()
			reject(opened, ssh.ConnectionFailed, failed.Error())
			return true, nil
		}
		e.close = func() { _ = inside.Close() }
		if !v.join(e) {
			e.close()
			reject(opened, ssh.Prohibited, v.outcome(""))
			v.record(ctx, e, v.outcome(""))
			return true, nil
		}
		v.splice(opened, e, inside)
		v.leave(ctx, e, v.outcome("closed"))
		return true, nil
	}
	return false, err
}
