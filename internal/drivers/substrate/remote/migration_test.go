package remote

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/internal/drivers/substrate"
	"muster/internal/protocol"
)

// What a guest is at a host on paper.
type standing string

const (
	nowhere  standing = ""
	reserved standing = "a place for it"
	halted   standing = "whole, and stands still"
	alive    standing = "runs"
	dead     standing = "has ended"
)

// papers are two hosts on paper, their agents, and what a ledger has of them. Everything happens in single steps, in whatever
// order.
type papers struct {
	*rapid.T
	hosts      [2]*paper
	row        *Migration // nil: no move
	directives Directive
	wanted     int // the host that is to hold the guest; -1: none
	calm       bool
	age        time.Duration // of the move
	lost       bool          // the guest has died, or its host was switched off
}

// paper is one of them.
type paper struct {
	name     string
	guest    standing
	tried    bool // its agent remembers that the guest's try is over
	revision int64
	doc      *order // what its agent has taken up; nil: nothing
	over     *protocol.HostedMoved
	report   *account // what the ledger has heard; nil: the machine was seen off
}

// order is what an agent is told; account is what it tells.
type order struct {
	revision int64
	wanted   bool
	move     *protocol.HostedMove
}

type account struct {
	revision int64
	guest    standing
	over     *protocol.HostedMoved
}

const (
	source = iota
	target
)

func newPapers(t *rapid.T) *papers {
	p := &papers{T: t, hosts: [2]*paper{{name: "hv1", guest: alive, tried: true}, {name: "hv2"}}, wanted: source}
	for i := range p.hosts {
		p.hear(i)
		p.says(i)
	}
	return p
}

// The ledger.

func (p *papers) Changed() <-chan struct{} { return nil }

func (p *papers) Migration(context.Context, string) (Migration, error) {
	if p.row == nil {
		return Migration{}, ErrNone
	}
	j := *p.row
	j.Age = p.age
	j.From, j.To = p.stop(source), p.stop(target)
	return j, nil
}

func (p *papers) stop(i int) Endpoint {
	h := p.hosts[i]
	s := Endpoint{Host: h.name, Off: h.report == nil}
	if s.Off {
		return s
	}
	s.Current = h.report.revision >= h.revision
	if o := h.report.over; o != nil && o.Number == p.row.Number && o.Step == p.row.Step {
		s.Heard = o
	}
	s.Seen.Present = h.report.guest != nowhere
	return s
}

func (p *papers) tell(s Stage) {
	p.directives = s.Directive()
	for _, h := range p.hosts {
		h.revision++
	}
}

func (p *papers) Start(_ context.Context, n substrate.Node, _, _ string, s Stage) error {
	p.tell(s)
	p.row = &Migration{Node: n.Ref, Number: p.hosts[target].revision, Step: 1, Stage: s}
	return nil
}

func (p *papers) Advance(_ context.Context, j Migration) error {
	if j.Step != p.row.Step || j.Number != p.row.Number {
		p.Fatalf("from stage %s somebody goes on from step %d, which is %d", p.row.Stage, j.Step, p.row.Step)
	}
	j.Step++
	p.row = &j
	p.tell(j.Stage)
	return nil
}

func (p *papers) Cancel(context.Context, string) error {
	p.wanted, p.row = -1, nil
	p.tell(Stays)
	return nil
}

// The agents.

// hear has an agent take up what it is told, as package monitor composes it.
func (p *papers) hear(i int) {
	h := p.hosts[i]
	if h.report == nil { // it was off, and is met before it is told anything
		h.report = &account{revision: -1}
	}
	o := &order{revision: h.revision, wanted: p.wanted == i}
	if p.row != nil {
		does := p.directives.Target
		if i == source {
			does = p.directives.Source
			o.wanted = o.wanted && p.directives.Kept
		}
		if does != "" {
			o.move = &protocol.HostedMove{Number: p.row.Number, Step: p.row.Step, Do: does}
		}
	}
	h.doc = o
}

func (p *papers) says(i int) {
	h := p.hosts[i]
	a := &account{guest: h.guest, over: h.over}
	if h.doc != nil {
		a.revision = h.doc.revision
	}
	h.report = a
}

func (p *papers) fails(what string) bool {
	return !p.calm && rapid.IntRange(0, 4).Draw(p.T, what) == 0
}

// act has an agent do one step.
func (p *papers) act(i int) {
	h, other := p.hosts[i], p.hosts[1-i]
	switch d := h.doc; {
	case d == nil:
	case d.move != nil && d.move.Do == protocol.MoveHold:
	case d.move != nil && (h.over == nil || h.over.Number != d.move.Number || h.over.Step != d.move.Step):
		over := &protocol.HostedMoved{Number: d.move.Number, Step: d.move.Step}
		if p.fails("before") {
			over.Failed = "an accident before"
		} else {
			p.travel(h, other, d.move, over)
		}
		if over.Failed == "" && p.fails("after") {
			over.Failed = "an accident after"
		}
		h.over = over
	case d.move != nil:
	case !d.wanted && !p.fails("remove"):
		if h.guest == halted && other.guest != alive && p.wanted >= 0 && p.row != nil && p.row.Stage != Ending &&
			p.row.Stage != Ended {
			p.Errorf("in stage %s the only whole copy is thrown away", p.row.Stage)
		}
		h.guest, h.tried, h.over = nowhere, false, nil
	case d.wanted && !h.tried:
		p.Errorf("%s makes a guest again whose token is used up", h.name)
	}
	if d := h.doc; d != nil && d.move == nil {
		h.over = nil
	}
	p.one()
}

func (p *papers) travel(h, other *paper, m *protocol.HostedMove, over *protocol.HostedMoved) {
	switch m.Do {
	case protocol.MoveLeave:
		if h.guest != alive {
			over.Gone = "it has ended"
		}
	case protocol.MoveReceive:
		if h.guest == alive {
			p.Error("a place is made where the guest runs")
		}
		if h.guest == halted && other.guest != alive && !p.lost {
			p.Error("a place is made where the only whole copy is")
		}
		h.guest = reserved
	case protocol.MoveSend:
		awaits := other.doc != nil && other.doc.move != nil && other.doc.move.Do == protocol.MoveListen &&
			other.doc.move.Number == m.Number
		if h.guest != alive || !awaits || other.guest != reserved {
			over.Failed = "it cannot be sent"
			return
		}
		if p.fails("in the middle") {
			over.Failed = "it broke off"
			return
		}
		other.guest = halted
		if p.fails("at the end") {
			over.Failed = "it broke off at its end"
			return
		}
		h.guest = dead
	case protocol.MoveArrive:
		h.tried = true
		switch h.guest {
		case halted:
			h.guest = alive
		case alive:
		default:
			over.Gone = "nothing of it has come"
		}
	}
}

// one is what holds at all times.
func (p *papers) one() {
	if p.hosts[source].guest == alive && p.hosts[target].guest == alive {
		p.Fatalf("two guests run, in stage %v", p.row)
	}
}

// off is a machine that was switched off, and seen off.
func (p *papers) off(i int) {
	h := p.hosts[i]
	p.lost = p.lost || h.guest == alive || h.guest == halted
	*h = paper{name: h.name, revision: h.revision + 1}
	if p.wanted == i {
		p.wanted = -1
	}
}

// anything is one thing that happens.
func (p *papers) anything() {
	i := rapid.IntRange(source, target).Draw(p.T, "host")
	h := p.hosts[i]
	switch rapid.SampledFrom([]string{"hears", "acts", "says", "hears", "acts", "says", "restarts", "ends", "dies", "lasts"}).
		Draw(p.T, "what") {
	case "hears":
		p.hear(i)
	case "acts":
		p.act(i)
	case "says":
		if h.doc != nil || h.report != nil {
			p.says(i)
		}
	case "restarts": // its agent
		h.doc, h.over = nil, nil
	case "ends":
		if rapid.IntRange(0, 40).Draw(p.T, "off") == 0 {
			p.off(i)
		}
	case "lasts":
		if rapid.IntRange(0, 10).Draw(p.T, "long") == 0 {
			p.age = 2 * time.Hour
		}
	case "dies":
		if h.guest == alive && rapid.IntRange(0, 40).Draw(p.T, "dies") == 0 {
			h.guest, p.lost = dead, true
		}
	}
}

// settle has both hosts do all that they are told.
func (p *papers) settle() {
	for i := range p.hosts {
		p.hear(i)
		p.act(i)
		p.says(i)
	}
}

func TestWhateverFailsOnItsWayThereIsOneGuest(t *testing.T) {
	ends := map[string]int{}
	one := func(t *rapid.T) {
		p := newPapers(t)
		m := NewMover(MoverConfig{Migrations: p, Silence: time.Hour, Limit: time.Hour})
		n := substrate.Node{Ref: substrate.Ref{Cluster: "c1", Node: "n1", Boot: 1}}
		err := substrate.ErrUnderway
		forget := rapid.IntRange(-300, 100).Draw(t, "forgotten after")
		for turn := 0; turn < 100 && errors.Is(err, substrate.ErrUnderway) && turn != forget; turn++ {
			p.anything()
			if rapid.Bool().Draw(t, "the controller looks") {
				err = m.Move(context.Background(), n, "hv1", "hv2")
			}
		}
		p.calm = true
		forgotten := errors.Is(err, substrate.ErrUnderway) && forget > 0
		for turn := 0; errors.Is(err, substrate.ErrUnderway); turn++ {
			if turn > 100 {
				t.Fatalf("it comes to no end: %v", err)
			}
			p.settle()
			if forgotten {
				err = m.Forget(context.Background(), n.Ref, "hv2")
			} else {
				err = m.Move(context.Background(), n, "hv1", "hv2")
			}
		}
		at, there := p.hosts[source], p.hosts[target]
		switch {
		case forgotten && err == nil:
			if there.guest != nowhere {
				t.Errorf("forgotten, and at the target is %q", there.guest)
			}
			p.wanted = -1
			ends["forgotten"]++
		case err == nil: // as host.EndMove does
			if there.guest != alive && !p.lost || at.guest != nowhere && at.report != nil {
				t.Errorf("moved, and at the source is %q, at the target %q", at.guest, there.guest)
			}
			p.wanted = target
			ends["moved"]++
		case errors.Is(err, substrate.ErrStays):
			if at.guest != alive && !p.lost || there.guest != nowhere {
				t.Errorf("it stays, and at the source is %q, at the target %q", at.guest, there.guest)
			}
			ends["stays"]++
		case errors.Is(err, substrate.ErrEnded):
			if !p.lost {
				t.Errorf("it has ended for nothing: %v", err)
			}
			ends["ended"]++
			for range 10 {
				if err = m.Forget(context.Background(), n.Ref, "hv2"); err == nil {
					break
				}
				p.settle()
			}
			if err != nil {
				t.Errorf("its end is not cleared up: %v", err)
			}
			p.wanted = -1
		default:
			t.Fatal(err)
		}
		p.row = nil
		p.tell(Stays)
		for i, h := range p.hosts { // a host that was switched off may come back, and hold what it is to
			if h.guest == nowhere && p.wanted == i {
				h.tried = true
			}
		}
		for range 3 {
			p.settle()
		}
		for i, h := range p.hosts {
			if p.wanted != i && h.guest != nowhere {
				t.Errorf("%s keeps what nobody wants: %q", h.name, h.guest)
			}
		}
	}
	for range 100 { // a guest that moves is one of thirty
		if rapid.Check(t, one); ends["moved"] > 0 && ends["stays"] > 0 {
			break
		}
	}
	t.Logf("%v", ends)
	if ends["moved"] == 0 || ends["stays"] == 0 {
		t.Errorf("not all was tried: %v", ends)
	}
}

// A stage that its hosts are told nothing of would wait for ever.
func TestEveryStageIsKnown(t *testing.T) {
	for _, s := range []Stage{Describing, Receiving, Listening, Sending, Recalling, Arriving, Clearing, Forgetting, Ending, Moved,
		Stays, Ended, Dropped} {
		directives, known := directives[s]
		if !known {
			t.Errorf("stage %s tells nobody anything", s)
		}
		if directives.Target == protocol.MoveArrive && (directives.Kept || directives.Source != "") {
			t.Errorf("in stage %s the guest may run at the target, and is the source's still", s)
		}
	}
}

// From the stage in which its target may let the guest run no way leads back to one in which its source is to have it.
func TestNoWayLeadsBackFromArriving(t *testing.T) {
	m := NewMover(MoverConfig{Silence: time.Minute, Limit: time.Minute})
	heard := []*protocol.HostedMoved{nil, {}, {Gone: "gone"}, {Failed: "failed"}, {Description: "it", Address: "there"}}
	seen := map[Stage]bool{Arriving: true}
	for todo := []Stage{Arriving}; len(todo) > 0; todo = todo[1:] {
		for _, from := range heard {
			for _, to := range heard {
				for bits := range 32 {
					stop := func(shift int, h *protocol.HostedMoved) Endpoint {
						return Endpoint{Off: bits>>shift&1 == 1, Current: bits>>(shift+1)&1 == 1, Heard: h}
					}
					next, doing := m.next(Migration{Stage: todo[0], From: stop(0, from), To: stop(2, to),
						Age: time.Duration(bits>>4) * time.Hour})
					if directives[next.Stage].Kept {
						t.Fatalf("from %s a way leads to %s (%s)", todo[0], next.Stage, doing)
					}
					if !seen[next.Stage] {
						seen[next.Stage], todo = true, append(todo, next.Stage)
					}
				}
			}
		}
	}
	if got := len(seen); got != 4 {
		t.Errorf("from arriving lead ways to %v", seen)
	}
}

func TestAMoveThatTakesTooLongIsCalledOffWhereItCanBe(t *testing.T) {
	m := NewMover(MoverConfig{Silence: time.Minute, Limit: time.Minute})
	for stage, want := range map[Stage]Stage{Describing: Forgetting, Receiving: Forgetting, Listening: Forgetting,
		Sending: Recalling, Recalling: Recalling, Arriving: Arriving} {
		if next, _ := m.next(Migration{Stage: stage, Age: time.Hour}); next.Stage != want {
			t.Errorf("from %s it goes on to %s, not %s", stage, next.Stage, want)
		}
	}
}

func TestAHostThatCannotLookProvesNothing(t *testing.T) {
	m := NewMover(MoverConfig{Silence: time.Minute, Limit: time.Minute})
	blind := Endpoint{Host: "hv", Current: true, Seen: protocol.HostedState{Node: "n1", Unseen: true}}
	for _, stage := range []Stage{Clearing, Forgetting, Ending} {
		if next, _ := m.next(Migration{Stage: stage, From: blind, To: blind}); next.Stage != stage {
			t.Errorf("from %s it goes on to %s", stage, next.Stage)
		}
	}
	if doing := m.waits(Endpoint{Host: "hv", Silent: time.Hour},
		"to say so"); doing != "waits for hypervisor hv to say so, which has been silent for 3600 s" {
		t.Error(doing)
	}
}
