package hosting

import (
	"context"
	"errors"

	"muster/internal/core"
	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/remote"
	"muster/internal/kinds/host"
	"muster/internal/kinds/machine"
)

// migrations is the database as the mover of guests elsewhere asks for it.
type migrations struct{ db *core.Store }

func (l migrations) Changed() <-chan struct{} { return l.db.Changed() }

func (l migrations) Migration(ctx context.Context, node string) (mig remote.Migration, err error) {
	err = l.db.View(ctx, func(tx *core.Tx) error {
		a, err := host.MigrationOfNode(ctx, tx, node)
		if errors.Is(err, core.ErrNotFound) {
			return remote.ErrNone
		}
		if err != nil {
			return err
		}
		mig = remote.Migration{
			Node:        substrate.Ref{Cluster: a.Guest.Cluster, Node: node, Boot: a.Guest.Boot},
			Number:      a.Number,
			Step:        a.Step,
			Stage:       remote.Stage(a.Stage),
			Description: a.Description,
			Address:     a.Address,
			Why:         a.Why,
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		mig.Age = now.Sub(a.Begun)
		if mig.From, err = endpointOf(ctx, tx, a, a.Source); err == nil {
			mig.To, err = endpointOf(ctx, tx, a, a.Target)
		}
		return err
	})
	return mig, err
}

// endpointOf is what one host of a move has said.
func endpointOf(ctx context.Context, tx *core.Tx, a host.Migration, at host.Endpoint) (s remote.Endpoint, err error) {
	s.Host = at.Name
	seen, err := host.SeenOf(ctx, tx, at.Host)
	if errors.Is(err, core.ErrNotFound) {
		s.Off = true
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if s.Silent, err = silentFor(ctx, tx, at.Host, seen); err != nil || seen.Report == nil {
		return s, err
	}
	s.Current = seen.Report.Revision >= at.Since
	for _, h := range seen.Report.Moves {
		if h.Node == a.Node && h.Number == a.Number && h.Step == a.Step {
			s.Heard = &h
		}
	}
	for _, g := range seen.Report.Guests {
		if g.Node == a.Node && (s.Seen.Node == "" || g.Boot > s.Seen.Boot) {
			s.Seen = g
		}
	}
	return s, nil
}

func (l migrations) Start(ctx context.Context, n substrate.Node, from, to string, s remote.Stage) error {
	g, err := remote.Guest(n)
	if err != nil {
		return err
	}
	told := s.Directive()
	return l.db.Update(ctx, func(tx *core.Tx) error {
		source, err := machine.Get(ctx, tx, from)
		if err != nil {
			return err
		}
		target, err := machine.Get(ctx, tx, to)
		if err != nil {
			return err
		}
		hosted, err := host.HostedNode(ctx, tx, n.Node)
		if err != nil {
			return err
		}
		g.Try = hosted.Guest.Try // it is over where it arrives, too
		return host.StartMigration(ctx, tx, host.Migration{
			Node: n.Node, Source: host.Endpoint{Host: source.ID, Does: told.Source},
			Target: host.Endpoint{Host: target.ID, Does: told.Target},
			Stage:  string(s), Kept: told.Kept, Guest: g,
		})
	})
}

func (l migrations) Advance(ctx context.Context, mig remote.Migration) error {
	told := mig.Stage.Directive()
	return l.db.Update(ctx, func(tx *core.Tx) error {
		a, err := host.MigrationOfNode(ctx, tx, mig.Node.Node)
		if err != nil {
			return err
		}
		a.Stage, a.Source.Does, a.Target.Does, a.Kept = string(mig.Stage), told.Source, told.Target, told.Kept
		a.Step, a.Description, a.Address, a.Why = mig.Step, mig.Description, mig.Address, mig.Why
		return host.StepMigration(ctx, tx, a)
	})
}

func (l migrations) Cancel(ctx context.Context, node string) error {
	return l.db.Update(ctx, func(tx *core.Tx) error { return host.ForgetMigration(ctx, tx, node) })
}
