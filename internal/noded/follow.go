package noded

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"muster/internal/kit/clock"
	"muster/internal/kit/longpoll"
	"muster/internal/protocol"
)

const (
	retryFirst = 100 * time.Millisecond // after a failed call; doubles
	retryMost  = 5 * time.Second
)

// backoff is a growing pause, spread so that the nodes of a cluster don't come all at the same moment.
type backoff struct{ pause time.Duration }

func (b *backoff) wait(ctx context.Context) error {
	b.pause = min(max(2*b.pause, retryFirst), retryMost)
	return clock.Sleep(ctx, b.pause/2+rand.N(b.pause))
}

func (b *backoff) reset() { b.pause = 0 }

// join tries until it is answered, and returns when the certificate is to be renewed.
func (n *node) join(ctx context.Context) (renewAt time.Time, err error) {
	request, err := n.identity.request(n.boot.Node)
	if err != nil {
		return time.Time{}, err
	}
	var pause backoff
	for first := true; ; first = false {
		token := ""
		if n.identity.shown() == nil { // or no more: for the key that used it first it is good as long as the boot
			token = n.lives.Load().token
		}
		reply, err := n.controller.Join(ctx, protocol.JoinRequest{
			Node: n.boot.Node, Boot: n.boot.Boot, Token: token, CSR: request, HostKey: n.hostKey,
		})
		if err == nil {
			return n.accept(reply)
		}
		if ctx.Err() != nil {
			return time.Time{}, context.Cause(ctx)
		}
		if errors.Is(err, ErrRefused) {
			return time.Time{}, err
		}
		if first {
			n.console.printf("%v; trying on", err)
		}
		if err := pause.wait(ctx); err != nil {
			return time.Time{}, err
		}
	}
}

func (n *node) accept(reply protocol.JoinReply) (renewAt time.Time, err error) {
	if err := n.identity.accept(reply.Certificate); err != nil {
		return time.Time{}, err
	}
	if err := n.liveBy(reply); err != nil {
		return time.Time{}, err
	}
	if n.boot.Duty == protocol.Host {
		if err := n.entrust(reply.Certificate); err != nil {
			return time.Time{}, err
		}
	}
	changed, err := n.system.hostCertificate(reply.HostCertificate)
	if err != nil {
		return time.Time{}, fmt.Errorf("write SSH host certificate: %w", err)
	}
	if changed {
		n.supervisor.signal(sshd, syscall.SIGHUP)
	}
	// With a third of its life left there is time for a controller that is away for long.
	renewAt = time.Now().Add(time.Until(reply.NotAfter) * 2 / 3)
	if soon := time.Now().Add(hostRenews); n.boot.Duty == protocol.Host && soon.Before(renewAt) {
		renewAt = soon
	}
	// a replica that has not heard of the change yet
	if want := n.stamp.Load(); want != nil && *want != "" && *want != reply.Stamp {
		renewAt = time.Now().Add(retryMost)
	}
	return renewAt, nil
}

// hostRenews is how often a hypervisor renews its certificate: its configuration says nothing of the site's keys.
const hostRenews = 5 * time.Minute

// liveBy takes over what the site signs with now.
func (n *node) liveBy(reply protocol.JoinReply) error {
	if reply.Authority != n.lives.Load().authority {
		config, err := n.identity.client(reply.Authority)
		if err != nil {
			return fmt.Errorf("the controllers' new authority: %w", err)
		}
		if c, ok := n.controller.(interface{ believe(*tls.Config) }); ok {
			c.believe(config)
		}
	}
	n.lives.Store(&life{reply.Token, reply.Authority, reply.Stamp})
	return nil
}

// renewFor has the certificates renewed if the site signs with something else than at the last join.
func (n *node) renewFor(stamp string) {
	if n.stamp.Store(&stamp); stamp == "" || stamp == n.lives.Load().stamp {
		return
	}
	clock.Wake(n.slept)
}

// renew joins again over the old certificate before it ends, for as long as the node lives, and when it has slept.
func (n *node) renew(ctx context.Context, at time.Time, end context.CancelCauseFunc) {
	for {
		select {
		case <-time.After(max(time.Until(at), time.Second)):
		case <-n.slept:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		next, err := n.join(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrRefused):
			end(err)
			return
		case err != nil:
			n.console.printf("renew certificate: %v", err)
			next = time.Now().Add(retryMost)
		}
		at = next
	}
}

// follow applies each new configuration until ctx ends or the controller refuses the node.
func (n *node) follow(ctx context.Context) error {
	var applied int64
	var pause backoff
	for {
		config, err := longpoll.Ask(ctx, &n.poll, applied, n.controller.Config)
		if err == nil && config != nil {
			if config.Revision <= applied {
				err = fmt.Errorf("configuration %d is not newer than %d, which is applied", config.Revision, applied)
			} else if err = n.apply(ctx, config); err == nil {
				applied = config.Revision
			}
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrRefused):
			return err
		case err == nil:
			pause.reset()
			continue
		case !errors.Is(err, longpoll.ErrNewer):
			if pause.pause == 0 {
				n.console.printf("%v; trying on", err)
			}
			if err := pause.wait(ctx); err != nil {
				return err
			}
		}
	}
}

// elsewhereLimit is how long an image's own directory of users may take to say whose names are taken.
const elsewhereLimit = 5 * time.Second

// users makes the accounts. New jobs of those who left are refused, and what they have running is ended. After an error it is
// to be called again.
func (n *node) users(ctx context.Context, users []protocol.User) error {
	var others accountFiles
	fresh, err := n.system.fresh(users)
	if len(fresh) > 0 {
		asking, cancel := context.WithTimeout(ctx, elsewhereLimit)
		// fails if it lacks one of them
		passwd, _ := n.deps.processes.Run(asking, append([]string{"getent", "passwd"}, fresh...)...)
		group, _ := n.deps.processes.Run(asking, append([]string{"getent", "group"}, fresh...)...)
		cancel()
		others = accountFiles{passwd: string(passwd), group: string(group)}
	}
	left, told, failed := n.system.users(users, others)
	if err := errors.Join(err, failed, told); err != nil {
		n.console.printf("%v", err)
	}
	if failed != nil {
		return nil
	}
	var refused error
	if n.head != nil {
		refused = n.head.scheduler.Refuse(slices.Sorted(maps.Keys(left)))
	}
	n.leavers.want(left)
	return refused
}

// apply makes the node be as the configuration says. An error means that it is to be applied again; what only one user
// suffers from is told on the console instead.
func (n *node) apply(ctx context.Context, config *protocol.Config) error {
	if err := validate(config); err != nil {
		return err
	}
	first := n.reporter == nil
	if first {
		if err := n.start(ctx, config); err != nil {
			return fmt.Errorf("configuration %d: %w", config.Revision, err)
		}
	}
	err0 := n.users(ctx, config.Users)
	sshdChanged, err1 := n.system.apply(config, n.listenOn(config.Self))
	stale, err2 := n.driver.Apply(config)
	if err := errors.Join(err0, err1, err2); err != nil {
		return fmt.Errorf("configuration %d: %w", config.Revision, err)
	}
	n.renewFor(config.Stamp)
	failed := n.deps.neighbours.set(config.Self.MAC, neighbours(config))
	n.tester.want(config)
	if config.Self.Role == protocol.Head {
		n.pause(ctx, config.Pause)
	}
	if n.head != nil {
		n.head.want(config.Peers)
	}
	if n.duty != nil {
		n.duty.want(ctx, config)
	}
	if !n.served {
		if err := n.serve(ctx, config); err != nil {
			return fmt.Errorf("configuration %d: %w", config.Revision, err)
		}
		n.served = true
	} else { // nodes that come and go are nothing that running daemons have to be told of
		if sshdChanged {
			n.supervisor.signal(sshd, syscall.SIGHUP)
		}
		for _, s := range stale {
			if s.Reads {
				n.supervisor.signal(s.Daemon, syscall.SIGHUP)
			} else {
				n.supervisor.restart(s.Daemon)
			}
		}
	}
	if config.Self.Role == protocol.Head {
		if err := n.export(ctx, config); err != nil {
			failed = errors.Join(failed, err)
		}
		n.homes.want(config.Users, config.ClusterID)
	}
	if failed != nil {
		return fmt.Errorf("configuration %d: %w", config.Revision, failed)
	}
	n.reporter.setRevision(config.Revision)
	n.console.printf("configuration %d applied: %d nodes, %d users", config.Revision, len(config.Peers), len(config.Users))
	return nil
}
