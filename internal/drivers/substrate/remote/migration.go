package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/internal/drivers/substrate"
	"muster/internal/protocol"
)

// A guest that moves between two hosts elsewhere goes from stage to stage. Each stage is written before either host is told of
// it, and each host's answer counts for that stage alone; so whatever dies, what is true can be asked again. There is never a
// second guest that runs: the target lets it run in one stage only, which begins when the source has said that its QEMU is
// gone, or was seen off.

// Stage is how far a move is.
type Stage string

// Stages of a move; the last four are its ends.
const (
	Describing Stage = "describing" // the source says how the guest is described
	Receiving  Stage = "receiving"  // the target makes a place for it
	Listening  Stage = "listening"  // the target lets the source in
	Sending    Stage = "sending"    // the source copies it
	Recalling  Stage = "recalling"  // the copy has failed, and the source says whether the guest is there still
	Arriving   Stage = "arriving"   // the guest is gone from the source, and the target lets it run
	Clearing   Stage = "clearing"   // the guest runs at the target, and the source takes away what is left
	Forgetting Stage = "forgetting" // the guest runs at the source, and the target takes away what came
	Ending     Stage = "ending"     // the guest is to end, wherever it is, and the target takes away what it has of it
	Moved      Stage = "moved"
	Stays      Stage = "stays"
	Ended      Stage = "ended"
	Dropped    Stage = "dropped"
)

// directives is what the two hosts do in each stage. A target that is told nothing takes away what it has of the guest; a
// source that keeps nothing does too; and none that had begun to keep nothing is ever to keep it again, since it would make it
// again.
var directives = map[Stage]Directive{
	Describing: {Source: protocol.MoveLeave, Kept: true},
	Receiving:  {Target: protocol.MoveReceive, Kept: true},
	Listening:  {Target: protocol.MoveListen, Kept: true},
	Sending:    {Source: protocol.MoveSend, Target: protocol.MoveListen, Kept: true},
	Recalling:  {Source: protocol.MoveLeave, Target: protocol.MoveHold, Kept: true},
	Arriving:   {Target: protocol.MoveArrive},
	Clearing:   {Target: protocol.MoveHold},
	Moved:      {Target: protocol.MoveHold},
	Forgetting: {Kept: true},
	Stays:      {Kept: true},
	Ended:      {},
	Ending:     {},
	Dropped:    {},
}

// ends are the ends of the stages in which the target takes away what it has.
var ends = map[Stage]Stage{Forgetting: Stays, Ending: Dropped}

// Directive is what the two hosts of a move are told.
type Directive struct {
	Source, Target protocol.MoveStep // "": nothing
	Kept           bool              // the source has the guest still
}

// Directive is what they are told in this stage.
func (s Stage) Directive() Directive { return directives[s] }

// Migration is what the ledger has of a move, in one snapshot.
type Migration struct {
	Node        substrate.Ref
	Number      int64
	Step        int64
	Stage       Stage
	From, To    Endpoint
	Description string
	Address     string
	Why         string
	Age         time.Duration // since it began
}

// Endpoint is one of its two hosts.
type Endpoint struct {
	Host    string
	Off     bool // the host's agent was never here since its machine was off: nothing runs there
	Current bool // the host has said that it knows of this stage
	Silent  time.Duration
	Heard   *protocol.HostedMoved // what it has answered to this stage; nil: nothing yet
	Seen    protocol.HostedState  // what is present of the guest there, or may be; its zero value if nothing is
}

// Migrations keeps moves. ErrNone is returned for what is not there.
type Migrations interface {
	// Migration finds the move of a node's guest.
	Migration(ctx context.Context, node string) (Migration, error)
	// Start writes the first stage of a move, and keeps a move that is there.
	Start(ctx context.Context, n substrate.Node, from, to string, s Stage) error
	// Advance writes a stage, with what belongs to it, unless somebody has gone on from mig.Step before.
	Advance(ctx context.Context, mig Migration) error
	// Cancel forgets a move of a guest that is to end, and has the source hold it no longer.
	Cancel(ctx context.Context, node string) error
	// Changed is closed when there may be news.
	Changed() <-chan struct{}
}

// MoverConfig is what a Mover works with.
type MoverConfig struct {
	Migrations Migrations
	Silence    time.Duration // a host's agent that says nothing for longer is silent
	Patience   time.Duration // how long a call waits for hosts before it is substrate.ErrUnderway
	Limit      time.Duration // for the copy to come to its end; then the guest stays
}

// Mover moves guests between hosts elsewhere. It keeps nothing itself. It implements substrate.Mover.
type Mover struct{ config MoverConfig }

var _ substrate.Mover = (*Mover)(nil)

// NewMover makes one.
func NewMover(c MoverConfig) *Mover { return &Mover{c} }

// Reaches is true of every host elsewhere: their agents carry what moves.
func (m *Mover) Reaches(string) bool { return true }

// Move goes on with a node's move, however far it is, and returns when it has come to its end, or with ErrUnderway.
func (m *Mover) Move(ctx context.Context, n substrate.Node, from, to string) error {
	err := m.follow(ctx, n.Node, func(ctx context.Context) error {
		return m.config.Migrations.Start(ctx, n, from, to, Describing)
	})
	if err != nil && !errors.Is(err, substrate.ErrStays) && !errors.Is(err, substrate.ErrEnded) {
		return fmt.Errorf("move node %s: %w", n.Node, err)
	}
	return err
}

// Forget ends a move, wherever it is, and takes away what there is of the guest at the target.
func (m *Mover) Forget(ctx context.Context, r substrate.Ref, _ string) error {
	mig, err := m.config.Migrations.Migration(ctx, r.Node)
	if errors.Is(err, ErrNone) {
		return nil // it has not begun: nothing can be there
	}
	if err == nil && mig.Stage != Ending && mig.Stage != Dropped {
		err = m.config.Migrations.Advance(ctx, mig.to(Ending, "it is to end"))
	}
	if err == nil {
		err = m.follow(ctx, r.Node, func(context.Context) error { return ErrNone })
	}
	if err == nil {
		err = m.config.Migrations.Cancel(ctx, r.Node)
	}
	if err != nil && !errors.Is(err, ErrNone) {
		return fmt.Errorf("forget the move of node %s: %w", r.Node, err)
	}
	return nil
}

// follow takes a move from stage to stage until it has ended, or patience has.
func (m *Mover) follow(ctx context.Context, node string, depart func(context.Context) error) error {
	patience := time.NewTimer(m.config.Patience)
	defer patience.Stop()
	for {
		changed := m.config.Migrations.Changed()
		mig, err := m.config.Migrations.Migration(ctx, node)
		if errors.Is(err, ErrNone) {
			if err = depart(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		next, doing := m.next(mig)
		if next.Stage != mig.Stage || doing == "" {
			if err := m.config.Migrations.Advance(ctx, next); err != nil {
				return err
			}
			continue
		}
		switch mig.Stage {
		case Moved, Dropped:
			return nil
		case Stays:
			return fmt.Errorf("%w: %s", substrate.ErrStays, mig.Why)
		case Ended:
			return fmt.Errorf("%w: %s", substrate.ErrEnded, mig.Why)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			if next.Step != mig.Step { // the stage once more, and only now: what has failed is not asked for without a pause
				next.Step = mig.Step
				if err := m.config.Migrations.Advance(ctx, next); err != nil {
					return err
				}
			}
			return fmt.Errorf("%w: %s", substrate.ErrUnderway, doing)
		case <-changed:
		case <-time.After(look):
		}
	}
}

// to is the migration at another stage.
func (mig Migration) to(s Stage, why string) Migration {
	mig.Stage = s
	if why != "" {
		mig.Why = why
	}
	return mig
}

// again is the same stage, to be asked for once more.
func (mig Migration) again() Migration {
	mig.Step++
	return mig
}

// next is what a move goes on to: another stage; or the same, with what it waits for; or the same again, with what has failed.
func (m *Mover) next(mig Migration) (next Migration, doing string) {
	from, to := mig.From, mig.To
	late := mig.Age > m.config.Limit
	switch mig.Stage {
	case Describing:
		switch h := from.Heard; {
		case from.Off:
			return mig.to(Arriving, ""), ""
		case h != nil && h.Gone != "":
			return mig.to(Arriving, h.Gone), ""
		case h != nil && h.Failed != "":
			return mig.to(Forgetting, from.says(h.Failed)), ""
		case h != nil:
			mig.Description = h.Description
			return mig.to(Receiving, ""), ""
		case late:
			return mig.to(Forgetting, m.waits(from, "to describe it")), ""
		}
		return mig, m.waits(from, "to describe it")
	case Receiving, Listening:
		switch h := to.Heard; {
		case to.Off:
			return mig.to(Forgetting, "hypervisor "+to.Host+" is off"), ""
		case h != nil && h.Gone+h.Failed != "":
			return mig.to(Forgetting, to.says(h.Gone+h.Failed)), ""
		case h != nil && mig.Stage == Receiving:
			mig.Description = h.Description
			return mig.to(Listening, ""), ""
		case h != nil:
			mig.Address = h.Address
			return mig.to(Sending, ""), ""
		case late:
			return mig.to(Forgetting, m.waits(to, "to make a place for it")), ""
		}
		return mig, m.waits(to, "to make a place for it")
	case Sending:
		switch h := from.Heard; {
		case from.Off:
			return mig.to(Arriving, "hypervisor "+from.Host+" is off"), ""
		case h != nil && h.Gone+h.Failed != "":
			return mig.to(Recalling, from.says(h.Gone+h.Failed)), ""
		case h != nil:
			return mig.to(Arriving, ""), ""
		case to.Off:
			return mig.to(Recalling, "hypervisor "+to.Host+" is off"), ""
		case late:
			return mig.to(Recalling, fmt.Sprintf("it was not copied within %s: it may write faster than it can be copied",
				m.config.Limit)), ""
		}
		return mig, m.waits(from, "to copy it to "+to.Host)
	case Recalling:
		switch h := from.Heard; {
		case from.Off:
			return mig.to(Arriving, ""), ""
		case h != nil && h.Gone != "":
			return mig.to(Arriving, ""), ""
		case h != nil && h.Failed != "":
			return mig.again(), from.says(h.Failed)
		case h != nil:
			return mig.to(Forgetting, ""), ""
		}
		return mig, m.waits(from, "to say whether it runs there still: "+mig.Why)
	case Arriving:
		switch h := to.Heard; {
		case to.Off:
			return mig.to(Ended, "hypervisor "+to.Host+", where its memory was, is off"), ""
		case h != nil && h.Gone != "":
			return mig.to(Ended, h.Gone), ""
		case h != nil && h.Failed != "":
			return mig.again(), to.says(h.Failed)
		case h != nil:
			return mig.to(Clearing, ""), ""
		}
		return mig, m.waits(to, "to let it run")
	case Clearing:
		if from.empty() {
			return mig.to(Moved, ""), ""
		}
		return mig, m.waits(from, "to take away what is left")
	case Forgetting, Ending:
		if to.empty() {
			return mig.to(ends[mig.Stage], ""), ""
		}
		return mig, m.waits(to, "to take away what has come")
	}
	return mig, string(mig.Stage)
}

// empty says that nothing of the guest is at a host, or can come to be there in this stage.
func (s Endpoint) empty() bool {
	return s.Off || s.Current && !s.Seen.Present && !s.Seen.Unseen && s.Seen.Doing == ""
}

func (s Endpoint) says(what string) string { return fmt.Sprintf("hypervisor %s: %s", s.Host, what) }

// waits says what a move waits for.
func (m *Mover) waits(s Endpoint, what string) string {
	if s.Silent > m.config.Silence && !s.Off {
		return fmt.Sprintf("waits for hypervisor %s %s, which has been silent for %.0f s", s.Host, what, s.Silent.Seconds())
	}
	if s.Seen.Doing != "" {
		return fmt.Sprintf("waits for hypervisor %s %s: it %s", s.Host, what, s.Seen.Doing)
	}
	return fmt.Sprintf("waits for hypervisor %s %s", s.Host, what)
}
