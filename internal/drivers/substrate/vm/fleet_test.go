package vm

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"testing"

	"muster/internal/drivers/substrate"
)

// What a guest is at a host on paper.
type standing string

const (
	nowhere standing = ""
	place   standing = "a place for it"
	halted  standing = "whole, and stands still"
	alive   standing = "runs"
	dead    standing = "has ended"
)

// paper is a host on paper. Every call may fail before or after it has done what it does, and a copy may break off when it
// has come whole and the old QEMU has not been ended.
type paper struct {
	t     *testing.T
	dice  *rand.Rand
	guest standing
	other *paper
	calm  bool // nothing fails any more
}

var errAccident = errors.New("an accident")

func (p *paper) fails() error {
	if !p.calm && p.dice.IntN(5) == 0 {
		return errAccident
	}
	return nil
}

// Nobody sleeps here.
func (p *paper) Sleep(context.Context, substrate.Ref) (int64, error) { return 0, errAccident }
func (p *paper) Wake(context.Context, substrate.Node) error          { return errAccident }

func (p *paper) Leave(context.Context, substrate.Ref) (string, error) {
	if err := p.fails(); err != nil {
		return "", err
	}
	if p.guest != alive {
		return "", ErrNotHere
	}
	return "it", p.fails()
}

func (p *paper) Receive(context.Context, substrate.Node, string) (string, error) {
	if err := p.fails(); err != nil {
		return "", err
	}
	if p.guest == alive {
		p.t.Error("a place is made where the guest runs")
	}
	p.guest = place
	return "it", p.fails()
}

func (p *paper) Send(context.Context, substrate.Ref, string, Dial) error {
	if err := p.fails(); err != nil {
		return err
	}
	if p.other.guest != place {
		p.t.Errorf("it is sent where %q", p.other.guest)
	}
	p.other.guest = halted
	if err := p.fails(); err != nil {
		return err
	}
	p.guest = dead
	return p.fails()
}

func (p *paper) Dial(context.Context) (net.Conn, error) { return nil, errAccident }

func (p *paper) Arrive(context.Context, substrate.Node) error {
	if err := p.fails(); err != nil {
		return err
	}
	switch {
	case p.other.guest == alive:
		p.t.Error("it is to run at its new host and runs at the old one")
	case p.guest == halted:
		p.guest = alive
	case p.guest != alive:
		return ErrNotHere
	}
	return p.fails()
}

func (p *paper) Remove(context.Context, substrate.Ref) error {
	if err := p.fails(); err != nil {
		return err
	}
	if p.guest == alive {
		p.t.Error("a guest that runs is removed")
	}
	if p.guest == halted && p.other.guest != alive {
		p.t.Error("the only whole copy is removed")
	}
	p.guest = nowhere
	return p.fails()
}

func TestWhateverFailsThereIsOneGuest(t *testing.T) {
	stayed, moved := 0, 0
	for seed := range uint64(5000) {
		dice := rand.New(rand.NewPCG(seed, 1))
		a, b := &paper{t: t, dice: dice, guest: alive}, &paper{t: t, dice: dice}
		a.other, b.other = b, a
		hosts := Fleet(func(name string) (Host, error) {
			if name == source {
				return a, nil
			}
			return b, nil
		})
		err := errAccident
		for tries := 0; errors.Is(err, errAccident) && !errors.Is(err, substrate.ErrStays); tries++ {
			a.calm, b.calm = tries > 20, tries > 20
			err = hosts.Move(t.Context(), substrate.Node{}, source, target)
		}
		switch {
		case err == nil && a.guest == nowhere && b.guest == alive:
			moved++
		case errors.Is(err, substrate.ErrStays) && a.guest == alive && b.guest == nowhere:
			stayed++
		default:
			t.Fatalf("seed %d: the move says %v; at the source %q, at the target %q", seed, err, a.guest, b.guest)
		}
	}
	if stayed == 0 || moved == 0 {
		t.Errorf("%d stayed, %d moved: not all was tried", stayed, moved)
	}
}

func TestAGuestThatDiedHasEnded(t *testing.T) {
	a, b := &paper{t: t, guest: dead, calm: true}, &paper{t: t, guest: place, calm: true}
	a.other, b.other = b, a
	err := Fleet(func(name string) (Host, error) { return map[string]Host{source: a, target: b}[name], nil }).Move(t.Context(), substrate.Node{}, source, target)
	if !errors.Is(err, substrate.ErrEnded) {
		t.Errorf("the move says %v", err)
	}
}
