package hostd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"muster/internal/drivers/substrate"
	"muster/internal/drivers/substrate/remote"
	"muster/internal/drivers/substrate/vm"
	"muster/internal/protocol"
)

// Movers are the guests' driver as far as guests come and go while they run: vm.Driver. Calls come in this order, some at the old
// host and some at the new one, and each may be repeated.
type Movers interface {
	// Leave is called at the old host, where the guest runs on: how it is described.
	Leave(ctx context.Context, r substrate.Ref) (description string, err error)
	// Receive makes a place at the new host for a guest of that description, and says how it is described here.
	Receive(ctx context.Context, n substrate.Node, description string) (here string, err error)
	// Send copies the guest from the old host, through connections to the new one. The guest stands still there at its end.
	Send(ctx context.Context, r substrate.Ref, description string, dial vm.Dial) error
	// Dial opens such a connection at the new host, to what takes the copy.
	Dial(ctx context.Context) (net.Conn, error)
	// Arrive lets the guest run on at the new host. It is called once its QEMU was seen gone at the old one.
	Arrive(ctx context.Context, n substrate.Node) error
}

// moving is what a guest is at while a step goes on, in a user's words.
var moving = map[protocol.MoveStep]string{
	protocol.MoveLeave: "is described", protocol.MoveReceive: "is prepared", protocol.MoveListen: "is awaited",
	protocol.MoveSend: "is copied", protocol.MoveArrive: "is let run",
}

// stage is a step of one move.
type stage struct{ number, step int64 }

func stageOf(m *protocol.HostedMove) stage {
	if m == nil {
		return stage{}
	}
	return stage{m.Number, m.Step}
}

// untravelled says that there is a step of its move that is not over. The caller has the lock.
func (g *guest) untravelled() bool {
	return g.move != nil && g.move.Do != protocol.MoveHold &&
		(g.moved == nil || stage{g.moved.Number, g.moved.Step} != stageOf(g.move))
}

// travel is one step of a guest's move. within ends when another is wanted, ctx when all of us ends.
func (h *host) travel(within, ctx context.Context, g *guest, m protocol.HostedMove) {
	over := protocol.HostedMoved{Node: g.node, Number: m.Number, Step: m.Step}
	err := h.migrate(within, g, m, &over)
	if ctx.Err() != nil || within.Err() != nil && err != nil {
		return // not over: the next agent goes on, or what is wanted next
	}
	switch {
	case errors.Is(err, vm.ErrNotHere):
		over.Gone = err.Error()
	case err != nil:
		over.Failed = err.Error()
	}
	if err != nil {
		h.say("guest %s: %s: %v", m.Guest.Machine, m.Do, err)
	} else {
		h.say("guest %s: %s: done", m.Guest.Machine, m.Do)
	}
	h.mu.Lock()
	g.moved = &over
	h.mu.Unlock()
	h.observe(ctx, g)
}

func (h *host) migrate(ctx context.Context, g *guest, m protocol.HostedMove, over *protocol.HostedMoved) (err error) {
	if h.Movers == nil {
		return errors.New("guests cannot move from here or to here")
	}
	n, err := remote.Node(m.Guest)
	if err != nil {
		return err
	}
	other, way := peer{m.Peer, m.PeerBoot}, protocolOf(m.Guest.Node, m.Number)
	switch m.Do {
	case protocol.MoveLeave:
		over.Description, err = h.Movers.Leave(ctx, n.Ref)
	case protocol.MoveReceive:
		if err := h.furnish(ctx, g, m.Guest); err != nil {
			return err
		}
		h.is(g, "makes a place for it")
		over.Description, err = h.Movers.Receive(ctx, n, m.Description)
	case protocol.MoveListen:
		var at netip.AddrPort
		if at, err = h.Address(); err == nil {
			over.Address, err = h.receiver.open(ctx, at, way, other)
		}
	case protocol.MoveSend:
		err = h.Movers.Send(ctx, n.Ref, m.Description, func(ctx context.Context) (net.Conn, error) {
			return h.Keys.dial(ctx, m.Address, way, other)
		})
	case protocol.MoveArrive:
		// From its first moment here it has been tried: who finds it dead must not make it again.
		if err := h.tried(g, m.Guest); err != nil {
			return err
		}
		err = h.Movers.Arrive(ctx, n)
	default:
		err = fmt.Errorf("a step of a move that this agent does not know: %q", m.Do)
	}
	return err
}

// tried remembers a guest's try as one that is over.
func (h *host) tried(g *guest, w protocol.HostedGuest) error {
	over := try{Boot: w.Boot, Try: w.Try}
	if err := h.remember(g.id, over); err != nil {
		return err
	}
	h.mu.Lock()
	g.over = over
	h.mu.Unlock()
	return nil
}

// awaits shuts the ways of guests that are not awaited any more. The caller has the lock.
func (h *host) awaits() {
	var ways []string
	for _, m := range h.wanted.Moves {
		if m.Do == protocol.MoveListen {
			ways = append(ways, protocolOf(m.Guest.Node, m.Number))
		}
	}
	h.receiver.keep(ways)
}

// movedOn lists the steps that are over. The caller has the lock.
func (h *host) movedOn() []protocol.HostedMoved {
	var all []protocol.HostedMoved
	for _, g := range h.guests {
		if g.moved != nil {
			all = append(all, *g.moved)
		}
	}
	slices.SortFunc(all, func(a, b protocol.HostedMoved) int { return slices.Compare([]byte(a.Node), []byte(b.Node)) })
	return all
}
