package hosting

import (
	"context"
	"errors"
	"time"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/remote"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
	"muster/internal/protocol"
)

// ledger is the database as the driver of guests elsewhere asks for it.
type ledger struct{ db *core.Store }

func (l ledger) Changed() <-chan struct{} { return l.db.Changed() }

func (l ledger) Look(ctx context.Context, node string) (e remote.Entry, err error) {
	err = l.db.View(ctx, func(tx *core.Tx) error {
		e, _, err = entryOf(ctx, tx, node)
		return err
	})
	return e, err
}

// entryOf finds a node's entry and the ID of its host.
func entryOf(ctx context.Context, tx *core.Tx, node string) (e remote.Entry, hostID string, err error) {
	g, err := host.HostedNode(ctx, tx, node)
	if errors.Is(err, core.ErrNotFound) {
		return e, "", remote.ErrNone
	}
	if err != nil {
		return e, "", err
	}
	e = remote.Entry{
		Node: substrate.Ref{Cluster: g.Guest.Cluster, Node: node, Boot: g.Guest.Boot}, Host: g.HostName, Wanted: g.Wanted,
		Do: g.Guest.Do, Try: g.Guest.Try, Again: g.Guest.Again,
	}
	seen, err := host.SeenOf(ctx, tx, g.HostID)
	if errors.Is(err, core.ErrNotFound) {
		e.Off = true
		return e, g.HostID, nil
	}
	if err != nil {
		return e, "", err
	}
	if e.Silent, err = silentFor(ctx, tx, g.HostID, seen); err != nil || seen.Report == nil {
		return e, g.HostID, err
	}
	e.Current = seen.Report.Revision >= g.Since
	for _, s := range seen.Report.Guests {
		if s.Node != node {
			continue
		}
		if s.Boot == e.Node.Boot {
			e.State = s
		}
		if (s.Present || s.Unseen) && (e.Seen.Node == "" || s.Boot > e.Seen.Boot) {
			e.Seen = s
		}
	}
	return e, g.HostID, nil
}

// silentFor is how long nothing was heard of a hypervisor that could have been heard.
func silentFor(ctx context.Context, tx *core.Tx, hostID string, seen host.Seen) (time.Duration, error) {
	m, err := machine.Get(ctx, tx, hostID)
	if err != nil {
		return 0, err
	}
	listened, err := host.ListenedSince(ctx, tx, m.Network)
	if err != nil {
		return 0, err
	}
	now, err := tx.Now(ctx)
	if listened.After(seen.At) {
		seen.At = listened
	}
	return now.Sub(seen.At), err
}

func (l ledger) Want(ctx context.Context, n substrate.Node, do protocol.HostedDo,
	keep func(remote.Entry) (bool, error)) error {
	g, err := remote.Guest(n)
	if err != nil {
		return err
	}
	return l.db.Update(ctx, func(tx *core.Tx) error {
		m, err := machine.Get(ctx, tx, n.Machine)
		if err != nil {
			return err
		}
		e, _, err := entryOf(ctx, tx, n.Node)
		if err != nil && !errors.Is(err, remote.ErrNone) {
			return err
		}
		kept, err := keep(e)
		if err != nil || kept {
			return err
		}
		return host.AssignGuest(ctx, tx, m.Host, nextTry(g, e, do))
	})
}

func (l ledger) WantSleep(ctx context.Context, r substrate.Ref, keep func(remote.Entry) (bool, error)) error {
	return l.db.Update(ctx, func(tx *core.Tx) error {
		e, hostID, err := entryOf(ctx, tx, r.Node)
		if err != nil {
			return err
		}
		kept, err := keep(e)
		if err != nil || kept {
			return err
		}
		held, err := host.HostedNode(ctx, tx, r.Node)
		if err != nil {
			return err
		}
		return host.AssignGuest(ctx, tx, hostID, nextTry(held.Guest, e, protocol.DoSleep))
	})
}

// nextTry is a guest that is asked to do something once more, or for the first time.
func nextTry(g protocol.HostedGuest, before remote.Entry, do protocol.HostedDo) protocol.HostedGuest {
	g.Try, g.Do, g.Again = before.Try+1, do, 0
	if before.Do == do && before.Node.Boot == g.Boot {
		g.Again = before.Again + 1
	}
	return g
}

func (l ledger) Release(ctx context.Context, node string, upTo int64) error {
	return l.db.Update(ctx, func(tx *core.Tx) error {
		e, hostID, err := entryOf(ctx, tx, node)
		if err != nil || !e.Wanted || e.Node.Boot > upTo {
			return err
		}
		return host.UnassignGuest(ctx, tx, hostID, node)
	})
}

func (l ledger) Forget(ctx context.Context, node string) error {
	return l.db.Update(ctx, func(tx *core.Tx) error { return host.ForgetHosted(ctx, tx, node) })
}

// Guests are those that are reported by the hosts that are to hold them. What else there is on a host, it removes itself.
func (l ledger) Guests(ctx context.Context) ([]substrate.Ref, error) {
	there := map[substrate.Ref]bool{}
	err := l.db.View(ctx, func(tx *core.Tx) error {
		all, err := host.EveryHosted(ctx, tx)
		if err != nil {
			return err
		}
		own := map[string]host.Hosted{}
		for _, g := range all {
			own[g.Guest.Node] = g
			if g.Wanted {
				there[substrate.Ref{Cluster: g.Guest.Cluster, Node: g.Guest.Node, Boot: g.Guest.Boot}] = true
			}
		}
		seen, err := host.AllSeen(ctx, tx)
		for _, host := range seen {
			if host.Report == nil {
				continue
			}
			for _, s := range host.Report.Guests {
				if g := own[s.Node]; (s.Present || s.Unseen) && g.HostID == host.Host && g.Guest.Cluster == s.Cluster {
					there[substrate.Ref{Cluster: s.Cluster, Node: s.Node, Boot: s.Boot}] = true
				}
			}
		}
		return err
	})
	var refs []substrate.Ref
	for ref := range there {
		refs = append(refs, ref)
	}
	return refs, err
}
